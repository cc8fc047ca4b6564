"""`sluice synth`: random checkpoints of every family's geometry, what is in them, and that the engine runs them."""

import json
import re

import gguf
import numpy
import pytest
import safetensors.numpy

from program import MODEL, ROOT, SANITIZED, TINY, fails, few, logits, sluice
from server_process import Server, fetch

SMALL = TINY | {"vocab_size": 300, "hidden_size": 160, "num_hidden_layers": 4, "num_attention_heads": 4, "o_groups": 2,
                "q_lora_rank": 96, "o_lora_rank": 64, "index_n_heads": 2, "n_routed_experts": 5, "index_topk": 8,
                "num_experts_per_tok": 3, "moe_intermediate_size": 96, "num_hash_layers": 1, "head_dim": 128,
                "compress_ratios": [0, 4, 128, 4, 0]}
GEOMETRIES = {
    "fp8 and fp4": SMALL,
    "f32 scales": SMALL | {"quantization_config": SMALL["quantization_config"] | {"scale_fmt": ""},
                           "expert_dtype": "fp8"},
    "not quantised": {k: v for k, v in SMALL.items() if k != "quantization_config"} | {"num_nextn_predict_layers": 0,
                      "compress_ratios": [0, 4, 128, 4]},
}


def cut(name, **changes):
    """An official config with fewer layers and smaller ones."""
    config = json.loads((ROOT / "tests" / "configs" / f"{name}.json").read_text())
    return config | {"vocab_size": 300, "num_hidden_layers": 3, "hidden_size": 160, "intermediate_size": 200,
                     "moe_intermediate_size": 96, "num_attention_heads": 4, "first_k_dense_replace": 1,
                     "bos_token_id": 0, "eos_token_id": 1} | changes


# Widths that are no multiple of 128, so that the last blocks of FP8 are parts.
GEOMETRIES |= {
    "v2-lite": cut("v2-lite", n_routed_experts=8, num_experts_per_tok=3),
    "v2": cut("v2", n_routed_experts=16, q_lora_rank=72),
    "v3 with MTP": cut("v3", n_routed_experts=16, n_group=4, topk_group=2, num_experts_per_tok=4, q_lora_rank=200,
                       kv_lora_rank=192),
    "v3.2": cut("v3.2", n_routed_experts=16, n_group=4, topk_group=2, num_experts_per_tok=4, q_lora_rank=200,
                index_n_heads=4, index_topk=40),
}
# Its own routing: 384 experts in one group, 64 heads.
KIMI_K2 = cut("kimi-k2", num_hidden_layers=4, hidden_size=256, moe_intermediate_size=64, num_attention_heads=64,
              q_lora_rank=96, kv_lora_rank=64)


@pytest.mark.parametrize("geometry", few(["v3 with MTP", "v2-lite", "kimi-k2"], 1))
def test_expanded_prefill_of_any_width(tmp_path, geometry):
    config, model = tmp_path / "geometry.json", tmp_path / "model"
    odd = {"qk_nope_head_dim": 20, "qk_rope_head_dim": 6, "v_head_dim": 23}
    config.write_text(json.dumps((GEOMETRIES | {"kimi-k2": KIMI_K2})[geometry] | odd))
    sluice("synth", config, model)
    some = [model, "--ids", "5 77 200 9 " * 80, "--positions", "0 127 128 200 319", "--profile", "plain",
            "--max-num-batched-tokens", "160"]
    absorbed = logits(tmp_path, *some)["logits"]
    expanded = logits(tmp_path, *some, "--mla-prefill", "expanded", "--attn-prefill-chunk-size", "50")["logits"]
    assert (expanded != absorbed).any() and numpy.abs(expanded - absorbed).max() < 1e-3


@pytest.mark.parametrize("geometry", ["fp8 and fp4", "f32 scales", "not quantised", "v3.2"])
def test_dummy_weights_are_those_of_synth(tmp_path, geometry):
    model, alone = tmp_path / "model", tmp_path / "alone"
    alone.mkdir()
    (alone / "config.json").write_text(json.dumps(GEOMETRIES[geometry]))
    sluice("synth", alone / "config.json", model)
    some = ["--ids", "5 77 200 9 " * 40, "--positions", "0 3 127 128 159"]
    for profile in few(("default", "plain"), 1):
        written = logits(tmp_path, model, *some, "--profile", profile)["logits"]
        dummy = [alone, *some, "--profile", profile, "--load-format", "dummy"]
        assert (logits(tmp_path, *dummy)["logits"] == written).all()
        if SANITIZED and geometry not in ("fp8 and fp4", "v3.2"):
            continue
        shared = logits(tmp_path, *dummy, "--dummy-experts", "2")["logits"]
        assert numpy.isfinite(shared).all() and (shared != written).any()
        balanced = logits(tmp_path, *dummy, "--balanced-experts")["logits"]
        assert numpy.isfinite(balanced).all() and (balanced != written).any()
        emulated = [*dummy, "--dummy-experts", "2", "--device", "emulated"]
        assert (logits(tmp_path, *emulated)["logits"] == shared).all()
        assert (logits(tmp_path, *dummy, "--no-pack")["logits"] == written).all()
    out = ["--out", tmp_path / "l"]
    # The log counts bytes as they are held: none of the layer for multi-token prediction, experts once.
    loaded = sluice("logits", *dummy, "--dummy-experts", "2", *out).stderr
    assert re.search(r"loaded \S+: [0-9.]+ MB in ", loaded), loaded
    fails("logits", *dummy, "--dummy-experts", "99", *out, says="--dummy-experts: expected at most the ")
    fails("logits", model, *some, "--dummy-experts", "2", *out, says="expected --load-format dummy beside it")
    fails("logits", model, *some, "--balanced-experts", *out, says="--balanced-experts: expected --load-format dummy")
    fails("logits", alone, *some, *out, says="expected its weights in *.safetensors files")


def test_a_config_alone_is_served_and_measured(tmp_path):
    folder = tmp_path / "geometry"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(SMALL | {"vocab_size": 700}))
    (tmp_path / "other.json").write_text(json.dumps(SMALL | {"vocab_size": 700}))
    dummy = ["--load-format", "dummy", "--threads", "2", "--max-num-batched-tokens", "64", "--kv-cache-memory", "64MB"]
    for model, name in ((folder, "geometry"), (folder / "config.json", "geometry"), (tmp_path / "other.json", "other")):
        with Server(model, *dummy) as server:
            assert sum("has no tokenizer.json beside it: every byte" in line for line in server.log) == 1, server.log
            body = {"model": name, "max_tokens": 9, "temperature": 0, "ignore_eos": True}
            answer = fetch(server.url + "/v1/completions", body | {"prompt": "h\u00e9 4711"}).json()
            assert answer["usage"]["prompt_tokens"] in (8, 9) and answer["usage"]["completion_tokens"] == 9, answer
            chat = fetch(server.url + "/v1/chat/completions", body | {"messages": [{"role": "user", "content": "hi"}]})
            assert chat.status == 200 and chat.json()["usage"]["completion_tokens"] == 9, chat.text
    measured = sluice("bench", folder / "config.json", *dummy, "--prefill", "64", "--decode", "4", "--rounds", "1",
                      "--probe-size", "16MB").stdout
    assert "tokens/s" in measured, measured
    inspected = [sluice("inspect", model, *extra).stdout.split("\n", 1)[1]
                 for model, extra in ((folder, dummy[:2]), (folder / "config.json", []))]
    assert inspected[0] == inspected[1] and re.search(r"tensors, \d+ bytes", inspected[0])
    fails("serve", folder / "config.json", says="a JSON file, which has no weights")
    fails("run", folder, "-p", "x", says="tokenizer.json")
    (folder / "config.json").write_text(json.dumps(SMALL | {"vocab_size": 257}))
    fails("run", folder, "-p", "x", *dummy, says="room for the 256 bytes, found 257")


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_synth(tmp_path, geometry):
    config, model = tmp_path / "geometry.json", tmp_path / "model"
    config.write_text(json.dumps(GEOMETRIES[geometry]))
    assert "seed 7" in sluice("synth", config, model, "--seed", "7", "--shard-size", "1MB").stdout
    assert json.loads((model / "config.json").read_text()) == GEOMETRIES[geometry]
    assert len(list(model.glob("*.safetensors"))) > 1

    # Its tensors are those that the config alone promises, and the loader takes them all.
    def table(path):
        lines = sluice("inspect", path, "--tensors", "--kv-cache-memory", "64MiB").stdout.splitlines()
        return sorted(line.split(maxsplit=3) for line in lines if line.startswith("  ") and line.endswith("]"))
    assert table(model) == table(config)

    ids = ",".join(str(i * 7 % 300) for i in range(150))
    for profile in few(("default", "plain"), 1):
        done = sluice("logits", model, "--ids", ids, "--profile", profile, "--greedy", "20", "--out", tmp_path / "l")
        assert "warning" not in done.stderr
        result = safetensors.numpy.load_file(tmp_path / "l")
        assert numpy.isfinite(result["logits"]).all()
        assert 0.05 < result["logits"].std() < 20
        assert len(set(result["logits"].argmax(axis=1).tolist())) > 10  # not the same answer to everything

    if SANITIZED:
        return  # the bytes are compared elsewhere
    again = tmp_path / "again"
    sluice("synth", model, again, "--seed", "7", "--shard-size", "1MB")
    for file in model.iterdir():
        assert (again / file.name).read_bytes() == file.read_bytes()
    other = tmp_path / "other"
    sluice("synth", model, other, "--seed", "8", "--shard-size", "1MB")
    assert any((other / f.name).read_bytes() != f.read_bytes() for f in model.glob("*.safetensors"))


@pytest.mark.parametrize("geometry", few(["f32 scales", "v3.2", "v2", "v3 with MTP", "kimi-k2"], 2))
def test_synth_store_f32(tmp_path, geometry):
    """The same values as float32: the same `plain` logits, bit by bit (each weight meets its scale before the dot)."""
    config = tmp_path / "geometry.json"
    config.write_text(json.dumps(KIMI_K2 if geometry == "kimi-k2" else GEOMETRIES[geometry]))
    ids = ",".join(str(i * 7 % 300) for i in range(100))
    found = []
    for store in ("official", "f32"):
        sluice("synth", config, tmp_path / store, "--seed", "5", "--store", store)
        sluice("logits", tmp_path / store, "--ids", ids, "--profile", "plain", "--out", tmp_path / "l")
        found.append(safetensors.numpy.load_file(tmp_path / "l")["logits"])
    assert (found[0].view(numpy.int32) == found[1].view(numpy.int32)).all()
    dtypes = {t["dtype"] for t in header(tmp_path / "f32" / "model.safetensors").values()}
    assert dtypes <= {"F32", "I64"}
    fails("synth", config, tmp_path / "x", "--store", "f16", says="--store")


def test_synth_magnitudes(tmp_path):
    """Weights have a standard deviation of about 1 / sqrt(row length), whatever they are stored in."""
    sluice("synth", MODEL, tmp_path / "model", "--tokenizer", MODEL)
    assert (tmp_path / "model" / "tokenizer.json").read_bytes() == (MODEL / "tokenizer.json").read_bytes()
    tensors = raw_tensors(tmp_path / "model" / "model.safetensors")
    e2m1 = numpy.array([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6])
    packed, scales = (tensors[f"layers.0.ffn.experts.3.w1.{part}"] for part in ("weight", "scale"))
    values = e2m1[numpy.stack([packed & 15, packed >> 4], axis=-1).reshape(len(packed), -1)]
    values *= numpy.repeat(2.0 ** (scales.astype(int) - 127), 32, axis=1)
    assert 0.5 < values.std() * values.shape[1] ** 0.5 < 2 and abs(values.mean()) < 0.01
    ids = tensors["layers.0.ffn.gate.tid2eid"]
    assert ids.min() == 0 and ids.max() == TINY["n_routed_experts"] - 1
    assert all(len(set(row)) == TINY["num_experts_per_tok"] for row in ids.tolist())
    assert "\n" in sluice("run", tmp_path / "model", "-p", "Hello", "--max-tokens", "5").stdout
    fails("synth", MODEL, tmp_path / "model", says="weights")
    fails("synth", tmp_path / "none.json", tmp_path / "x", says="none.json")
    fails("synth", MODEL, tmp_path / "x", "--tokenizer", tmp_path, says="tokenizer.json")


@pytest.mark.parametrize("tokenizer", [False, True])
def test_synth_gguf(tmp_path, tokenizer):
    """One file, its matrices in Q4_0, that the `gguf` package reads and the engine runs."""
    config, model = tmp_path / "geometry.json", tmp_path / "model.gguf"
    geometry = GEOMETRIES["v2"] | {"vocab_size": 5000, "bos_token_id": 0, "eos_token_id": 1}
    if "rope_scaling" in geometry:
        geometry["rope_scaling"] = geometry["rope_scaling"] | {"mscale": 0.7, "mscale_all_dim": 0.7}
    config.write_text(json.dumps(geometry))
    options = ["--tokenizer", MODEL] if tokenizer else []
    sluice("synth", config, model, "--gguf", "q4_0", "--seed", "3", *options)
    tensors = {t.name: t for t in gguf.GGUFReader(model).tensors}
    for name, tensor in tensors.items():
        matrix = len(tensor.shape) > 1 and not name.endswith("gate_inp.weight") and tensor.shape[0] % 32 == 0
        assert tensor.tensor_type.name == ("Q4_0" if matrix else "F32"), name
    assert list(tensors["blk.1.ffn_up_exps.weight"].shape) == [geometry["hidden_size"], geometry["moe_intermediate_size"],
                                                               geometry["n_routed_experts"]]
    up = tensors["token_embd.weight"]
    values = gguf.quants.dequantize(up.data, up.tensor_type)
    assert 0.6 < values.std() * values.shape[1] ** 0.5 < 1.5 and abs(values.mean()) < 0.01
    sluice("logits", model, "--ids", "5 77 200 9 " * 8, "--out", tmp_path / "l")
    found = safetensors.numpy.load_file(tmp_path / "l")["logits"]
    assert numpy.isfinite(found).all() and 0.05 < found.std() < 20
    text = sluice("run", model, "--raw", "-p", "hello", "--max-tokens", "3").stdout
    assert text
    fails("synth", config, model, "--gguf", "q4_0", says="new file")
    fails("synth", config, tmp_path / "x.gguf", "--gguf", "q4_0", "--store", "f32", says="--store")
    fails("synth", MODEL, tmp_path / "x.gguf", "--gguf", "q4_0", says="DeepSeek-V2")


def header(path):
    data = path.read_bytes()
    entries = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
    return {name: entry for name, entry in entries.items() if name != "__metadata__"}


def raw_tensors(path):
    """A safetensors file with every byte-sized dtype as uint8."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    types = {"F32": numpy.float32, "I64": numpy.int64, "BF16": numpy.uint16}
    return {name: numpy.frombuffer(data[8 + length + t["data_offsets"][0]:8 + length + t["data_offsets"][1]],
                                   types.get(t["dtype"], numpy.uint8)).reshape(t["shape"])
            for name, t in json.loads(data[8:8 + length]).items() if name != "__metadata__"}
