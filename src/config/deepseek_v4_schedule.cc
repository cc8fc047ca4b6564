// Used by deepseek_v4_config.cc, model_config.h and model_families.cc.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "config/deepseek_v4_config.h"
#include "config/model_config.h"
#include "files/json_fields.h"

namespace sluice {
namespace {

constexpr int kCsaRatio = 4;
constexpr int kHcaRatio = 128;
constexpr int kDefaultHashLayers = 3;  // the transformers library's default
constexpr double kDefaultTheta = 10000.0;
constexpr double kDefaultCompressTheta = 160000.0;

bool is_ratio(int ratio) {
  return ratio == 0 || ratio == kCsaRatio || ratio == kHcaRatio;
}

// The official schedule: one ratio a layer, then those of the MTP layers (which a file may leave out, and which may be
// there although the MTP layers themselves are not).
std::vector<int> official_ratios(JsonFields& fields, int layer_count, int mtp_layer_count) {
  std::vector<int> ratios;
  fields.read("compress_ratios", ratios, 0, kHcaRatio);
  const auto size = static_cast<int>(ratios.size());
  const int most = layer_count + std::max(mtp_layer_count, 1);
  if (size < layer_count || size > most) {
    fields.fail("compress_ratios",
                fmt::format("{} to {} ratios for num_hidden_layers = {}", layer_count, most, layer_count));
  } else if (!std::ranges::all_of(ratios, is_ratio)) {
    fields.fail("compress_ratios", "ratios of 0, 4 or 128");
  } else if (std::any_of(ratios.begin() + layer_count, ratios.end(), [](int ratio) { return ratio != 0; })) {
    fields.fail("compress_ratios", fmt::format("0 for the MTP layers, after the first {} ratios", layer_count));
  }
  ratios.resize(static_cast<std::size_t>(layer_count));
  return ratios;
}

// The newer schedule.
std::vector<int> ratios_of_layer_types(JsonFields& fields, int layer_count, int mtp_layer_count) {
  std::vector<int> ratios;
  std::vector<std::string> types;
  fields.read("layer_types", types);
  const auto size = static_cast<int>(types.size());
  if (size < layer_count || size > layer_count + std::max(mtp_layer_count, 1)) {
    fields.fail("layer_types", fmt::format("a type for each of num_hidden_layers = {}", layer_count));
    return ratios;
  }
  types.resize(static_cast<std::size_t>(layer_count));
  for (const std::string& type : types) {
    if (type == "sliding_attention") {
      ratios.push_back(0);
    } else if (type == "compressed_sparse_attention") {
      ratios.push_back(kCsaRatio);
    } else if (type == "heavily_compressed_attention") {
      ratios.push_back(kHcaRatio);
    } else {
      fields.fail("layer_types",
                  "types sliding_attention, compressed_sparse_attention or heavily_compressed_attention");
    }
  }
  return ratios;
}

// Layers 0 and 1 are HCA; from then on even ones are HCA and odd ones CSA, as the transformers library counts them.
std::vector<int> default_ratios(int layer_count) {
  std::vector<int> ratios;
  for (int layer = 0; layer < layer_count; ++layer) {
    ratios.push_back(layer >= 2 && layer % 2 == 1 ? kCsaRatio : kHcaRatio);
  }
  return ratios;
}

// compress_rates may only say what the layer types mean anyway.
Status check_compress_rates(const JsonFields& fields) {
  JsonFields rates = fields.child("compress_rates");
  int csa = kCsaRatio;
  int hca = kHcaRatio;
  rates.read("compressed_sparse_attention", csa, kCsaRatio, kCsaRatio);
  rates.read("heavily_compressed_attention", hca, kHcaRatio, kHcaRatio);
  return rates.status();
}

std::vector<bool> hash_routing(JsonFields& fields, int layer_count) {
  std::vector<bool> hashed(static_cast<std::size_t>(layer_count), false);
  if (!fields.has("num_hash_layers") && fields.has("mlp_layer_types")) {
    std::vector<std::string> types;
    fields.read("mlp_layer_types", types);
    if (types.size() < hashed.size()) {
      fields.fail("mlp_layer_types", fmt::format("a type for each of num_hidden_layers = {}", layer_count));
      return hashed;
    }
    for (std::size_t i = 0; i < hashed.size(); ++i) {
      if (types[i] != "hash_moe" && types[i] != "moe") fields.fail("mlp_layer_types", "types hash_moe or moe");
      hashed[i] = types[i] == "hash_moe";
    }
    return hashed;
  }
  int count = std::min(kDefaultHashLayers, layer_count);
  if (fields.has("compress_ratios")) {
    fields.require("num_hash_layers", count, 0, layer_count);
  } else {
    fields.read("num_hash_layers", count, 0, layer_count);
  }
  std::fill_n(hashed.begin(), count, true);
  return hashed;
}

// YaRN's keys, below rope_scaling or an entry of rope_parameters. Leaves theta alone.
void read_layer_yarn(JsonFields& fields, RopeConfig& rope) {
  check_rope_keys(fields, "main compress");
  std::string type = "default";
  fields.read("type", type);
  fields.read("rope_type", type);
  if (type == "default") return;
  if (type != "yarn") return fields.fail(fields.has("rope_type") ? "rope_type" : "type", "\"yarn\" or \"default\"");
  rope.yarn = true;
  fields.require("factor", rope.factor, 1.0, 1e6);
  fields.require("original_max_position_embeddings", rope.original_max_position_embeddings, 1, 1 << 30);
  fields.read("beta_fast", rope.beta_fast, 1e-3, 1e6);
  fields.read("beta_slow", rope.beta_slow, 1e-3, rope.beta_fast);
  double attention_factor = 1.0;
  fields.read("attention_factor", attention_factor, 1.0, 1.0);  // V4 never scales cos and sin
  fields.read("truncate", rope.truncate);
}

Status read_nested_rope(const JsonFields& parameters, RopeConfig& rope, const char* key) {
  JsonFields entry = parameters.child(key);
  entry.read("rope_theta", rope.theta, 1.0, kMaxTheta);
  read_layer_yarn(entry, rope);
  return entry.status();
}

// rope_parameters, with one entry for each kind of layer, or flat: then its YaRN is that of the compressed layers.
Status read_rope_parameters(const JsonFields& fields, ModelConfig& config) {
  JsonFields parameters = fields.child("rope_parameters");
  const bool nested = parameters.has("main") || parameters.has("compress");
  if (nested) {
    SLUICE_RETURN_IF_ERROR(read_nested_rope(parameters, config.rope, "main"));
    SLUICE_RETURN_IF_ERROR(read_nested_rope(parameters, config.compress_rope, "compress"));
    return parameters.status();
  }
  parameters.read("rope_theta", config.rope.theta, 1.0, kMaxTheta);
  read_layer_yarn(parameters, config.compress_rope);
  return parameters.status();
}

}  // namespace

Status read_deepseek_v4_layers(JsonFields& fields, int layer_count, int mtp_layer_count, DeepSeekV4Config& v4) {
  std::vector<int> ratios;
  if (fields.has("compress_ratios")) {
    ratios = official_ratios(fields, layer_count, mtp_layer_count);
  } else if (fields.has("layer_types")) {
    ratios = ratios_of_layer_types(fields, layer_count, mtp_layer_count);
  } else {
    ratios = default_ratios(layer_count);
  }
  const std::vector<bool> hashed = hash_routing(fields, layer_count);
  SLUICE_RETURN_IF_ERROR(fields.status());
  SLUICE_RETURN_IF_ERROR(check_compress_rates(fields));
  for (std::size_t i = 0; i < ratios.size(); ++i) v4.layers.push_back({ratios[i], hashed[i]});
  v4.mtp_layers.assign(static_cast<std::size_t>(mtp_layer_count), DeepSeekV4Layer());
  return {};
}

Status read_deepseek_v4_rope(JsonFields& fields, ModelConfig& config) {
  config.rope.theta = kDefaultTheta;
  config.compress_rope.theta = kDefaultCompressTheta;
  SLUICE_RETURN_IF_ERROR(read_rope_parameters(fields, config));
  if (fields.has("rope_scaling")) {
    config.compress_rope = {.theta = config.compress_rope.theta};
    JsonFields scaling = fields.child("rope_scaling");
    read_layer_yarn(scaling, config.compress_rope);
    SLUICE_RETURN_IF_ERROR(scaling.status());
  }
  const bool newer_form = fields.has("rope_parameters");
  if (!newer_form) {
    fields.require("rope_theta", config.rope.theta, 1.0, kMaxTheta);
    fields.require("compress_rope_theta", config.compress_rope.theta, 1.0, kMaxTheta);
  }
  fields.read("rope_theta", config.rope.theta, 1.0, kMaxTheta);
  fields.read("compress_rope_theta", config.compress_rope.theta, 1.0, kMaxTheta);
  return fields.status();
}

}  // namespace sluice
