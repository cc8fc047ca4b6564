"""Writes the official checkpoints of small models as GGUF, through the `gguf` package: names, layouts and metadata as
llama.cpp's converter has them.

    write_gguf_model(folder, path)                    every value as it is: BF16 and F32
    write_gguf_model(folder, path, quantized=True)    linears in blocks; returns what the blocks stand for
    write_gguf_model(folder, path, split_kv=True)     DeepSeek-V2 and V3: attn_k_b and attn_v_b for attn_kv_b
"""

import json
import math
import re

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

LLAMA_LAYER = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
MLA_LAYER = LLAMA_LAYER | {
    "self_attn.q_a_proj": "attn_q_a", "self_attn.q_a_layernorm": "attn_q_a_norm", "self_attn.q_b_proj": "attn_q_b",
    "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.kv_a_layernorm": "attn_kv_a_norm",
    "self_attn.kv_b_proj": "attn_kv_b", "mlp.gate": "ffn_gate_inp",
    "mlp.shared_experts.gate_proj": "ffn_gate_shexp", "mlp.shared_experts.up_proj": "ffn_up_shexp",
    "mlp.shared_experts.down_proj": "ffn_down_shexp"}
V4_LAYER = {
    "attn_norm": "attn_norm", "ffn_norm": "ffn_norm", "hc_attn_fn": "hc_attn_fn", "hc_attn_base": "hc_attn_base",
    "hc_attn_scale": "hc_attn_scale", "hc_ffn_fn": "hc_ffn_fn", "hc_ffn_base": "hc_ffn_base",
    "hc_ffn_scale": "hc_ffn_scale", "attn.attn_sink": "attn_sinks", "attn.wq_a": "attn_q_a",
    "attn.q_norm": "attn_q_a_norm", "attn.wq_b": "attn_q_b", "attn.wkv": "attn_kv", "attn.kv_norm": "attn_kv_a_norm",
    "attn.wo_a": "attn_output_a", "attn.wo_b": "attn_output_b", "attn.compressor.ape": "attn_compressor_ape",
    "attn.compressor.wkv": "attn_compressor_kv", "attn.compressor.wgate": "attn_compressor_gate",
    "attn.compressor.norm": "attn_compressor_norm", "attn.indexer.wq_b": "indexer.attn_q_b",
    "attn.indexer.weights_proj": "indexer.proj", "attn.indexer.compressor.ape": "indexer_compressor_ape",
    "attn.indexer.compressor.wkv": "indexer_compressor_kv", "attn.indexer.compressor.wgate": "indexer_compressor_gate",
    "attn.indexer.compressor.norm": "indexer_compressor_norm", "ffn.gate": "ffn_gate_inp",
    "ffn.gate.tid2eid": "ffn_gate_tid2eid", "ffn.shared_experts.w1": "ffn_gate_shexp",
    "ffn.shared_experts.w2": "ffn_down_shexp", "ffn.shared_experts.w3": "ffn_up_shexp"}
EXPERTS = {"w1": "ffn_gate_exps", "w2": "ffn_down_exps", "w3": "ffn_up_exps",
           "gate_proj": "ffn_gate_exps", "down_proj": "ffn_down_exps", "up_proj": "ffn_up_exps"}
OUTSIDE = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
           "lm_head.weight": "output.weight", "embed.weight": "token_embd.weight", "norm.weight": "output_norm.weight",
           "head.weight": "output.weight", "hc_head_fn": "output_hc_fn.weight", "hc_head_base": "output_hc_base.weight",
           "hc_head_scale": "output_hc_scale.weight"}
# The linears that converted files of DeepSeek-V4 keep in BF16.
V4_BF16 = r"token_embd|output\.|ffn_gate_inp|_compressor_(kv|gate)|indexer\.proj"


def read_checkpoint(folder):
    """The tensors as f32 (or int), and which were stored in bf16."""
    raw = (folder / "model.safetensors").read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:8 + size])
    header.pop("__metadata__", None)
    tensors, bf16 = {}, set()
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        data = raw[8 + size + begin:8 + size + end]
        if entry["dtype"] == "BF16":
            bf16.add(name)
            array = (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            array = np.frombuffer(data, {"F32": np.float32, "I64": np.int64}[entry["dtype"]])
        tensors[name] = array.reshape(entry["shape"])
    return tensors, bf16


def interleave(array, heads):
    """Rows of each head from halves to pairs."""
    return array.reshape(heads, 2, array.shape[0] // heads // 2, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)


class Names:
    """Official names and layouts to those of GGUF."""

    def __init__(self, config, split_kv):
        self.config, self.split_kv = config, split_kv
        self.kind = config["model_type"]
        self.layer_names = {"llama": LLAMA_LAYER, "deepseek_v4": V4_LAYER}.get(
            self.kind, MLA_LAYER if self.kind.startswith("deepseek") else LLAMA_LAYER)

    def convert(self, tensors):
        """GGUF name -> list of (official name, array) that make it up, in order of experts."""
        out = {}
        for name, array in tensors.items():
            for gguf_name, part in self.parts(name, array):
                out.setdefault(gguf_name, []).append((name, part))
        for parts in out.values():
            parts.sort(key=lambda p: int(m[1]) if (m := re.search(r"experts\.(\d+)\.", p[0])) else 0)
        return out

    def parts(self, name, array):
        if name in OUTSIDE:
            return [(OUTSIDE[name], array)]
        layer, rest = re.fullmatch(r"(?:model\.)?layers\.(\d+)\.(.*)", name).groups()
        if expert := re.fullmatch(r"(?:ffn|mlp)\.experts\.\d+\.(\w+)\.weight", rest):
            return [(f"blk.{layer}.{EXPERTS[expert[1]]}.weight", array)]
        if rest in ("ffn.gate.bias", "mlp.gate.e_score_correction_bias"):
            return [(f"blk.{layer}.exp_probs_b.bias", array)]
        stem, suffix = (rest.rsplit(".", 1) + [""])[:2] if rest.endswith((".weight", ".bias")) else (rest, "weight")
        gguf_name = f"blk.{layer}.{self.layer_names[stem]}.{suffix}"
        if self.kind == "llama" and stem in ("self_attn.q_proj", "self_attn.k_proj"):
            key = "num_attention_heads" if "q_proj" in stem else "num_key_value_heads"
            array = interleave(array, self.config[key])
        if self.split_kv and stem == "self_attn.kv_b_proj":
            by_head = array.reshape(self.config["num_attention_heads"], -1, array.shape[-1])
            keys, values = np.split(by_head, [self.config["qk_nope_head_dim"]], axis=1)
            return [(f"blk.{layer}.attn_k_b.weight", keys.swapaxes(1, 2)), (f"blk.{layer}.attn_v_b.weight", values)]
        return [(gguf_name, array)]


def rope_of(config):
    rope = config.get("rope_scaling") or config.get("rope_parameters") or {}
    return rope, config.get("rope_theta", rope.get("rope_theta"))


def common_metadata(writer, config):
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    rope, theta = rope_of(config)
    writer.add_rope_freq_base(theta)
    if rope.get("rope_type", rope.get("type")) == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        writer.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
        writer.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])


def llama3_divisors(config):
    """What divides the frequencies: 1 above the high frequencies, the factor below the low ones, between in between."""
    rope, theta = rope_of(config)
    frequencies = 1.0 / theta ** (np.arange(0, config["head_dim"], 2) / config["head_dim"])
    out = []
    for frequency in frequencies:
        turns = rope["original_max_position_embeddings"] * frequency / (2 * math.pi)
        smooth = (turns - rope["low_freq_factor"]) / (rope["high_freq_factor"] - rope["low_freq_factor"])
        smooth = min(max(smooth, 0.0), 1.0)
        out.append(1.0 / ((1.0 - smooth) / rope["factor"] + smooth))
    return np.array(out, np.float32)


def decoder_metadata(writer, config, _):
    writer.add_head_count_kv(config["num_key_value_heads"])
    if "head_dim" in config:  # else hidden_size / num_attention_heads
        writer.add_key_length(config["head_dim"])
        writer.add_value_length(config["head_dim"])
        writer.add_rope_dimension_count(config["head_dim"])
    writer.add_feed_forward_length(config["intermediate_size"])
    if rope_of(config)[0].get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_divisors(config))


def expert_metadata(writer, config, gating):
    writer.add_expert_count(config["n_routed_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_expert_shared_count(config["n_shared_experts"])
    writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    writer.add_expert_weights_scale(config["routed_scaling_factor"])
    writer.add_expert_weights_norm(config["norm_topk_prob"])
    if gating is not None:
        writer.add_uint32(f"{writer.arch}.expert_gating_func", gating)


def mla_metadata(writer, config, split_kv):
    rank, rope, v = config["kv_lora_rank"], config["qk_rope_head_dim"], config["v_head_dim"]
    key = config["qk_nope_head_dim"] + rope
    if config.get("q_lora_rank"):
        writer.add_q_lora_rank(config["q_lora_rank"])
    writer.add_kv_lora_rank(rank)
    writer.add_rope_dimension_count(rope)
    writer.add_head_count_kv(1 if split_kv else config["num_attention_heads"])
    writer.add_key_length(rank + rope if split_kv else key)
    writer.add_value_length(rank if split_kv else v)
    if split_kv:
        writer.add_key_length_mla(key)
        writer.add_value_length_mla(v)
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_leading_dense_block_count(config["first_k_dense_replace"])
    v3 = config["model_type"] == "deepseek_v3"
    expert_metadata(writer, config, 2 if v3 else None)
    if config.get("n_group"):
        writer.add_expert_group_count(config["n_group"])
        writer.add_expert_group_used_count(config["topk_group"])
    writer.add_rope_scaling_yarn_log_mul(0.1 * rope_of(config)[0]["mscale_all_dim"])


def v4_metadata(writer, config, _):
    def number(key, value):
        writer.add_uint32(f"deepseek4.{key}", value)
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_rope_dimension_count(config["qk_rope_head_dim"])
    writer.add_q_lora_rank(config["q_lora_rank"])
    writer.add_sliding_window(config["sliding_window"])
    number("embedding_length_out", config["hc_mult"] * config["hidden_size"])
    number("attention.output_lora_rank", config["o_lora_rank"])
    number("attention.output_group_count", config["o_groups"])
    number("attention.indexer.head_count", config["index_n_heads"])
    number("attention.indexer.key_length", config["index_head_dim"])
    number("attention.indexer.top_k", config["index_topk"])
    writer.add_array("deepseek4.attention.compress_ratios", config["compress_ratios"])
    writer.add_float32("deepseek4.attention.compress_rope_freq_base", config["compress_rope_theta"])
    expert_metadata(writer, config, 4)
    number("hash_layer_count", config["num_hash_layers"])
    for which in ("exp", "shexp"):
        writer.add_array(f"deepseek4.swiglu_clamp_{which}", [config["swiglu_limit"]] * config["num_hidden_layers"])
    number("hyper_connection.count", config["hc_mult"])
    number("hyper_connection.sinkhorn_iterations", config["hc_sinkhorn_iters"])
    writer.add_float32("deepseek4.hyper_connection.epsilon", config["hc_eps"])


ARCHITECTURES = {
    "llama": ("llama", decoder_metadata), "qwen2": ("qwen2", decoder_metadata), "qwen3": ("qwen3", decoder_metadata),
    "deepseek_v2": ("deepseek2", mla_metadata), "deepseek_v3": ("deepseek2", mla_metadata),
    "deepseek_v4": ("deepseek4", v4_metadata)}


def token_metadata(writer, config):
    if config.get("bos_token_id") is not None:
        writer.add_bos_token_id(config["bos_token_id"])
    if config.get("eos_token_id") is not None:
        writer.add_eos_token_id(config["eos_token_id"])


# Where the f16 numbers of a block are, the scale first.
F16_FIELDS = {Type.Q8_0: [0], Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0], Type.Q5_1: [0, 2], Type.Q2_K: [80, 82],
              Type.Q3_K: [108], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208], Type.IQ4_NL: [0],
              Type.IQ4_XS: [0], Type.MXFP4: []}


def quantized_blocks(array, kind):
    """The array in blocks; of types that the package only reads random ones of the array's spread."""
    try:
        return gguf.quants.quantize(array, kind)
    except NotImplementedError:
        elements, size = gguf.GGML_QUANT_SIZES[kind]
    rng = np.random.default_rng(array.view(np.uint32).sum())
    blocks = rng.integers(0, 256, (array.size // elements, size), np.uint8)

    def spread(scale):
        for at in F16_FIELDS[kind]:
            blocks[:, at:at + 2] = np.array([scale], np.float16).view(np.uint8)
        return gguf.quants.dequantize(blocks, kind).std()

    spread(array.std() / spread(1.0))
    return blocks.reshape(*array.shape[:-1], array.shape[-1] // elements * size)


def type_of(name, array, lossless, quantized, kinds):
    """As a file of mixed types has them: experts and linears in blocks, embeddings and routers BF16, the rest F32."""
    if array.ndim < 2 or "hc_" in name or "_ape" in name:
        return Type.F32
    if not quantized:
        return Type.BF16 if lossless else Type.F32
    if re.search(V4_BF16, name):
        return Type.BF16
    return kinds[sum(map(ord, name)) % len(kinds)] if "exps" not in name else kinds[0]


def write_gguf_model(folder, path, quantized=False, split_kv=False, kinds=(Type.MXFP4, Type.Q8_0), edit=None, choose=None,
                     quantize=quantized_blocks, **options):
    """Returns official name -> values that the file holds. `kinds`: the block types, experts' first; `edit(writer)` adds
    metadata; `choose(name, array)` names each tensor's type instead of `kinds`; `quantize(array, type)` makes the bytes."""
    config = json.loads((folder / "config.json").read_text())
    tensors, bf16 = read_checkpoint(folder)
    arch, metadata = ARCHITECTURES[config["model_type"]]
    writer = gguf.GGUFWriter(path, arch, **options)
    common_metadata(writer, config)
    metadata(writer, config, split_kv)
    token_metadata(writer, config)
    if edit is not None:
        edit(writer)
    held = {}
    for name, parts in Names(config, split_kv).convert(tensors).items():
        array = np.stack([p[1] for p in parts]) if "_exps" in name else parts[0][1]
        if array.dtype == np.int64:
            writer.add_tensor(name, array.astype(np.int32))
            held[parts[0][0]] = array
            continue
        array = np.ascontiguousarray(array, np.float32)
        kind = choose(name, array) if choose else type_of(name, array, parts[0][0] in bf16, quantized, kinds)
        stored = quantize(array, kind)
        writer.add_tensor(name, stored, raw_dtype=kind)
        held[name] = (parts, gguf.quants.dequantize(stored, kind))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return official_values(config, held)


def official_values(config, held):
    """Back to official names and layouts; `held`: GGUF name -> (parts, values), or official name -> integers."""
    out, split = {}, {}
    for name, entry in held.items():
        if isinstance(entry, np.ndarray):
            out[name] = entry
            continue
        parts, values = entry
        if "_exps" in name:
            out.update({official: value for (official, _), value in zip(parts, values)})
        elif "attn_k_b" in name or "attn_v_b" in name:
            split.setdefault(parts[0][0], {})["k" if "attn_k_b" in name else "v"] = values
        elif config["model_type"] == "llama" and ("attn_q." in name or "attn_k." in name):
            heads = config["num_attention_heads" if "attn_q" in name else "num_key_value_heads"]
            pairs = values.reshape(heads, values.shape[0] // heads // 2, 2, *values.shape[1:])
            out[parts[0][0]] = pairs.swapaxes(1, 2).reshape(values.shape)
        else:
            out[parts[0][0]] = values
    for official, halves in split.items():
        whole = np.concatenate([halves["k"].swapaxes(1, 2), halves["v"]], axis=1)
        out[official] = whole.reshape(-1, whole.shape[-1])
    return {name: np.ascontiguousarray(value) for name, value in out.items()}
