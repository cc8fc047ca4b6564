#include "config/model_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/json/value.hpp>
#include <filesystem>

#include "base/mapped_file.h"
#include "config/generation_config.h"
#include "config/gguf_config.h"
#include "config/model_families.h"
#include "files/json.h"
#include "files/json_fields.h"
#include "files/model_path.h"

namespace sluice {
namespace {

// Upper bounds that no model comes near; products of two of them stay far from the limits of 64 bits.
constexpr int kMaxVocabulary = 1 << 24;
constexpr int kMaxLayers = 4096;
constexpr int kMaxHeads = 1 << 16;
constexpr int kMaxPositions = 1 << 30;
constexpr std::int64_t kMaxExperts = 1 << 17;  // of all layers; each is three tensors, to be listed and looked for

// By "architectures", or by "model_type" where that is missing.
const ModelFamily* find_family(JsonFields& fields) {
  std::vector<std::string> architectures;
  std::string model_type;
  fields.read("architectures", architectures);
  fields.read("model_type", model_type);
  for (const ModelFamily& family : model_families()) {
    if (architectures.empty() ? family.model_type == model_type
                              : std::ranges::find(architectures, family.architecture) != architectures.end()) {
      return &family;
    }
  }
  const std::string key = architectures.empty() && !model_type.empty() ? "model_type" : "architectures";
  fields.fail(key, fmt::format("a supported architecture ({})", fmt::join(supported_architectures(), ", ")));
  return nullptr;
}

// One of the names that PyTorch gives to dtypes; newer files call the key "dtype".
std::string read_torch_dtype(JsonFields& fields) {
  const std::string_view key = fields.has("torch_dtype") ? "torch_dtype" : "dtype";
  std::string dtype;
  fields.read(key, dtype);
  if (dtype.starts_with("torch.")) dtype.erase(0, std::string_view("torch.").size());
  if (!dtype.empty() && dtype != "bfloat16" && dtype != "float16" && dtype != "float32" && dtype != "auto") {
    fields.fail(key, "\"bfloat16\", \"float16\" or \"float32\"");
  }
  return dtype;
}

void read_common(JsonFields& fields, ModelConfig& config) {
  fields.require("vocab_size", config.vocab_size, 1, kMaxVocabulary);
  fields.require("hidden_size", config.hidden_size, 1, kMaxWidth);
  fields.require("num_hidden_layers", config.num_hidden_layers, 1, kMaxLayers);
  fields.require("num_attention_heads", config.num_attention_heads, 1, kMaxHeads);
  config.num_key_value_heads = config.num_attention_heads;
  fields.read("num_key_value_heads", config.num_key_value_heads, 1, kMaxHeads);
  fields.read("head_dim", config.head_dim, 1, kMaxWidth);
  fields.require("max_position_embeddings", config.max_position_embeddings, 1, kMaxPositions);
  fields.require("rms_norm_eps", config.rms_norm_eps, 0.0, 1.0);
  fields.read("tie_word_embeddings", config.tie_word_embeddings);
  config.torch_dtype = read_torch_dtype(fields);
  const int last_id = std::max(config.vocab_size - 1, 0);
  fields.read("bos_token_id", config.bos_token_id, 0, last_id);
  config.eos_token_ids = read_token_ids(fields, "eos_token_id", last_id);
}

// Of a checkpoint in another scheme: the failure, and a way out.
Status other_quantization(const Status& failure, std::string_view method) {
  return invalid_argument(fmt::format(
      "{}; weights quantised by {} are not read: use the model's checkpoint in bf16 or in FP8 with a scale for each "
      "block, or a GGUF file of it",
      failure.message(), method));
}

// Only DeepSeek's own scheme: e4m3 weights with a scale for each block.
Status read_quantization(const JsonFields& fields, QuantizationConfig& quantization) {
  if (!fields.has("quantization_config")) return {};
  JsonFields entry = fields.child("quantization_config");
  std::string method;
  std::string format = "e4m3";
  if (!entry.has("quant_method") && (entry.has("load_in_4bit") || entry.has("load_in_8bit"))) method = "bitsandbytes";
  if (method.empty()) entry.require("quant_method", method);
  if (method != "fp8") entry.fail("quant_method", "\"fp8\"");
  if (!entry.status().ok() && !method.empty()) return other_quantization(entry.status(), method);
  entry.read("fmt", format);
  if (format != "e4m3") entry.fail("fmt", "\"e4m3\"");
  std::vector<std::int32_t> block = {quantization.block_rows, quantization.block_columns};
  entry.read("weight_block_size", block, 1, kMaxWidth);
  if (block.size() != 2) entry.fail("weight_block_size", "a list of two integers");
  entry.read("scale_fmt", quantization.scale_fmt);
  if (!quantization.scale_fmt.empty() && quantization.scale_fmt != "ue8m0" && quantization.scale_fmt != "float") {
    entry.fail("scale_fmt", "\"ue8m0\" or \"float\"");
  }
  SLUICE_RETURN_IF_ERROR(entry.status());
  quantization.fp8 = true;
  quantization.block_rows = block[0];
  quantization.block_columns = block[1];
  return {};
}

}  // namespace

std::vector<std::string_view> supported_architectures() {
  std::vector<std::string_view> names;
  for (const ModelFamily& family : model_families()) names.push_back(family.architecture);
  return names;
}

Result<ModelConfig> parse_model_config(std::string_view json, std::string_view what) {
  SLUICE_ASSIGN_OR_RETURN(const boost::json::value value, parse_json(json, what));
  JsonFields fields(value, std::string(what));
  const ModelFamily* family = find_family(fields);
  SLUICE_RETURN_IF_ERROR(fields.status());
  ModelConfig config;
  config.architecture = family->architecture;
  config.model_type = family->model_type;
  read_common(fields, config);
  SLUICE_RETURN_IF_ERROR(fields.status());
  SLUICE_RETURN_IF_ERROR(read_quantization(fields, config.quantization));
  SLUICE_RETURN_IF_ERROR(family->read_config(fields, config));
  if (const std::int64_t experts = std::int64_t{config.num_hidden_layers} * config.moe.n_routed_experts;
      experts > kMaxExperts) {
    return invalid_argument(fmt::format("{}: expected at most {} routed experts in all layers, found {} x {}", what,
                                        kMaxExperts, config.num_hidden_layers, config.moe.n_routed_experts));
  }
  return config;
}

Result<ModelConfig> load_model_config(const std::string& path) {
  if (is_gguf_path(path)) return load_gguf_config(path);
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(path, error);
  const std::string file = is_folder ? path + "/config.json" : path;
  SLUICE_ASSIGN_OR_RETURN(const std::string text, read_text_file(file));
  return parse_model_config(text, file);
}

}  // namespace sluice
