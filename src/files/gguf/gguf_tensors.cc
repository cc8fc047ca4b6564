// Used by files/checkpoint.cc and gguf_rows.cc.
#include "files/gguf/gguf_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace sluice {
namespace {

constexpr std::string_view kLayerPrefix = "blk.";
constexpr std::int64_t kMaxExpertsOfATensor = 1 << 16;

// The name of a layer's tensor in two parts: "12", and the rest after "blk.12.".
struct LayerName {
  std::string_view layer, rest;
};
std::optional<LayerName> split_layer_name(std::string_view name) {
  if (!name.starts_with(kLayerPrefix)) return std::nullopt;
  name.remove_prefix(kLayerPrefix.size());
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos || dot == 0 || dot > 6) return std::nullopt;
  const std::string_view layer = name.substr(0, dot);
  const bool digits = std::ranges::all_of(layer, [](char c) { return c >= '0' && c <= '9'; });
  if (!digits || (layer.size() > 1 && layer.front() == '0')) return std::nullopt;
  return LayerName{layer, name.substr(dot + 1)};
}

// Returns `pattern` with its "{}" replaced.
std::string fill(std::string_view pattern, std::string_view number) {
  const std::size_t place = pattern.find("{}");
  if (place == std::string_view::npos) return std::string(pattern);
  return fmt::format("{}{}{}", pattern.substr(0, place), number, pattern.substr(place + 2));
}

Status wrong_shape(const TensorView& tensor, std::string_view expected) {
  return invalid_argument(fmt::format("tensor {} in {}: expected {}, found {} {}", tensor.name, tensor.file, expected,
                                      dtype_name(tensor.dtype), shape_text(tensor.shape)));
}

}  // namespace

Result<std::unique_ptr<GgufTensors>> GgufTensors::open(const std::string& path, GgufNaming naming) {
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<GgufModel> model, GgufModel::open(path));
  return of(std::move(model), naming);
}

Result<std::unique_ptr<GgufTensors>> GgufTensors::of(std::unique_ptr<GgufModel> model, GgufNaming naming) {
  GgufNames names;
  if (naming != nullptr) {
    SLUICE_ASSIGN_OR_RETURN(names, naming(*model));
  }
  std::unique_ptr<GgufTensors> tensors(new GgufTensors(std::move(model)));
  for (const TensorView* tensor : tensors->model_->tensors()) {
    SLUICE_RETURN_IF_ERROR(tensors->add(names, *tensor));
  }
  return tensors;
}

Status GgufTensors::add(const GgufNames& names, const TensorView& tensor) {
  const std::optional<LayerName> layer = split_layer_name(tensor.name);
  const std::string_view rest = layer ? layer->rest : std::string_view(tensor.name);
  const std::span<const GgufName> table = layer ? names.layer : names.model;
  const auto name = std::ranges::find(table, rest, &GgufName::gguf);
  if (name == table.end()) {
    tensors_.push_back(tensor);
    return {};
  }
  if (!layer) return add_as(*name, "", "", tensor);
  return add_as(*name, fmt::format("{}{}.", kLayerPrefix, layer->layer), fill(names.official_prefix, layer->layer),
                tensor);
}

// `layer` and `prefix`: of the layer's tensors, in the file and officially.
Status GgufTensors::add_as(const GgufName& name, const std::string& layer, const std::string& prefix,
                           const TensorView& tensor) {
  const std::string official = prefix + std::string(name.official);
  switch (name.layout) {
    case GgufLayout::kOfConfig:
      return {};
    case GgufLayout::kSame:
      tensors_.push_back(tensor);
      tensors_.back().name = official;
      return {};
    case GgufLayout::kExperts:
      return add_experts(official, tensor);
    case GgufLayout::kInterleavedQueries:
      return add_interleaved(official, "attention.head_count", tensor);
    case GgufLayout::kInterleavedKeys:
      return add_interleaved(official, "attention.head_count_kv", tensor);
    case GgufLayout::kSplitKeys: {
      const TensorView* values = model_->find(layer + "attn_v_b.weight");
      if (values != nullptr) return add_split(official, tensor, *values);
      return invalid_argument(
          fmt::format("{}: expected a tensor {}attn_v_b.weight, as there is {}", model_->path(), layer, tensor.name));
    }
    case GgufLayout::kSplitValues:
      if (model_->find(layer + "attn_k_b.weight") != nullptr) return {};  // added together with attn_k_b
      return invalid_argument(
          fmt::format("{}: expected a tensor {}attn_k_b.weight, as there is {}", model_->path(), layer, tensor.name));
  }
  return {};
}

Status GgufTensors::add_experts(const std::string& official, const TensorView& tensor) {
  const auto& shape = tensor.shape;
  if (shape.size() != 3 || shape[0] > kMaxExpertsOfATensor || tensor.bytes == 0) {
    return wrong_shape(tensor, fmt::format("the matrices of up to {} experts", kMaxExpertsOfATensor));
  }
  TensorView expert = tensor;
  expert.shape = {shape[1], shape[2]};
  expert.bytes = tensor.bytes / static_cast<std::size_t>(shape[0]);
  for (std::int64_t i = 0; i < shape[0]; ++i) {
    expert.name = fill(official, std::to_string(i));
    expert.data = tensor.data + static_cast<std::size_t>(i) * expert.bytes;
    tensors_.push_back(expert);
  }
  return {};
}

Status GgufTensors::add_interleaved(const std::string& official, std::string_view heads_key, const TensorView& tensor) {
  GgufFields fields(*model_,
                    std::string(std::get<std::string_view>(model_->metadata().at("general.architecture"))) + ".");
  std::int64_t heads = 0;
  fields.require("attention.head_count", heads, 1, 1 << 16);
  fields.read(heads_key, heads, 1, 1 << 16);
  SLUICE_RETURN_IF_ERROR(fields.status());
  const std::int64_t rows = tensor.shape.empty() ? 0 : tensor.shape.front();
  if (rows == 0 || rows % (2 * heads) != 0 || tensor.shape.size() > 2 || !has_float_rows(tensor)) {
    return wrong_shape(tensor, fmt::format("the rows of {} heads of an even size", heads));
  }
  rows_.push_back(make_interleaved_rows(tensor, heads));
  tensors_.push_back(tensor);
  tensors_.back().name = official;
  tensors_.back().rows = rows_.back().get();
  return {};
}

Status GgufTensors::add_split(const std::string& official, const TensorView& keys, const TensorView& values) {
  const auto& k = keys.shape;
  const auto& v = values.shape;
  if (k.size() != 3 || keys.bytes == 0 || !has_float_rows(keys)) {
    return wrong_shape(keys, "[heads, kv_lora_rank, qk_nope_head_dim]");
  }
  if (v.size() != 3 || values.bytes == 0 || !has_float_rows(values) || v[0] != k[0] || v[2] != k[1]) {
    return wrong_shape(values,
                       fmt::format("[{}, v_head_dim, {}], to go with {} {}", k[0], k[1], keys.name, shape_text(k)));
  }
  rows_.push_back(make_split_kv_rows(keys, values));
  TensorView whole = keys;
  whole.name = official;
  whole.shape = {k[0] * (k[2] + v[1]), k[1]};
  whole.bytes = keys.bytes + values.bytes;
  whole.rows = rows_.back().get();
  tensors_.push_back(std::move(whole));
  return {};
}

}  // namespace sluice
