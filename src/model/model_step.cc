#include "model/model_step.h"

#include <algorithm>
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

std::span<const CacheSpan> cache_spans(const Batch& batch, std::vector<CacheSpan>& into) {
  into.clear();
  for (const auto& s : batch.spans) {
    into.push_back({s.row_begin, s.rows, s.first_position, s.latent_pages, s.window_pages, s.first_window_block});
  }
  return into;
}

Position end_position(const Batch& batch) {
  Position end = 0;
  for (const auto& span : batch.spans) end = std::max(end, span.first_position + span.rows);
  return end;
}

void move_to_front(std::span<const int> rows, int columns, float* x) {
  for (std::size_t i = 0; i < rows.size(); ++i) {  // in place: they ascend, so i <= rows[i]
    const auto row = static_cast<std::ptrdiff_t>(rows[i]), to = static_cast<std::ptrdiff_t>(i);
    if (row != to) std::copy_n(x + row * columns, columns, x + to * columns);
  }
}

}  // namespace sluice
