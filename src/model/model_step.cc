#include "model/model_step.h"

#include <string>

namespace sluice {

void ModelStep::show(int layer, const char* name, const float* values, int shown_rows, std::int64_t columns) const {
  if (probe == nullptr) return;
  (*probe)("layers." + std::to_string(layer) + "." + name, values, shown_rows, static_cast<int>(columns));
}

void ModelStep::show(int layer, const char* name, const std::vector<std::int32_t>& values, std::int64_t columns) const {
  if (probe == nullptr) return;
  const std::vector<float> shown(values.begin(), values.end());
  show(layer, name, shown.data(), columns);
}

}  // namespace sluice
