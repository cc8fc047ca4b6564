// The tables of Llama, Mistral, Qwen2, Qwen3 and Qwen3-MoE. The defaults are those of LlamaConfig, MistralConfig,
// Qwen2Config, Qwen3Config and Qwen3MoeConfig of transformers 5.
// Used by config_keys_deepseek.cc.
#include "config/config_key_rows.h"

namespace sluice {
namespace {

constexpr std::string_view kPerHead = "hidden_size / num_attention_heads where it is absent; even";
constexpr std::string_view kKeyHeads = "divides num_attention_heads, which null means";

constexpr ConfigKey positions_key(std::string_view absent) {
  return {
      .name = "max_position_embeddings", .type = KeyType::kInteger, .absent = absent, .min = 1, .max = kMaxPositions};
}
constexpr ConfigKey kKeyValueHeadsOfHeads = size_key("num_key_value_heads", kComputed, kMaxHeads, kKeyHeads);

constexpr ConfigKey kUseWindow = flag_key("use_sliding_window", "false");
constexpr ConfigKey window_key(std::string_view rule) {
  return {.name = "sliding_window",
          .type = KeyType::kInteger,
          .absent = "4096",
          .min = 1,
          .max = 1 << 30,
          .rule = rule,
          .null = KeyNull::kNone};
}
constexpr ConfigKey kWindowLayers = {.name = "max_window_layers",
                                     .type = KeyType::kInteger,
                                     .absent = "28",
                                     .max = 1 << 16,
                                     .rule = "the first layer with a window, unless layer_types say it"};
constexpr ConfigKey kLayerTypes = {.name = "layer_types",
                                   .type = KeyType::kTexts,
                                   .absent = kComputed,
                                   .rule =
                                       "full_attention or sliding_attention, one a layer; wins over "
                                       "max_window_layers"};

// Keys of Qwen2 and Qwen3.
constexpr auto kQwenWindows = keys({
    kUseWindow,
    window_key("of some layers, with use_sliding_window"),
    kWindowLayers,
    kLayerTypes,
});

constexpr auto kLlama = joined(shape_keys("32000", "4096", "11008", "32", "32"),
                               keys({
                                   kKeyValueHeadsOfHeads,
                                   size_key("head_dim", kComputed, kMaxWidth, kPerHead),
                                   positions_key("2048"),
                                   kEpsKey,
                                   flag_key("attention_bias", "false", "of q, k, v and o"),
                                   flag_key("mlp_bias", "false", "of gate, up and down; not in the profile sm90"),
                               }));

constexpr auto kMistral =
    joined(shape_keys("32000", "4096", "14336", "32", "32"),
           keys({
               size_key("num_key_value_heads", "8", kMaxHeads, kKeyHeads),
               size_key("head_dim", kComputed, kMaxWidth, kPerHead),
               positions_key("131072"),
               kEpsKey,
               window_key("of every layer, or of some by layer_types"),
               {.name = "layer_types",
                .type = KeyType::kTexts,
                .absent = kComputed,
                .rule = "full_attention or sliding_attention, one a layer; only with head_dim and sliding_window"},
           }));

constexpr auto kQwen2 = joined(shape_keys("151936", "4096", "22016", "32", "32"),
                               keys({
                                   size_key("num_key_value_heads", "32", kMaxHeads, kKeyHeads),
                                   null_is_refused(size_key("head_dim", kComputed, kMaxWidth, kPerHead)),
                                   positions_key("32768"),
                                   kEpsKey,
                               }),
                               kQwenWindows);

constexpr auto kQwen3 = joined(shape_keys("151936", "4096", "22016", "32", "32"),
                               keys({
                                   size_key("num_key_value_heads", "32", kMaxHeads, kKeyHeads),
                                   size_key("head_dim", "128", kMaxWidth, "even"),
                                   positions_key("32768"),
                                   kEpsKey,
                                   flag_key("attention_bias", "false", "of q, k, v and o"),
                               }),
                               kQwenWindows);

constexpr auto kQwen3Moe =
    joined(shape_keys("151936", "2048", "6144", "24", "32"),
           keys({
               size_key("num_key_value_heads", "4", kMaxHeads, kKeyHeads),
               null_is_refused(size_key("head_dim", kComputed, kMaxWidth, kPerHead)),
               positions_key("32768"),
               kEpsKey,
               flag_key("attention_bias", "false", "of q, k, v and o"),
               kUseWindow,
               window_key("of every layer, with use_sliding_window"),
               {.name = "num_experts",
                .type = KeyType::kSize,
                .absent = "128",
                .min = 1,
                .max = 1 << 16,
                .winner = "num_local_experts"},
               {.name = "num_experts_per_tok",
                .type = KeyType::kInteger,
                .absent = "8",
                .min = 1,
                .max = 1 << 16,
                .rule = "at most num_experts"},
               size_key("moe_intermediate_size", "768", kMaxWidth),
               flag_key("norm_topk_prob", "false"),
               {.name = "decoder_sparse_step", .type = KeyType::kInteger, .absent = "1", .min = 1, .max = 1 << 16},
               {.name = "mlp_only_layers", .type = KeyType::kIntegers, .absent = "none", .max = 1 << 16},
           }));

}  // namespace

const ConfigTable kLlamaTable{"llama", kLlama};
const ConfigTable kMistralTable{"mistral", kMistral};
const ConfigTable kQwen2Table{"qwen2", kQwen2};
const ConfigTable kQwen3Table{"qwen3", kQwen3};
const ConfigTable kQwen3MoeTable{"qwen3_moe", kQwen3Moe};

}  // namespace sluice
