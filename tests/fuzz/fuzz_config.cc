// config.json, and all that follows from it alone (the plan of the model, its parameters, its cache), and
// generation_config.json.
#include "config/generation_config.h"
#include "fuzz_target.h"
#include "model/model_plan.h"

namespace sluice {
namespace {

void check_plan(const ModelConfig& config, const EngineSetup& options) {
  const Result<ModelPlan> plan = plan_model(config, options);
  if (!plan.ok()) return fuzz_expect(!plan.status().message().empty(), "an error without a message");
  const ParameterCount count = count_parameters(*plan);
  fuzz_expect(count.all > 0 && count.active > 0 && count.active <= count.all, "parameters that cannot be");
}

void check(std::string_view input) {
  const auto generation = parse_generation_config(input, "generation_config.json");
  if (!generation.ok()) {
    fuzz_expect(generation.status().message().starts_with("generation_config.json"), generation.status().message());
  }
  const auto config = parse_model_config(input, "config.json");
  if (!config.ok()) return fuzz_expect(config.status().message().starts_with("config.json"), config.status().message());
  // A plan lists every tensor, which takes a second for the largest that are let through.
  if (std::int64_t{config->num_hidden_layers} * (4 + config->moe.n_routed_experts) > 4096) return;
  check_plan(*config, {});
  EngineSetup other;
  other.numerics.profile = "plain";
  other.numerics.kv_cache_dtype = "fp8";
  check_plan(*config, other);
}

}  // namespace

FuzzTarget fuzz_target() {
  FuzzTarget target = {.name = "config", .more_inputs = {"configs"}, .check = check};
  for (const char* key : {"architectures",
                          "model_type",
                          "vocab_size",
                          "hidden_size",
                          "intermediate_size",
                          "num_hidden_layers",
                          "num_attention_heads",
                          "num_key_value_heads",
                          "head_dim",
                          "max_position_embeddings",
                          "rms_norm_eps",
                          "tie_word_embeddings",
                          "torch_dtype",
                          "dtype",
                          "bos_token_id",
                          "eos_token_id",
                          "rope_theta",
                          "rope_scaling",
                          "rope_parameters",
                          "rope_type",
                          "factor",
                          "beta_fast",
                          "beta_slow",
                          "mscale",
                          "mscale_all_dim",
                          "attention_factor",
                          "original_max_position_embeddings",
                          "low_freq_factor",
                          "high_freq_factor",
                          "sliding_window",
                          "use_sliding_window",
                          "max_window_layers",
                          "layer_types",
                          "mlp_layer_types",
                          "q_lora_rank",
                          "kv_lora_rank",
                          "qk_nope_head_dim",
                          "qk_rope_head_dim",
                          "v_head_dim",
                          "index_head_dim",
                          "index_n_heads",
                          "index_topk",
                          "n_routed_experts",
                          "n_shared_experts",
                          "num_experts",
                          "num_local_experts",
                          "num_experts_per_tok",
                          "moe_intermediate_size",
                          "moe_layer_freq",
                          "first_k_dense_replace",
                          "n_group",
                          "topk_group",
                          "scoring_func",
                          "topk_method",
                          "norm_topk_prob",
                          "routed_scaling_factor",
                          "quantization_config",
                          "quant_method",
                          "weight_block_size",
                          "scale_fmt",
                          "num_nextn_predict_layers",
                          "compress_ratios",
                          "hc_mult",
                          "hc_sinkhorn_iters",
                          "num_hash_layers",
                          "o_lora_rank",
                          "o_groups",
                          "swiglu_limit",
                          "decoder_sparse_step",
                          "mlp_only_layers",
                          "attention_bias",
                          "do_sample",
                          "temperature",
                          "top_p",
                          "top_k"}) {
    target.words.push_back('"' + std::string(key) + "\": ");
  }
  for (const char* value : {"null",
                            "true",
                            "false",
                            "[]",
                            "{}",
                            "0",
                            "1",
                            "-1",
                            "128",
                            "4096",
                            "1048576",
                            "1e-6",
                            "0.0",
                            "\"yarn\"",
                            "\"llama3\"",
                            "\"linear\"",
                            "\"fp8\"",
                            "\"sigmoid\"",
                            "\"softmax\"",
                            "\"noaux_tc\"",
                            "\"group_limited_greedy\"",
                            "\"full_attention\"",
                            "\"sliding_attention\"",
                            ",",
                            "\n",
                            "[128, 128]",
                            "\"bfloat16\"",
                            "\"DeepseekV3ForCausalLM\"",
                            "\"Qwen2ForCausalLM\""}) {
    target.words.emplace_back(value);
  }
  return target;
}

}  // namespace sluice
