#include "model/model_step.h"

#include <string>
#include <vector>

namespace sluice {

namespace {

template <class T>
std::vector<T> on_host(Device& device, const T* values, std::size_t count) {
  std::vector<T> copy(count);
  device.download(
      {reinterpret_cast<std::byte*>(copy.data()), reinterpret_cast<const std::byte*>(values), count * sizeof(T)});
  device.wait();
  return copy;
}

}  // namespace

std::string ModelStep::shown_name(int layer, const char* name) const {
  return (layer < layers ? "layers." + std::to_string(layer) : "mtp." + std::to_string(layer - layers)) + "." + name;
}

void ModelStep::show(int layer, const char* name, const float* values, int shown_rows, std::int64_t columns) const {
  if (tap == nullptr) return;
  const auto copy = on_host(device(), values, static_cast<std::size_t>(shown_rows) * static_cast<std::size_t>(columns));
  (*tap)(shown_name(layer, name), copy.data(), shown_rows, static_cast<int>(columns));
}

void ModelStep::show(int layer, const char* name, const std::int32_t* values, std::int64_t columns) const {
  if (tap == nullptr) return;
  const auto copy = on_host(device(), values, static_cast<std::size_t>(rows()) * static_cast<std::size_t>(columns));
  const std::vector<float> shown(copy.begin(), copy.end());
  (*tap)(shown_name(layer, name), shown.data(), rows(), static_cast<int>(columns));
}

void ModelStep::score_all(FloatBuffer& buffer, IndexSelectArgs* args) const {
  if (tap == nullptr) return;
  device().wait();  // the buffer may grow
  args->scores_stride = tables.end / args->tokens_per_row;
  args->scores = buffer.get(static_cast<std::size_t>(rows()) * static_cast<std::size_t>(args->scores_stride));
}

}  // namespace sluice
