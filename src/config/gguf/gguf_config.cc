// Used by cli/commands, config, config/gguf and model.
#include "config/gguf/gguf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>
#include <cstdint>
#include <set>

#include "files/json.h"

namespace sluice {

namespace {

namespace json = boost::json;

constexpr std::string_view kRopeDivisors = "rope_freqs.weight";

// The texts of tokens that end an answer in common models: many files name only one of several end tokens.
constexpr std::string_view kEndTexts[] = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<end_of_utterance>",
    "<｜end▁of▁sentence｜>",
    "</s>",
    "<eos>",
};

// <|end|> ends a channel, not the answer, if calls and returns have tokens of their own.
void add_ends_by_text(const GgufModel& model, std::set<std::int64_t>& ends) {
  const GgufValue* value = GgufFields(model, "tokenizer.ggml.").find("tokens");
  const auto* array = value == nullptr ? nullptr : std::get_if<GgufArray>(value);
  if (array == nullptr || array->type != GgufType::kString) return;
  const auto has = [&](std::string_view text) {
    return std::ranges::find(array->strings, text) != array->strings.end();
  };
  const bool has_channels = has("<|return|>") && has("<|call|>");
  for (std::size_t id = 0; id < array->strings.size(); ++id) {
    const std::string_view text = array->strings[id];
    if (has_channels && text == "<|end|>") continue;
    if (std::ranges::find(kEndTexts, text) != std::end(kEndTexts)) ends.insert(static_cast<std::int64_t>(id));
  }
}

// Writes the token ids from the tokenizer's keys, and from its tokens.
Status write_token_ids(const GgufModel& model, json::object& config) {
  GgufFields fields(model, "tokenizer.ggml.");
  constexpr std::int64_t kNoId = UINT32_MAX;  // this id means that there is none
  const auto read = [&](std::string_view key) {
    std::int64_t id = -1;
    fields.read(key, id, INT64_MIN, INT64_MAX);
    return id == kNoId ? -1 : id;
  };
  if (const std::int64_t id = read("bos_token_id"); id >= 0) config["bos_token_id"] = id;
  std::set<std::int64_t> ends;
  for (const std::string_view key : {"eos_token_id", "eot_token_id", "eom_token_id"}) {
    if (const std::int64_t id = read(key); id >= 0) ends.insert(id);
  }
  add_ends_by_text(model, ends);
  if (!ends.empty()) config["eos_token_id"] = json::array(ends.begin(), ends.end());
  return fields.status();
}

// Some files count the layers for multi-token prediction among their blocks; those are the last ones.
std::int64_t predicting_blocks(const GgufModel& model, std::int64_t blocks) {
  std::int64_t predicting = 0;
  while (predicting < blocks &&
         model.find(fmt::format("blk.{}.nextn.eh_proj.weight", blocks - predicting - 1)) != nullptr) {
    ++predicting;
  }
  return predicting;
}

Status write_common(const GgufModel& model, GgufFields& fields, json::object& config) {
  const TensorView* embedding = model.find("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2) {
    return invalid_argument(
        fmt::format("{}: expected a tensor token_embd.weight [vocabulary, embedding_length], found {}", model.path(),
                    embedding == nullptr ? "none" : shape_text(embedding->shape)));
  }
  GgufConfigWriter writer(fields, config);
  config["vocab_size"] = embedding->shape[0];
  config["tie_word_embeddings"] = model.find("output.weight") == nullptr;
  config["hidden_act"] = "silu";
  writer.integer("hidden_size", "embedding_length");
  const std::int64_t blocks = writer.integer("num_hidden_layers", "block_count");
  config["num_hidden_layers"] = blocks - predicting_blocks(model, blocks);
  writer.integer("num_attention_heads", "attention.head_count");
  writer.optional_integer("num_key_value_heads", "attention.head_count_kv");
  writer.integer("max_position_embeddings", "context_length");
  writer.number("rms_norm_eps", "attention.layer_norm_rms_epsilon");
  SLUICE_RETURN_IF_ERROR(fields.status());
  return write_token_ids(model, config);
}

// Reads rope_freqs.weight, the divisors of the frequencies: GGUF files store llama3's scaling so.
Status read_rope_divisors(const GgufModel& model, ModelConfig& config) {
  const TensorView* tensor = model.find(kRopeDivisors);
  if (tensor == nullptr) return {};
  const std::vector<std::int64_t> expected{config.head_dim / 2};
  if (tensor->shape != expected || !has_float_rows(*tensor)) {
    return invalid_argument(fmt::format("tensor {} in {}: expected a divisor for each frequency, {}, found {} {}",
                                        tensor->name, tensor->file, shape_text(expected), dtype_name(tensor->dtype),
                                        shape_text(tensor->shape)));
  }
  RopeConfig& rope = config.rope;
  rope.frequency_divisors.resize(static_cast<std::size_t>(tensor->elements()));
  read_rows(*tensor, 0, 1, rope.frequency_divisors.data());
  for (const float divisor : rope.frequency_divisors) {
    if (!(divisor > 0) || !std::isfinite(divisor)) {
      return invalid_argument(fmt::format("tensor {} in {}: expected finite divisors above 0, found {}", tensor->name,
                                          tensor->file, divisor));
    }
  }
  return {};
}

}  // namespace

Result<ModelConfig> gguf_model_config(const GgufModel& model) {
  SLUICE_ASSIGN_OR_RETURN(const GgufArchitecture* architecture, gguf_architecture(model));
  GgufFields fields(model, std::string(architecture->name) + ".");
  json::object config;
  SLUICE_RETURN_IF_ERROR(write_common(model, fields, config));
  SLUICE_RETURN_IF_ERROR(architecture->write_config(model, fields, config));
  SLUICE_RETURN_IF_ERROR(fields.status());
  SLUICE_ASSIGN_OR_RETURN(ModelConfig parsed,
                          parse_model_config(dump_json(config), fmt::format("{} (as config.json)", model.path())));
  const bool divides = std::ranges::any_of(architecture->tensors.model, [](const GgufName& name) {
    return name.gguf == kRopeDivisors && name.layout == GgufLayout::kOfConfig;
  });
  if (divides) SLUICE_RETURN_IF_ERROR(read_rope_divisors(model, parsed));
  return parsed;
}

Result<ModelConfig> load_gguf_config(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<GgufModel> model, GgufModel::open(path));
  return gguf_model_config(*model);
}

std::int64_t GgufConfigWriter::integer(std::string_view official, std::string_view key) {
  std::int64_t value = 0;
  fields_.require(key, value, std::int64_t{0}, std::int64_t{INT32_MAX});
  if (fields_.status().ok()) config_[official] = value;
  return value;
}

void GgufConfigWriter::optional_integer(std::string_view official, std::string_view key) {
  if (fields_.has(key)) integer(official, key);
}

double GgufConfigWriter::number(std::string_view official, std::string_view key) {
  double value = 0;
  fields_.require(key, value);
  if (fields_.status().ok()) config_[official] = value;
  return value;
}

double GgufConfigWriter::number(std::string_view official, std::string_view key, double absent) {
  if (fields_.has(key)) return number(official, key);
  config_[official] = absent;
  return absent;
}

json::object* GgufConfigWriter::rope() {
  number("rope_theta", "rope.freq_base", 10000.0);
  double factor = 0;  // 0: no scaling
  fields_.read(fields_.has("rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear", factor);
  std::string type = factor != 0 ? "linear" : "none";
  fields_.read("rope.scaling.type", type);
  if (type == "none" || !fields_.status().ok()) return nullptr;
  if (type != "linear" && type != "yarn") {
    fields_.fail("rope.scaling.type", "\"none\", \"linear\" or \"yarn\"");
    return nullptr;
  }
  json::object scaling{{"type", type}};
  GgufConfigWriter writer(fields_, scaling);
  scaling["factor"] = factor != 0 ? factor : 1.0;
  if (type == "yarn") {
    writer.optional_integer("original_max_position_embeddings", "rope.scaling.original_context_length");
    writer.number("beta_fast", "rope.scaling.yarn_beta_fast", 32.0);
    writer.number("beta_slow", "rope.scaling.yarn_beta_slow", 1.0);
  }
  json::object& stored = config_["rope_scaling"].emplace_object() = std::move(scaling);
  return type == "yarn" ? &stored : nullptr;
}

namespace {

// Every supported architecture, once.
constexpr const GgufArchitecture* kArchitectures[] = {
    &kGgufLlama, &kGgufQwen2, &kGgufQwen3, &kGgufDeepSeek2, &kGgufDeepSeek4,
};

}  // namespace

Result<const GgufArchitecture*> gguf_architecture(const GgufModel& model) {
  GgufFields fields(model, "general.");
  std::string name, names;
  fields.require("architecture", name);
  SLUICE_RETURN_IF_ERROR(fields.status());
  for (const GgufArchitecture* architecture : kArchitectures) {
    if (architecture->name == name) return architecture;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", architecture->name);
  }
  fields.fail("architecture", fmt::format("a supported one ({})", names));
  return fields.status();
}

Result<GgufNames> gguf_names(const GgufModel& model) {
  SLUICE_ASSIGN_OR_RETURN(const GgufArchitecture* architecture, gguf_architecture(model));
  return architecture->tensors;
}

}  // namespace sluice
