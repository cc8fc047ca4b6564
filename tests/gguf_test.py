"""Sluice's GGUF reading against the `gguf` package: values of every type, and models written through the package.

The seed is in SLUICE_TEST_SEED (default 1)."""

import json
import os
import pathlib
import subprocess

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type

ROOT = pathlib.Path(__file__).parent.parent
BUILD = pathlib.Path(os.environ.get("SLUICE_BUILD_DIR", ROOT / "build"))
SEED = int(os.environ.get("SLUICE_TEST_SEED", "1"))

BLOCK_TYPES = [Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q4_K, Type.Q5_K, Type.Q6_K, Type.MXFP4]
F16_FIELDS = {Type.Q8_0: [0], Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2],
              Type.Q6_K: [208], Type.MXFP4: []}


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


def test_every_block_type_bit_for_bit(tmp_path):
    rng = np.random.default_rng(SEED)
    stored = {}
    for kind in BLOCK_TYPES:
        blocks = blocks_of(kind, rng, 6144)
        stored[f"rows.{kind.name}"] = blocks.reshape(4, 48, -1), kind
    stored["rows.F16"] = np.arange(65536, dtype=np.uint16).view(np.float16).reshape(256, 256), Type.F16
    stored["rows.BF16"] = np.arange(65536, dtype=np.uint16).view(np.uint8).reshape(256, 512), Type.BF16
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
            same_bits(ours[name][1], gguf.quants.dequantize(array, kind), name)


@pytest.mark.parametrize("kind", [Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.MXFP4])
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
