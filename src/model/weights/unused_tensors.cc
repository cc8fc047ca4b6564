// Used by weight_table.cc.
#include "model/weights/unused_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>

namespace sluice {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool ends_with_any(std::string_view name, std::span<const std::string_view> endings) {
  return std::ranges::any_of(endings, [&](std::string_view ending) { return name.ends_with(ending); });
}

// Returns the number after `before` ("layers."), if `before` begins a part of the name; none for other names.
std::optional<int> number_behind(std::string_view name, std::string_view before) {
  for (std::size_t at = name.find(before); at != std::string_view::npos; at = name.find(before, at + 1)) {
    if (at > 0 && name[at - 1] != '.') continue;
    const std::string_view rest = name.substr(at + before.size());
    int number = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (error == std::errc() && number >= 0 && end != rest.data() + rest.size() && *end == '.') return number;
  }
  return std::nullopt;
}

std::optional<int> layer_of(std::string_view name) {
  const std::optional<int> layer = number_behind(name, "layers.");
  return layer ? layer : number_behind(name, "blk.");
}

// Tables and masks that older programs kept with the weights; they follow from the config.
bool is_table(const TensorView& tensor) {
  static constexpr std::array<std::string_view, 9> kTables = {
      "inv_freq",       "rotary_emb.cos_cached", "rotary_emb.sin_cached",   "attn.masked_bias", "attention.masked_bias",
      ".attn_rot_embd", ".attn_rot_embd.weight", "embeddings.position_ids", ".causal_mask"};
  static constexpr std::array<std::string_view, 2> kMasks = {"attn.bias", "attention.bias"};
  return ends_with_any(tensor.name, kTables) || (ends_with_any(tensor.name, kMasks) && tensor.shape.size() > 1);
}

// Returns whether the tensor is a scale of a cache in 8 bits, which is stored differently here.
bool is_cache_scale(std::string_view name) {
  static constexpr std::array<std::string_view, 8> kScales = {".k_scale",
                                                              ".v_scale",
                                                              ".q_scale",
                                                              ".kv_scale",
                                                              ".prob_scale",
                                                              ".prob_output_scale",
                                                              ".k_proj.output_scale",
                                                              ".v_proj.output_scale"};
  return contains(name, "attn") && ends_with_any(name, kScales);
}

// Returns whether a layer of this number is one for multi-token prediction: it joins the token and the hidden state.
bool predicts(const Checkpoint& checkpoint, int layer) {
  return checkpoint.find(fmt::format("model.layers.{}.eh_proj.weight", layer)) != nullptr ||
         checkpoint.find(fmt::format("blk.{}.nextn.eh_proj.weight", layer)) != nullptr;
}

bool is_prediction(std::string_view name, const Checkpoint& checkpoint, const ModelConfig& config) {
  if (std::holds_alternative<DeepSeekV4Config>(config.family) &&
      (name.starts_with("mtp.") || name.starts_with("model.mtp."))) {
    return true;
  }
  const std::optional<int> layer = layer_of(name);
  return layer && *layer >= config.num_hidden_layers && predicts(checkpoint, *layer);
}

// Recognises tensors of models that see or hear, and of programs that wrap a model.
std::string wrapped(std::string_view name) {
  static constexpr std::array<std::string_view, 14> kOther = {
      "vision_tower.",   "vision_model.",          "visual.",
      "model.visual.",   "model.vision_tower.",    "model.vision_model.",
      "mm_projector.",   "multi_modal_projector.", "model.multi_modal_projector.",
      "audio_tower.",    "image_newline",          "model.image_newline",
      "language_model.", "model.language_model."};
  const auto begins = [&](std::string_view prefix) { return name.starts_with(prefix); };
  if (std::ranges::any_of(kOther, begins)) {
    return "it belongs to a multimodal model, which reads pictures or sound; only text models are supported";
  }
  if (contains(name, ".lora_") || begins("base_model.model.") || contains(name, ".modules_to_save.")) {
    return "it belongs to an adapter (LoRA); merge it into the weights (peft: merge_and_unload())";
  }
  if (begins("_orig_mod.") || begins("module.")) {
    return "its name has the prefix of a training program (torch.compile, DistributedDataParallel); save the model "
           "itself";
  }
  if (begins("tok_embeddings.") || contains(name, ".attention.wq.") || contains(name, ".attention_norm.")) {
    return "its name is one of the original Llama or Mistral release; take the model in the form of transformers";
  }
  if (begins("score.") || begins("v_head.") || begins("classifier.") || begins("value_head.")) {
    return "it is the head of a classifier or a reward model; only models that write text are supported";
  }
  return "";
}

bool is_bias(std::string_view name) {
  return name.ends_with(".bias");
}

// Names the key of the config that makes a tensor of a layer unexpected; `gguf`: with the keys of GGUF.
std::string about_layer(std::string_view name, const ModelConfig& config, bool gguf) {
  if (const std::optional<int> layer = layer_of(name); layer && *layer >= config.num_hidden_layers) {
    return fmt::format("it is of layer {}, and '{}' is {}, so the last layer is {}", *layer,
                       gguf ? "block_count" : "num_hidden_layers", config.num_hidden_layers,
                       config.num_hidden_layers - 1);
  }
  const bool qwen = config.model_type.starts_with("qwen");
  if (contains(name, "shared_expert") || contains(name, "_shexp")) {
    return fmt::format("it is of a shared expert, and '{}' is {}", gguf ? "expert_shared_count" : "n_shared_experts",
                       config.moe.n_shared_experts);
  }
  if (const std::optional<int> expert = number_behind(name, "experts.")) {
    const std::string_view key = gguf ? "expert_count" : qwen ? "num_experts" : "n_routed_experts";
    if (*expert >= config.moe.n_routed_experts) {
      return fmt::format("it is of routed expert {}, and '{}' is {}", *expert, key, config.moe.n_routed_experts);
    }
    return fmt::format("it is of a routed expert, and the layer has none by the config ('{}')",
                       gguf   ? "leading_dense_block_count"
                       : qwen ? "decoder_sparse_step' or 'mlp_only_layers"
                              : "first_k_dense_replace");
  }
  if (contains(name, "indexer.")) return "it is of an indexer, which 'architectures' DeepseekV32ForCausalLM has";
  if (contains(name, "e_score_correction_bias") || contains(name, "exp_probs_b")) {
    return fmt::format("it corrects the scores of experts, which '{}' \"{}\" does not do",
                       gguf ? "expert_gating_func" : "scoring_func", config.moe.scoring_func);
  }
  if (is_bias(name) && (contains(name, "attn") || contains(name, "attention"))) {
    return fmt::format("it is a bias of the attention, and the config of a {} model means none ('attention_bias')",
                       config.model_type);
  }
  if (is_bias(name) && (contains(name, "mlp.") || contains(name, "ffn"))) {
    return fmt::format("it is a bias of the feed-forward layer, and the config of a {} model means none ('mlp_bias')",
                       config.model_type);
  }
  if (contains(name, "attn.q_norm.") || contains(name, "attn.k_norm.")) {
    return fmt::format("it is a norm of query or key heads, as in Qwen3, which '{}' {} does not have",
                       gguf ? "general.architecture" : "architectures", config.architecture);
  }
  return "";
}

std::string about_form(std::string_view name) {
  static constexpr std::array<std::string_view, 9> kCodes = {".qweight",       ".qzeros",       ".g_idx",
                                                             ".weight_packed", ".weight_shape", ".absmax",
                                                             ".scales",        ".quant_map",    ".weight_zero_point"};
  if (ends_with_any(name, kCodes) || contains(name, ".quant_state.")) {
    return "it is of a quantised form that 'quantization_config' does not name";
  }
  if (name.ends_with("input_scale") || name.ends_with("activation_scale")) {
    return "it is a fixed scale of inputs, and 'quantization_config.activation_scheme' \"dynamic\" alone is supported";
  }
  static constexpr std::array<std::string_view, 4> kScales = {".weight_scale_inv", ".weight_scale", ".scale",
                                                              "_scale_inv"};
  if (ends_with_any(name, kScales)) return "it is a scale, and no weight beside it is quantised";
  if (is_bias(name)) return "it is a bias, and the config means none";
  return "";
}

std::string reason_of(const TensorView& tensor, const Checkpoint& checkpoint, const ModelConfig& config) {
  for (std::string reason :
       {wrapped(tensor.name), about_layer(tensor.name, config, checkpoint.is_gguf()), about_form(tensor.name)}) {
    if (!reason.empty()) return reason;
  }
  return fmt::format("{} ('{}') has no tensor of this name", config.architecture,
                     checkpoint.is_gguf() ? "general.architecture" : "architectures");
}

}  // namespace

Result<UnusedTensors> judge_unused(std::span<const TensorView* const> unused, const Checkpoint& checkpoint,
                                   const ModelConfig& config) {
  UnusedTensors judged;
  const TensorView* first = nullptr;
  std::size_t refused = 0, predicting = 0;
  for (const TensorView* tensor : unused) {
    const bool drafts = is_prediction(tensor->name, checkpoint, config);
    predicting += drafts ? 1 : 0;
    if (drafts || is_table(*tensor) || is_cache_scale(tensor->name)) {
      judged.harmless.push_back(tensor);
    } else if (refused++ == 0) {
      first = tensor;
    }
  }
  if (predicting > 0) {
    judged.note = fmt::format(
        "{} tensors of a layer for multi-token prediction are not used, as the config names no such layer", predicting);
  }
  if (first == nullptr) return judged;
  return invalid_argument(
      fmt::format("tensor {} in {}: {}{}; correct the config, or take the weights that belong to it", first->name,
                  first->file, reason_of(*first, checkpoint, config),
                  refused > 1 ? fmt::format(" ({} more tensors are not used)", refused - 1) : std::string()));
}

std::string naming_hint(const Checkpoint& checkpoint, std::string_view missing) {
  for (const TensorView* tensor : checkpoint.tensors()) {
    if (const std::string reason = wrapped(tensor->name); !reason.empty()) {
      return fmt::format("; of its tensor {}: {}", tensor->name, reason);
    }
  }
  if (missing.starts_with("model.")) missing.remove_prefix(std::string_view("model.").size());
  for (const TensorView* tensor : checkpoint.tensors()) {
    const std::string_view name = tensor->name;
    if (name.size() > missing.size() + 1 && name.ends_with(missing) && name[name.size() - missing.size() - 1] == '.') {
      return fmt::format("; it has {}: its names begin with another prefix", name);
    }
  }
  return "";
}

}  // namespace sluice
