"""Sluice's GGUF reading against the `gguf` package: values of every type, and models written through the package.

The seed is fresh, or in SLUICE_TEST_SEED. SLUICE_ORACLES names a folder with those of tests/oracles and two more kinds
of models, qwen2-like and qwen3-like."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from safetensors.numpy import load_file, save_file

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from gguf_models import F16_FIELDS, write_gguf_model  # noqa: E402
from seed import SEED  # noqa: E402

ROOT = pathlib.Path(__file__).parent.parent
BUILD = pathlib.Path(os.environ.get("SLUICE_BUILD_DIR", ROOT / "build"))

BLOCK_TYPES = [Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q2_K, Type.Q3_K, Type.Q4_K, Type.Q5_K,
               Type.Q6_K, Type.IQ4_NL, Type.IQ4_XS, Type.MXFP4]


def read_tensors(path, *options):
    """What gguf_tensors reads: name -> (dtype, values)."""
    out = subprocess.run([BUILD / "gguf_tensors", *options, str(path)], stdout=subprocess.PIPE, check=True).stdout
    tensors, at = {}, 0
    while at < len(out):
        end = out.index(b"\n", at)
        head = json.loads(out[at:end])
        assert "error" not in head, head["error"]
        count = int(np.prod(head["shape"], dtype=np.int64))
        values = np.frombuffer(out, np.int32 if head["dtype"] == "I32" else np.float32, count, end + 1)
        assert head["name"] not in tensors
        tensors[head["name"]] = head["dtype"], values.reshape(head["shape"])
        at = end + 1 + 4 * count
    return tensors


def write_gguf(path, tensors, arch="llama", fields=lambda writer: None, **options):
    """`tensors`: name -> array, or (array, type): the array's values stored so, or its bytes when it is uint8."""
    writer = gguf.GGUFWriter(path, arch, **options)
    fields(writer)
    for name, tensor in tensors.items():
        array, kind = tensor if isinstance(tensor, tuple) else (tensor, None)
        if kind is not None and array.dtype != np.uint8:
            array = gguf.quants.quantize(array.astype(np.float32), kind)
        writer.add_tensor(name, np.ascontiguousarray(array), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def same_bits(ours, theirs, message):
    """Equal bit for bit, but every NaN equal to every other."""
    equal = (ours.view(np.uint32) == theirs.view(np.uint32)) | (np.isnan(ours) & np.isnan(theirs))
    if not equal.all():
        i = tuple(np.argwhere(~equal)[0])
        raise AssertionError(f"seed {SEED}: {message}: element {i}: found {ours[i]!r}, expected {theirs[i]!r}")


def blocks_of(kind, rng, count):
    """`count` blocks: random bytes; extreme and ordinary scales; a few of every constant byte."""
    size = gguf.GGML_QUANT_SIZES[kind][1]
    blocks = rng.integers(0, 256, (count, size), np.uint8)
    blocks[:256] = np.arange(256, dtype=np.uint8)[:, None]
    extremes = np.array([0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0x7C01,
                         0x3C00, 0xBC00], np.uint16)
    for offset in F16_FIELDS[kind]:
        ordinary = rng.normal(0, 0.1, count).astype(np.float16).view(np.uint16)
        fields = np.where(np.arange(count) % 2 == 0, ordinary, rng.choice(extremes, count)).astype(np.uint16)
        chosen = np.arange(256, count)
        chosen = chosen[chosen % 3 != 0]
        blocks[chosen, offset:offset + 2] = fields[chosen].view(np.uint8).reshape(-1, 2)
    if kind == Type.MXFP4:
        blocks[256:512, 0] = np.arange(256)
    return blocks


def f64_values(rng):
    """Of every magnitude that f32 has, halfway between two of its values, and beyond it."""
    exponents = rng.integers(-155, 135, (64, 62))
    values = np.concatenate([np.ldexp(rng.normal(0, 1, exponents.shape), exponents), np.full((64, 2), np.inf)], axis=1)
    values[:, -1] = np.nan
    values[0, :31] = np.ldexp(2 * rng.integers(2**23, 2**24, 31) + 1.0, exponents[0, :31])
    return values


def test_every_block_type_bit_for_bit(tmp_path):
    rng = np.random.default_rng(SEED)
    stored = {}
    for kind in BLOCK_TYPES:
        blocks = blocks_of(kind, rng, 6144)
        stored[f"rows.{kind.name}"] = blocks.reshape(4, 48, -1), kind
    stored["rows.F16"] = np.arange(65536, dtype=np.uint16).view(np.float16).reshape(256, 256), Type.F16
    stored["rows.BF16"] = np.arange(65536, dtype=np.uint16).view(np.uint8).reshape(256, 512), Type.BF16
    stored["rows.F64"] = f64_values(rng), Type.F64
    stored["rows.F32"] = rng.integers(0, 2**32, 4096, np.uint32).view(np.float32).reshape(64, 64), Type.F32
    ids = rng.integers(-2**31, 2**31, (7, 5)).astype(np.int32)
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "none")
    for name, (array, kind) in stored.items():
        writer.add_tensor(name, array, raw_dtype=kind)
    writer.add_tensor("ids", ids)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    ours = read_tensors(tmp_path / "m.gguf")
    assert set(ours) == set(stored) | {"ids"}
    assert (ours["ids"][1] == ids).all()
    with np.errstate(all="ignore"):
        for name, (array, kind) in stored.items():
            assert ours[name][0] == kind.name
            values = array.astype(np.float32) if kind == Type.F64 else gguf.quants.dequantize(array, kind)
            same_bits(ours[name][1], values, name)


@pytest.mark.parametrize("kind", [Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.MXFP4])
def test_quantized_by_the_package(tmp_path, kind):
    rng = np.random.default_rng(SEED)
    values = rng.normal(0, 1, (40, 96)).astype(np.float32)
    write_gguf(tmp_path / "m.gguf", {"w": (values, kind)})
    ours = read_tensors(tmp_path / "m.gguf")["w"][1]
    same_bits(ours, gguf.quants.dequantize(gguf.quants.quantize(values, kind), kind), kind.name)
    assert np.abs(ours - values).max() < 1.1


def test_split_models(tmp_path):
    rng = np.random.default_rng(SEED)
    tensors = {f"t{i}": rng.normal(0, 1, (4, 8)).astype(np.float32) for i in range(7)}
    write_gguf(tmp_path / "m.gguf", tensors, split_max_tensors=3)
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"m-{i:05}-of-00003.gguf" for i in (1, 2, 3)]
    ours = read_tensors(tmp_path / "m-00001-of-00003.gguf")
    assert set(ours) == set(tensors)
    for name, values in tensors.items():
        same_bits(ours[name][1], values, name)


STORED = BUILD / "test-data" / "oracles"
ORACLES = pathlib.Path(os.environ.get("SLUICE_ORACLES", STORED))
# kind -> (how close `plain` comes to the oracle's logits, whether the file says exactly what config.json does)
KINDS = {"llama-like": (1e-3, False), "qwen3-yarn-like": (1e-3, True), "v2-like": (1e-3, True),
         "v2-lite-like": (1e-3, True), "v3-like": (1e-3, True), "v4-flash-like": (1e-3, True)}
if ORACLES != STORED:  # these have to be there
    KINDS |= {"qwen2-like": (1e-3, True), "qwen3-like": (1e-3, True)}
FORMS = [(kind, False) for kind in KINDS] + [(kind, True) for kind in KINDS if kind in ("v2-lite-like", "v3-like")]
FORM_NAMES = [kind + ("-split" if split else "") for kind, split in FORMS]


def logits(model, ids, out, positions=None):
    where = [] if positions is None else ["--positions", ",".join(map(str, positions))]
    subprocess.run([BUILD / "sluice", "logits", str(model), "--ids", ",".join(map(str, ids)), "--out", str(out),
                    "--profile", "plain", "--log-level", "error", *where], check=True)
    return load_file(out)["logits"]


def check_tensors(path, held):
    """What the model's weight table sees: official names, shapes and values."""
    ours = read_tensors(path, "--official")
    assert set(ours) == set(held)
    for name, values in held.items():
        if values.dtype == np.int64:
            assert (ours[name][1] == values).all()
        else:
            assert ours[name][1].shape == values.shape, name
            same_bits(ours[name][1], values, name)


@pytest.mark.parametrize("kind,split", FORMS, ids=FORM_NAMES)
def test_models_as_they_are(tmp_path, kind, split):
    """Every value kept: the oracle's logits, and those of the safetensors form bit for bit where the metadata are exact."""
    bound, exact = KINDS[kind]
    path = tmp_path / "m.gguf"
    check_tensors(path, write_gguf_model(ORACLES / kind, path, split_kv=split))
    golden = load_file(ORACLES / kind / "golden.safetensors")
    for n in (5, 129, 260):
        ids, positions = golden["input_ids"][:n], golden[f"len{n}.positions"]
        ours = logits(path, ids, tmp_path / "a.safetensors", positions)
        assert np.abs(ours - golden[f"len{n}.logits"]).max() < bound
        if exact:
            theirs = logits(ORACLES / kind, ids, tmp_path / "b.safetensors", positions)
            assert np.array_equal(ours.view(np.int32), theirs.view(np.int32))


@pytest.mark.parametrize("kind,split", FORMS, ids=FORM_NAMES)
def test_models_in_blocks(tmp_path, kind, split):
    """Weights in blocks: the logits of a checkpoint with the values that the blocks stand for, but for the order of sums,
    which are taken block by block (kernels/ops/linear.h)."""
    official = tmp_path / "official"
    shutil.copytree(ORACLES / kind, official)
    if kind == "llama-like":  # rope_freqs say llama3's scaling in f32, so the last bits would differ
        config = json.loads((official / "config.json").read_text())
        config["rope_parameters"] = {"rope_type": "default", "rope_theta": 500000.0}
        (official / "config.json").write_text(json.dumps(config))
    kinds = (Type.MXFP4, Type.Q8_0) if kind.startswith("v4") else (Type.Q4_1, Type.Q8_0, Type.Q4_0, Type.MXFP4, Type.F16)
    path = tmp_path / "m.gguf"
    held = write_gguf_model(official, path, quantized=True, split_kv=split, kinds=kinds)
    check_tensors(path, held)
    save_file(held, official / "model.safetensors")
    ids = load_file(ORACLES / kind / "golden.safetensors")["input_ids"][:150]
    ours, theirs = logits(path, ids, tmp_path / "a.safetensors"), logits(official, ids, tmp_path / "b.safetensors")
    assert np.abs(ours - theirs).max() < KINDS[kind][0]


def wide_model(folder, kind, edits):
    """A random checkpoint whose rows are whole blocks of 256."""
    config = json.loads((ORACLES / kind / "config.json").read_text()) | edits
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    out = folder / "model"
    subprocess.run([BUILD / "sluice", "synth", str(folder), str(out), "--store", "f32", "--seed", str(SEED % 2**32),
                    "--log-level", "error"], check=True)
    return out


WIDE = {"v2-lite-like": {"hidden_size": 256, "intermediate_size": 256, "moe_intermediate_size": 256, "kv_lora_rank": 256,
                         "qk_nope_head_dim": 64, "v_head_dim": 64, "vocab_size": 256},
        "llama-like": {"hidden_size": 256, "intermediate_size": 256, "vocab_size": 256, "tie_word_embeddings": False,
                       "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}}}
ROWS_OF_256 = [Type.Q5_0, Type.Q5_1, Type.Q2_K, Type.Q3_K, Type.Q4_K, Type.Q5_K, Type.Q6_K, Type.IQ4_NL, Type.IQ4_XS]


@pytest.mark.parametrize("kind,types", [("v2-lite-like", [t]) for t in ROWS_OF_256] + [("llama-like", ROWS_OF_256)],
                         ids=[t.name for t in ROWS_OF_256] + ["mixed"])
def test_models_of_every_block_type(tmp_path, kind, types):
    """Embeddings, linears, experts and the halves of kv_b, each in blocks of the type."""
    official = wide_model(tmp_path / "wide", kind, WIDE[kind])
    split = kind == "v2-lite-like" and gguf.GGML_QUANT_SIZES[types[0]][0] == 32  # its keys have rows of 64
    held = write_gguf_model(official, tmp_path / "m.gguf", quantized=True, split_kv=split, kinds=types)
    check_tensors(tmp_path / "m.gguf", held)
    save_file(held, official / "model.safetensors")
    ids = np.random.default_rng(SEED).integers(0, 256, 80)
    ours, theirs = logits(tmp_path / "m.gguf", ids, tmp_path / "a"), logits(official, ids, tmp_path / "b")
    assert np.abs(theirs).max() > 0.1, f"seed {SEED}"
    # Two experts that score alike may change places: the row where they do differs, and a little those that see it.
    errors = np.abs(ours - theirs).max(axis=1)
    assert np.quantile(errors, 0.75) < 1e-3 and errors.max() < 0.05, f"seed {SEED}: {np.sort(errors)[-20:]}"


def test_types_that_are_not_read_are_named(tmp_path):
    for kind in (Type.IQ2_XXS, Type.IQ3_S, Type.TQ1_0):
        block = np.zeros((1, gguf.GGML_QUANT_SIZES[kind][1]), np.uint8)
        write_gguf(tmp_path / "m.gguf", {"w": (block, kind)})
        out = subprocess.run([BUILD / "sluice", "inspect", str(tmp_path / "m.gguf")], capture_output=True, text=True)
        assert out.returncode == 2 and f"{kind.name} ({kind.value})" in out.stderr


def test_split_files_give_the_same_logits(tmp_path):
    kind, ids = "v3-like", range(3, 60)
    write_gguf_model(ORACLES / kind, tmp_path / "one.gguf")
    write_gguf_model(ORACLES / kind, tmp_path / "m.gguf", split_max_tensors=20)
    first = next(tmp_path.glob("m-00001-of-*.gguf"))
    ours, theirs = logits(first, ids, tmp_path / "a.safetensors"), logits(tmp_path / "one.gguf", ids, tmp_path / "b")
    assert np.array_equal(ours.view(np.int32), theirs.view(np.int32))
