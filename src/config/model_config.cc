// Used by many folders, among them bench, cli and config.
#include "config/model_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <filesystem>

#include "base/storage/mapped_file.h"
#include "config/config_keys.h"
#include "config/gguf/gguf_config.h"
#include "config/model_families.h"
#include "files/json.h"
#include "files/json_fields.h"
#include "files/model_path.h"

namespace sluice {
namespace {

constexpr std::int64_t kMaxExperts = 1 << 17;  // in all layers; each is three tensors to be listed and looked up
constexpr std::string_view kCausal = "ForCausalLM", kBase = "Model";

bool has_architecture(const ModelFamily& family, std::string_view name) {
  if (name == family.architecture || (!name.empty() && name == family.other_architecture)) return true;
  const std::string_view stem = family.architecture.substr(0, family.architecture.size() - kCausal.size());
  return name.starts_with(stem) && name.substr(stem.size()) == kBase;
}

const ModelFamily* family_of_type(std::string_view model_type) {
  for (const ModelFamily& family : model_families()) {
    if (model_type == family.model_type || (!model_type.empty() && model_type == family.other_model_type))
      return &family;
  }
  return nullptr;
}

const ModelFamily* family_of_architectures(const std::vector<std::string>& architectures) {
  for (const ModelFamily& family : model_families()) {
    for (const std::string& name : architectures) {
      if (has_architecture(family, name)) return &family;
    }
  }
  return nullptr;
}

// Finds the family by "model_type", as in the transformers library; "architectures" must not mean another family. If
// "model_type" is missing, it finds the family by "architectures".
const ModelFamily* find_family(JsonFields& fields) {
  std::vector<std::string> architectures;
  std::string model_type;
  fields.read("architectures", architectures);
  fields.read("model_type", model_type);
  const std::string supported =
      fmt::format("a supported architecture ({})", fmt::join(supported_architectures(), ", "));
  const ModelFamily* by_type = family_of_type(model_type);
  const ModelFamily* by_name = family_of_architectures(architectures);
  if (!architectures.empty() && by_name == nullptr) {
    fields.fail("architectures", supported);
  } else if (by_name == nullptr && by_type == nullptr) {
    fields.fail(model_type.empty() ? "architectures" : "model_type", supported);
  } else if (!model_type.empty() && by_name != nullptr && by_type != by_name) {
    fields.fail("model_type",
                fmt::format("\"{}\", the type of 'architectures' {}, as models of another type are computed "
                            "otherwise",
                            by_name->model_type, fmt::join(architectures, ", ")));
  }
  return by_type != nullptr ? by_type : by_name;
}

// Checks a dtype: one of PyTorch's names, by itself or as the value of {"": name}. Nothing depends on it.
std::string read_torch_dtype(JsonFields& fields) {
  constexpr auto kDtypes = std::to_array<std::string_view>(
      {"auto",        "bfloat16",        "bool",           "double",        "float",
       "float16",     "float32",         "float64",        "float8_e4m3fn", "float8_e4m3fnuz",
       "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "half",          "int16",
       "int32",       "int64",           "int8",           "int",           "long",
       "short",       "uint16",          "uint32",         "uint64",        "uint8"});
  const std::string_view key = fields.has("dtype") ? "dtype" : "torch_dtype";
  std::string dtype;
  const boost::json::value* value = fields.find(key);
  if (value != nullptr && value->is_object()) {
    JsonFields parts = fields.child(key);
    parts.read("", dtype);
    fields.merge(parts);
  } else {
    fields.read(key, dtype);
  }
  if (dtype.starts_with("torch.")) dtype.erase(0, std::string_view("torch.").size());
  if (!dtype.empty() && std::ranges::find(kDtypes, dtype) == kDtypes.end()) {
    fields.fail(key, "the name of a dtype, such as \"bfloat16\", \"float16\" or \"float32\"");
  }
  return dtype;
}

// Reads one id or a list of ids at `key`. An id that no token has counts as absent and becomes a note.
std::vector<std::int32_t> read_special_ids(JsonFields& fields, std::string_view key, ModelConfig& config) {
  std::vector<std::int32_t> ids;
  const boost::json::value* value = fields.find(key);
  if (value == nullptr) return ids;
  const auto add = [&](const boost::json::value& item) {
    const bool whole = item.is_int64() || item.is_uint64();
    if (!whole) return fields.fail(key, "a token id or a list of them");
    const bool inside = item.is_int64() && item.get_int64() >= 0 && item.get_int64() < config.vocab_size;
    if (inside) return ids.push_back(static_cast<std::int32_t>(item.get_int64()));
    config.notes.push_back(
        fmt::format("config.json: key '{}': no token has the id {}, so it means none", key, describe_json(&item)));
  };
  if (!value->is_array()) {
    add(*value);
  } else {
    for (const boost::json::value& item : value->get_array()) add(item);
  }
  return ids;
}

void read_common(ConfigReader& reader, ModelConfig& config) {
  config.vocab_size = reader.integer("vocab_size");
  config.hidden_size = reader.integer("hidden_size");
  config.num_hidden_layers = reader.integer("num_hidden_layers");
  config.num_attention_heads = reader.integer("num_attention_heads");
  config.max_position_embeddings = reader.integer("max_position_embeddings");
  config.rms_norm_eps = reader.number("rms_norm_eps");
  config.tie_word_embeddings = reader.flag("tie_word_embeddings");
  config.torch_dtype = read_torch_dtype(reader.fields());
  const std::vector<std::int32_t> begins = read_special_ids(reader.fields(), "bos_token_id", config);
  if (!begins.empty()) config.bos_token_id = begins.front();
  config.eos_token_ids = read_special_ids(reader.fields(), "eos_token_id", config);
  reader.check_fixed_values();
}

void note_unknown_keys(const ConfigReader& reader, ModelConfig& config) {
  const std::vector<std::string> unknown = reader.unknown_keys();
  if (unknown.empty()) return;
  config.notes.push_back(fmt::format("config.json: models of type '{}' have no {} '{}'; nothing depends on {}",
                                     config.model_type, unknown.size() == 1 ? "key" : "keys",
                                     fmt::join(unknown, "', '"), unknown.size() == 1 ? "it" : "them"));
}

// Returns the error for a checkpoint in another scheme, with a way out.
Status other_quantization(const Status& failure, std::string_view method) {
  return invalid_argument(fmt::format(
      "{}; weights quantised by {} are not read: use the model's checkpoint in bf16 or in FP8 with a scale for each "
      "block, or a GGUF file of it",
      failure.message(), method));
}

// Accepts only DeepSeek's own scheme: e4m3 weights with a scale for each block.
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
  SLUICE_ASSIGN_OR_RETURN(const boost::json::value value, parse_json(json, what, {.of_python = true}));
  JsonFields fields(value, std::string(what));
  const ModelFamily* family = find_family(fields);
  SLUICE_RETURN_IF_ERROR(fields.status());
  ModelConfig config;
  config.architecture = family->architecture;
  config.model_type = family->model_type;
  ConfigReader reader(fields, *family->keys);
  read_common(reader, config);
  SLUICE_RETURN_IF_ERROR(fields.status());
  SLUICE_RETURN_IF_ERROR(read_quantization(fields, config.quantization));
  SLUICE_RETURN_IF_ERROR(family->read_config(reader, config));
  if (const std::int64_t experts = std::int64_t{config.num_hidden_layers} * config.moe.n_routed_experts;
      experts > kMaxExperts) {
    return invalid_argument(fmt::format("{}: expected at most {} routed experts in all layers, found {} x {}", what,
                                        kMaxExperts, config.num_hidden_layers, config.moe.n_routed_experts));
  }
  note_unknown_keys(reader, config);
  config.default_sizes = reader.defaults();
  choose_rope_factors(0, config);
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
