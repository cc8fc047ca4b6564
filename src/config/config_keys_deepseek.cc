// The tables of DeepSeek-V2, V3, V3.2 and V4. The defaults of V2 to V3.2 are those of DeepseekV2Config,
// DeepseekV3Config and DeepseekV32Config of transformers 5; keys that only the official code reads (moe_layer_freq,
// scoring_func, V2's norm_topk_prob) have its meaning. V4's config has to be complete.
// Used by config_keys_decoder.cc.
#include "config/config_key_rows.h"

namespace sluice {
namespace {

constexpr ConfigKey null_is_false(ConfigKey key) {
  key.null = KeyNull::kNone;
  return key;
}
constexpr ConfigKey scaling(std::string_view absent) {
  return {.name = "routed_scaling_factor", .type = KeyType::kNumber, .absent = absent, .min = 1e-6, .max = 1e6};
}
constexpr ConfigKey queries_rank(std::string_view rule) {
  return {.name = "q_lora_rank",
          .type = KeyType::kSize,
          .absent = "1536",
          .min = 1,
          .max = kMaxWidth,
          .rule = rule,
          .null = KeyNull::kNone};
}
constexpr ConfigKey kKvRank = size_key("kv_lora_rank", "512", kMaxWidth);
constexpr ConfigKey kRopeDims = {
    .name = "qk_rope_head_dim", .type = KeyType::kSize, .absent = "64", .min = 2, .max = 1 << 16, .rule = "even"};
constexpr ConfigKey kNopeDims = size_key("qk_nope_head_dim", "128", 1 << 16);
constexpr ConfigKey kValueDims = size_key("v_head_dim", "128", 1 << 16);
constexpr ConfigKey shared_experts(std::string_view absent) {
  return {.name = "n_shared_experts", .type = KeyType::kSize, .absent = absent, .max = 64, .null = KeyNull::kNone};
}
constexpr ConfigKey routed_experts(std::string_view absent, std::string_view winner) {
  return {
      .name = "n_routed_experts", .type = KeyType::kSize, .absent = absent, .min = 1, .max = 1 << 16, .winner = winner};
}
constexpr ConfigKey groups(std::string_view absent, KeyNull null) {
  return {.name = "n_group",
          .type = KeyType::kInteger,
          .absent = absent,
          .min = 1,
          .max = 1 << 16,
          .rule = "divides n_routed_experts",
          .null = null};
}
constexpr ConfigKey kept_groups(std::string_view absent) {
  return integer_key("topk_group", absent, 1, 1 << 16, "of n_group, with num_experts_per_tok experts at least");
}
constexpr ConfigKey kUnusedKeyHeads = {.name = "num_key_value_heads", .absent = kComputed, .rule = "not used"};
constexpr ConfigKey kUnusedHeadDim = {
    .name = "head_dim", .absent = kComputed, .rule = "qk_rope_head_dim by another name; not used"};
constexpr ConfigKey kQkHeadDim = {.name = "qk_head_dim", .absent = kComputed, .rule = "not used"};
constexpr ConfigKey kBias = flag_key("attention_bias", "false", "of q_a, kv_a and o");
constexpr ConfigKey kFrequency = integer_key("moe_layer_freq", "1", 1, 1 << 16, "from first_k_dense_replace on");
constexpr ConfigKey kPredict = {.name = "num_nextn_predict_layers",
                                .type = KeyType::kInteger,
                                .absent = "0",
                                .max = kMaxPredictLayers,
                                .winner = "num_mtp_layers"};
constexpr ConfigKey mlp_types_key(std::string_view rule) {
  return {.name = "mlp_layer_types", .type = KeyType::kTexts, .absent = kComputed, .rule = rule};
}

constexpr auto kLatentDims = keys({kKvRank, kNopeDims, kRopeDims, kValueDims});
constexpr auto kLastKeys = keys({kPredict, kUnusedKeyHeads, kUnusedHeadDim, kQkHeadDim});
// Keys of V3 and V3.2.
constexpr auto kGroupRouting = keys({
    fixed_key("topk_method", "noaux_tc"),
    fixed_key("scoring_func", "sigmoid"),
    groups("8", KeyNull::kRefused),
    null_is_refused(kept_groups("4")),
});

constexpr auto kV2 =
    joined(shape_keys("102400", "4096", "11008", "32", "32"),
           keys({
               integer_key("max_position_embeddings", "2048", 1, kMaxPositions),
               kEpsKey,
               queries_rank("null: queries come from the hidden state"),
           }),
           kLatentDims,
           keys({
               kBias,
               flag_key("mlp_bias", "false", "of dense layers and shared experts; not in the profile sm90"),
               routed_experts("64", "num_experts"),
               shared_experts("2"),
               integer_key("num_experts_per_tok", kRequired, 1, 1 << 16, "at most n_routed_experts"),
               size_key("moe_intermediate_size", "1407", kMaxWidth),
               scaling("1.0"),
               flag_key("norm_topk_prob", "false", "normalises instead of scaling, with more than one expert"),
               {.name = "topk_method",
                .type = KeyType::kText,
                .absent = "greedy",
                .values = "greedy|group_limited_greedy",
                .rule = "greedy: n_group does not count",
                .null = KeyNull::kRefused},
               fixed_key("scoring_func", "softmax"),
               groups("none", KeyNull::kAbsent),
               kept_groups("none"),
               integer_key("first_k_dense_replace", "0", 0, 1 << 16),
               kFrequency,
               mlp_types_key("counts where first_k_dense_replace is absent"),
           }),
           kLastKeys);

constexpr auto kV3 =
    joined(shape_keys("129280", "7168", "18432", "61", "128"),
           keys({
               integer_key("max_position_embeddings", "4096", 1, kMaxPositions),
               kEpsKey,
               queries_rank("null: queries come from the hidden state"),
           }),
           kLatentDims,
           keys({
               null_is_false(flag_key("rope_interleave", "true", "pairs of neighbours")),
               kBias,
               routed_experts("256", "num_local_experts"),
               shared_experts("1"),
               null_is_refused(integer_key("num_experts_per_tok", "8", 1, 1 << 16, "at most n_routed_experts")),
               size_key("moe_intermediate_size", "2048", kMaxWidth),
               scaling("2.5"),
               null_is_false(flag_key("norm_topk_prob", "true")),
           }),
           kGroupRouting,
           keys({
               integer_key("first_k_dense_replace", "3", 0, 1 << 16),
               kFrequency,
               mlp_types_key("counts where first_k_dense_replace is absent"),
           }),
           kLastKeys);

constexpr auto kV32 =
    joined(shape_keys("129280", "7168", "18432", "61", "128"),
           keys({
               integer_key("max_position_embeddings", "163840", 1, kMaxPositions),
               kEpsKey,
               size_key("q_lora_rank", "1536", kMaxWidth),
           }),
           kLatentDims,
           keys({
               kBias,
               {.name = "n_routed_experts",
                .type = KeyType::kSize,
                .absent = "256",
                .min = 1,
                .max = 1 << 16,
                .winner = "num_local_experts|num_experts"},
               shared_experts("1"),
               integer_key("num_experts_per_tok", "8", 1, 1 << 16, "at most n_routed_experts"),
               size_key("moe_intermediate_size", "2048", kMaxWidth),
               scaling("2.5"),
               flag_key("norm_topk_prob", "true"),
           }),
           kGroupRouting,
           keys({
               mlp_types_key("wins over first_k_dense_replace"),
               integer_key("first_k_dense_replace", "3", 0, 1 << 16),
               kFrequency,
               {.name = "layer_types",
                .type = KeyType::kTexts,
                .absent = kComputed,
                .rule = "indexed_attention for every layer"},
               size_key("index_n_heads", "64", 1 << 16),
               size_key("index_head_dim", "128", 1 << 16, "a power of two of at least qk_rope_head_dim"),
               integer_key("index_topk", "2048", 1, 1 << 20),
           }),
           kLastKeys);

constexpr ConfigKey required(std::string_view name, double min, double max, KeyType type = KeyType::kInteger) {
  return {.name = name, .type = type, .absent = kRequired, .min = min, .max = max};
}
constexpr ConfigKey other(std::string_view name, std::string_view rule) {
  return {.name = name, .absent = kComputed, .rule = rule};
}

constexpr ConfigKey kV4[] = {
    required("vocab_size", 1, kMaxVocabulary, KeyType::kSize),
    required("hidden_size", 1, kMaxWidth, KeyType::kSize),
    required("num_hidden_layers", 1, kMaxLayers, KeyType::kSize),
    required("num_attention_heads", 1, kMaxHeads, KeyType::kSize),
    {.name = "num_key_value_heads",
     .type = KeyType::kInteger,
     .absent = kComputed,
     .min = 1,
     .max = kMaxHeads,
     .rule = "1"},
    required("head_dim", 2, kMaxWidth),
    required("max_position_embeddings", 1, kMaxPositions),
    required("rms_norm_eps", 0, 1, KeyType::kNumber),
    other("qk_rope_head_dim", "else partial_rotary_factor x head_dim; even"),
    required("q_lora_rank", 1, kMaxWidth),
    required("o_lora_rank", 1, kMaxWidth),
    required("o_groups", 1, kMaxHeads),
    required("sliding_window", 1, 1 << 20),
    required("index_n_heads", 1, 1 << 16),
    required("index_head_dim", 1, 1 << 16),
    required("index_topk", 1, 1 << 20),
    required("n_routed_experts", 1, 1 << 16),
    required("n_shared_experts", 0, 64),
    required("num_experts_per_tok", 1, 1 << 16),
    required("moe_intermediate_size", 1, kMaxWidth),
    required("routed_scaling_factor", 1e-6, 1e6, KeyType::kNumber),
    required("swiglu_limit", 0, 1e6, KeyType::kNumber),
    other("expert_dtype", "fp4, fp8 or bf16"),
    required("hc_mult", 4, 4),
    required("hc_sinkhorn_iters", 1, 1000),
    required("hc_eps", 0, 1, KeyType::kNumber),
    fixed_key("scoring_func", "sqrtsoftplus"),
    fixed_key("topk_method", "noaux_tc"),
    {.name = "norm_topk_prob", .type = KeyType::kFlag, .absent = "true", .values = "true"},
    {.name = "attention_bias", .type = KeyType::kFlag, .absent = "false", .values = "false"},
    {.name = "mlp_bias", .type = KeyType::kFlag, .absent = "false", .values = "false"},
    {.name = "tie_word_embeddings", .type = KeyType::kFlag, .absent = "false", .values = "false"},
    integer_key("num_nextn_predict_layers", "0", 0, kMaxPredictLayers),
    other("compress_ratios", "else layer_types and compress_rates"),
    other("layer_types", "counts where compress_ratios is absent"),
    other("compress_rates", "4 and 128"),
    other("num_hash_layers", "else mlp_layer_types"),
    other("mlp_layer_types", "counts where num_hash_layers is absent"),
    other("compress_rope_theta", "else of rope_parameters"),
    other("dspark_block_size", "a drafter of its own kind"),
    other("dspark_noise_token_id", "a drafter of its own kind"),
    other("dspark_target_layer_ids", "a drafter of its own kind"),
    other("qk_head_dim", "not used"),
    other("intermediate_size", "not used"),
};

}  // namespace

const ConfigTable kDeepSeekV2Table{"deepseek_v2", kV2};
const ConfigTable kDeepSeekV3Table{"deepseek_v3", kV3};
const ConfigTable kDeepSeekV32Table{"deepseek_v32", kV32};
const ConfigTable kDeepSeekV4Table{"deepseek_v4", kV4};

}  // namespace sluice
