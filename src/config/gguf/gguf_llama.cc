// Llama (and SmolLM2), Qwen2 and Qwen3 in GGUF files. The query and key rows of `llama` alone are interleaved.
// Used by cli/commands, config, config/gguf and model.
#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "config/gguf/gguf_config.h"
#include "config/rope_config.h"

namespace sluice {
namespace {

namespace json = boost::json;

constexpr GgufName kModelNames[] = {
    {"token_embd.weight", "model.embed_tokens.weight"},
    {"output_norm.weight", "model.norm.weight"},
    {"output.weight", "lm_head.weight"},
    // Becomes a part of the config, not a weight.
    {"rope_freqs.weight", "", GgufLayout::kOfConfig},
};

template <GgufLayout kQueries, GgufLayout kKeys>
constexpr GgufName kLayerNames[] = {
    {"attn_norm.weight", "input_layernorm.weight"},
    {"ffn_norm.weight", "post_attention_layernorm.weight"},
    {"attn_q.weight", "self_attn.q_proj.weight", kQueries},
    {"attn_q.bias", "self_attn.q_proj.bias", kQueries},
    {"attn_k.weight", "self_attn.k_proj.weight", kKeys},
    {"attn_k.bias", "self_attn.k_proj.bias", kKeys},
    {"attn_v.weight", "self_attn.v_proj.weight"},
    {"attn_v.bias", "self_attn.v_proj.bias"},
    {"attn_output.weight", "self_attn.o_proj.weight"},
    {"attn_output.bias", "self_attn.o_proj.bias"},
    {"attn_q_norm.weight", "self_attn.q_norm.weight"},
    {"attn_k_norm.weight", "self_attn.k_norm.weight"},
    {"ffn_gate.weight", "mlp.gate_proj.weight"},
    {"ffn_gate.bias", "mlp.gate_proj.bias"},
    {"ffn_up.weight", "mlp.up_proj.weight"},
    {"ffn_up.bias", "mlp.up_proj.bias"},
    {"ffn_down.weight", "mlp.down_proj.weight"},
    {"ffn_down.bias", "mlp.down_proj.bias"},
};
constexpr auto& kInterleavedNames = kLayerNames<GgufLayout::kInterleavedQueries, GgufLayout::kInterleavedKeys>;
constexpr auto& kPlainNames = kLayerNames<GgufLayout::kSame, GgufLayout::kSame>;

// Writes head_dim. Keys, values and the rotation must have the same one.
void write_head_dim(GgufFields& fields, json::object& config) {
  const std::int64_t heads = config["num_attention_heads"].as_int64();
  const std::int64_t hidden = config["hidden_size"].as_int64();
  std::int64_t head_dim = heads > 0 ? hidden / heads : 0;
  fields.read("attention.key_length", head_dim, 1, INT32_MAX);
  for (const std::string_view key : {"attention.value_length", "rope.dimension_count"}) {
    std::int64_t found = head_dim;
    fields.read(key, found, 0, INT32_MAX);
    if (found != head_dim) fields.fail(key, fmt::format("{}, the size of a head", head_dim));
  }
  config["head_dim"] = head_dim;
}

void write_rope(GgufFields& fields, json::object& config) {
  GgufConfigWriter writer(fields, config);
  json::object* yarn = writer.rope();
  if (yarn == nullptr || !fields.has("rope.scaling.attn_factor")) return;
  double factor = 1.0, multiplier = 1.0;  // `multiplier` multiplies YaRN's own attention factor
  fields.read("rope.scaling.factor", factor);
  fields.read("rope.scaling.attn_factor", multiplier);
  (*yarn)["attention_factor"] = multiplier * yarn_mscale(factor, 1.0);
}

Status write_family(std::string_view architecture, std::string_view model_type, GgufFields& fields,
                    json::object& config) {
  config["architectures"] = json::array{architecture};
  config["model_type"] = model_type;
  GgufConfigWriter(fields, config).integer("intermediate_size", "feed_forward_length");
  std::int64_t experts = 0;
  fields.read("expert_count", experts, 0, INT32_MAX);
  if (experts != 0) fields.fail("expert_count", "no experts");
  write_head_dim(fields, config);
  write_rope(fields, config);
  return fields.status();
}

Status write_llama(const GgufModel& model, GgufFields& fields, json::object& config) {
  config["attention_bias"] = model.find("blk.0.attn_q.bias") != nullptr;
  config["mlp_bias"] = model.find("blk.0.ffn_up.bias") != nullptr;
  return write_family("LlamaForCausalLM", "llama", fields, config);
}

Status write_qwen2(const GgufModel&, GgufFields& fields, json::object& config) {
  config["use_sliding_window"] = false;
  return write_family("Qwen2ForCausalLM", "qwen2", fields, config);
}

Status write_qwen3(const GgufModel& model, GgufFields& fields, json::object& config) {
  config["use_sliding_window"] = false;
  config["attention_bias"] = model.find("blk.0.attn_q.bias") != nullptr;
  return write_family("Qwen3ForCausalLM", "qwen3", fields, config);
}

}  // namespace

const GgufArchitecture kGgufLlama{"llama", {"model.layers.{}.", kModelNames, kInterleavedNames}, write_llama};
const GgufArchitecture kGgufQwen2{"qwen2", {"model.layers.{}.", kModelNames, kPlainNames}, write_qwen2};
const GgufArchitecture kGgufQwen3{"qwen3", {"model.layers.{}.", kModelNames, kPlainNames}, write_qwen3};

}  // namespace sluice
