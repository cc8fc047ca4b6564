// ModelConfig: config.json, checked once when it is read, so that it can be used without further checks.
//
// The common part has what every family has; a family's own part is a member of the variant `family`. Families are
// listed once, in model_families.cc. Field names are the keys of config.json unless a comment says otherwise. Errors
// say what was expected and found for which key. Thread safety: plain values.
// Used by many folders, among them bench, cli and config.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/decoder_config.h"
#include "config/deepseek_mla_config.h"
#include "config/deepseek_v4_config.h"
#include "config/rope_config.h"
#include "sluice/status.h"

namespace sluice {

// Limits on what a config may ask for.
inline constexpr int kMaxWidth = 1 << 20;  // hidden, intermediate and low-rank sizes
inline constexpr int kMaxPredictLayers = 64;
// No model comes near these; products of two of them stay far from the limits of 64 bits.
inline constexpr int kMaxVocabulary = 1 << 24;
inline constexpr int kMaxLayers = 4096;
inline constexpr int kMaxHeads = 1 << 16;
inline constexpr int kMaxPositions = 1 << 30;

struct MoeConfig {
  int n_routed_experts = 0;
  int n_shared_experts = 0;
  int num_experts_per_tok = 0;
  int moe_intermediate_size = 0;
  double routed_scaling_factor = 1.0;
  bool norm_topk_prob = true;
  std::string scoring_func;  // "sqrtsoftplus", "sigmoid" or "softmax"
  int n_group = 1;           // groups of experts, of which a token uses the best topk_group
  int topk_group = 1;
  std::optional<double> swiglu_limit;  // clamp inside SwiGLU; none: no clamp
  std::string expert_dtype;            // "fp4", "fp8" or "bf16": the routed experts
  bool expert_dtype_is_given = false;  // false: the default; a loader may go by the tensors instead
  bool routes_by_token = false;        // made-up weights: every layer has a table of experts by token id
};

// quantization_config; `fp8` false when there is none.
struct QuantizationConfig {
  bool fp8 = false;      // linears in e4m3 with block scales
  int block_rows = 128;  // weight_block_size
  int block_columns = 128;
  std::string scale_fmt;  // "ue8m0" or "" (f32 scales); the scale tensors' own dtype decides
};

struct ModelConfig {
  std::string model_type;    // "deepseek_v4"
  std::string architecture;  // "DeepseekV4ForCausalLM"
  int vocab_size = 0;
  int hidden_size = 0;
  int num_hidden_layers = 0;
  int num_attention_heads = 0;
  int num_key_value_heads = 0;
  int head_dim = 0;
  int max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;
  bool tie_word_embeddings = false;
  std::string torch_dtype;                  // "bfloat16"; "" when the config does not say ("dtype" in newer configs)
  std::int32_t bos_token_id = -1;           // -1: none
  std::vector<std::int32_t> eos_token_ids;  // "eos_token_id", one or a list; all in the vocabulary
  RopeConfig rope;                          // V4: the window layers and MTP
  RopeConfig compress_rope;                 // V4: the CSA and HCA layers; other families do not use it
  MoeConfig moe;
  QuantizationConfig quantization;
  std::variant<DeepSeekV4Config, DeepSeekMlaConfig, DecoderConfig> family;
  std::vector<std::string> notes;          // remarks for the user: ids that no token has, other keys
  std::vector<std::string> default_sizes;  // "head_dim 128": sizes that the file leaves to the family's defaults

  const DeepSeekV4Config& v4() const { return std::get<DeepSeekV4Config>(family); }
  const DeepSeekMlaConfig& mla() const { return std::get<DeepSeekMlaConfig>(family); }
  const DecoderConfig& decoder() const { return std::get<DecoderConfig>(family); }
};

// `what` names the text in messages ("config.json").
Result<ModelConfig> parse_model_config(std::string_view json, std::string_view what);
// `path`: a model folder (its config.json), a config file, or a GGUF file (its metadata).
Result<ModelConfig> load_model_config(const std::string& path);

// The names of the supported architectures, for messages and --help.
std::vector<std::string_view> supported_architectures();

}  // namespace sluice
