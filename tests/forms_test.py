"""A checkpoint under transformers' names and in its newer config form gives the logits of the official one, bit by bit."""

import json
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

BUILD = Path(os.environ.get("SLUICE_BUILD_DIR", Path(__file__).parent.parent / "build"))
IDS = ",".join(str((7 * i * i + 3 * i) % 512) for i in range(150))

# official -> transformers, in this order
RENAMES = [
    (r"^embed\.weight$", "model.embed_tokens.weight"), (r"^head\.weight$", "lm_head.weight"),
    (r"^norm\.weight$", "model.norm.weight"), (r"^hc_head_(fn|base|scale)$", r"model.hc_head.hc_\1"),
    (r"^layers\.", "model.layers."), (r"\.attn_norm\.", ".input_layernorm."),
    (r"\.ffn_norm\.", ".post_attention_layernorm."), (r"\.hc_(attn|ffn)_(fn|base|scale)$", r".\1_hc.\2"),
    (r"\.attn\.indexer\.compressor\.", ".self_attn.compressor.indexer."),
    (r"\.attn\.indexer\.wq_b\.", ".self_attn.compressor.indexer.q_b_proj."),
    (r"\.attn\.indexer\.weights_proj\.", ".self_attn.compressor.indexer.scorer.weights_proj."),
    (r"(compressor.*)\.ape$", r"\1.position_bias"), (r"(compressor.*)\.wkv\.", r"\1.kv_proj."),
    (r"(compressor.*)\.wgate\.", r"\1.gate_proj."), (r"(compressor.*)\.norm\.", r"\1.kv_norm."),
    (r"\.attn\.attn_sink$", ".self_attn.sinks"), (r"\.attn\.wq_a\.", ".self_attn.q_a_proj."),
    (r"\.attn\.q_norm\.", ".self_attn.q_a_norm."), (r"\.attn\.wq_b\.", ".self_attn.q_b_proj."),
    (r"\.attn\.wkv\.", ".self_attn.kv_proj."), (r"\.attn\.wo_a\.", ".self_attn.o_a_proj."),
    (r"\.attn\.wo_b\.", ".self_attn.o_b_proj."), (r"\.attn\.", ".self_attn."),
    (r"\.ffn\.gate\.bias$", ".mlp.gate.e_score_correction_bias"), (r"\.ffn\.", ".mlp."),
    (r"shared_experts\.w1\.", "shared_experts.gate_proj."), (r"shared_experts\.w3\.", "shared_experts.up_proj."),
    (r"shared_experts\.w2\.", "shared_experts.down_proj."),
]


def renamed(name):
    for pattern, replacement in RENAMES:
        name = re.sub(pattern, replacement, name)
    return name


def write_safetensors(path, tensors):  # numpy has no bf16, so the bytes are copied as they are
    header, offset = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(data for _, _, data in tensors.values()))


def read_safetensors(path):
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (e["dtype"], e["shape"], raw[8 + size:][e["data_offsets"][0]:e["data_offsets"][1]])
            for name, e in header.items()}


def stacked_experts(tensors, config):
    """The routed experts of a layer in two tensors: gate rows over up rows, and down."""
    out = {name: tensor for name, tensor in tensors.items() if ".experts." not in name}
    experts = config["n_routed_experts"]
    for layer in range(config["num_hidden_layers"]):
        def part(expert, which):
            return tensors[f"layers.{layer}.ffn.experts.{expert}.{which}.weight"]
        dtype, (inter, hidden), _ = part(0, "w1")
        gate_up = b"".join(part(e, "w1")[2] + part(e, "w3")[2] for e in range(experts))
        down = b"".join(part(e, "w2")[2] for e in range(experts))
        stem = f"model.layers.{layer}.mlp.experts."
        out[stem + "gate_up_proj"] = (dtype, [experts, 2 * inter, hidden], gate_up)
        out[stem + "down_proj"] = (dtype, [experts, hidden, inter], down)
    return out


def newer_config(config):
    kinds = {0: "sliding_attention", 4: "compressed_sparse_attention", 128: "heavily_compressed_attention"}
    layers, hashed = config["num_hidden_layers"], config["num_hash_layers"]
    scaling = dict(config["rope_scaling"])
    scaling["rope_type"] = scaling.pop("type")
    new = {k: v for k, v in config.items() if k not in (
        "compress_ratios", "num_hash_layers", "qk_rope_head_dim", "rope_theta", "compress_rope_theta", "rope_scaling")}
    new["layer_types"] = [kinds[r] for r in config["compress_ratios"][:layers]]
    new["compress_rates"] = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128}
    new["mlp_layer_types"] = ["hash_moe"] * hashed + ["moe"] * (layers - hashed)
    new["partial_rotary_factor"] = config["qk_rope_head_dim"] / config["head_dim"]
    new["rope_parameters"] = {
        "main": {"rope_type": "default", "rope_theta": config["rope_theta"]},
        "compress": {**scaling, "rope_theta": config["compress_rope_theta"]}}
    return new


def logits(model, out):
    subprocess.run([BUILD / "sluice", "logits", model, "--ids", IDS, "--out", out, "--log-level", "error"], check=True)
    return load_file(out)["logits"]


@pytest.mark.parametrize("kind", ["v4-flash-like", "v4-pro-like"])
def test_transformers_form_gives_the_same_bits(kind, tmp_path):
    official = BUILD / "test-data" / "oracles" / kind
    config = json.loads((official / "config.json").read_text())
    tensors = stacked_experts(read_safetensors(official / "model.safetensors"), config)
    model = tmp_path / "renamed"
    model.mkdir()
    write_safetensors(model / "model.safetensors", {renamed(name): tensor for name, tensor in tensors.items()})
    (model / "config.json").write_text(json.dumps(newer_config(config)))
    with safe_open(model / "model.safetensors", "np") as check:
        assert not [name for name in check.keys() if not name.startswith(("model.", "lm_head."))]
    expected, found = logits(official, tmp_path / "a.safetensors"), logits(model, tmp_path / "b.safetensors")
    assert np.array_equal(expected.view(np.int32), found.view(np.int32))
