// Used by feed_forward.h and residual_stream.h.
#include "model/model_step.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/log.h"
#include "kernels/weights/input_forms.h"
#include "kernels/weights/linear_inputs.h"

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
  if (observer == nullptr || !observer->wants(name)) return;
  const auto copy = on_host(device(), values, static_cast<std::size_t>(shown_rows) * static_cast<std::size_t>(columns));
  (*observer)(shown_name(layer, name), copy.data(), shown_rows, static_cast<int>(columns));
}

void ModelStep::show(int layer, const char* name, const std::int32_t* values, std::int64_t columns) const {
  if (observer == nullptr || !observer->wants(name)) return;
  const auto copy = on_host(device(), values, static_cast<std::size_t>(rows()) * static_cast<std::size_t>(columns));
  const std::vector<float> shown(copy.begin(), copy.end());
  (*observer)(shown_name(layer, name), shown.data(), rows(), static_cast<int>(columns));
}

void ModelStep::gather(const Rows& part, const Rows& whole, const LinearWeight* reader) const {
  if (part.values == whole.values) return;
  all_gather(exec, {.rows = rows(),
                    .from = part,
                    .to = whole,
                    .forms_only = reader != nullptr && needs_form_only(part, whole, *reader)});
}

void ModelStep::project_logits(int rows, const Rows& normed, const LinearWeight& head, float* logits) const {
  const bool tiled = exports != nullptr && exports->on_tile;
  const int at_once = tiled ? std::min(rows, exports->scored_from) : rows;
  const auto project_to = [&](int count, const Rows& x, float* to) {
    const Rows whole = contiguous_rows(to, head.view().order_out());
    const bool shares = own != nullptr && own->logits.columns() > 0;
    const int most = shares ? static_cast<int>(OwnColumns::kLogitRows) : count;
    for (int begin = 0; begin < count; begin += most) {
      const int some = std::min(most, count - begin);
      const Rows part = shares ? own->logits.rows(some) : whole;
      project(exec, ProjectArgs{.rows = some, .x = rows_from(x, begin), .stage = StepStage::kHead}.add(head, part));
      if (shares) all_gather(exec, {.rows = some, .from = part, .to = rows_from(whole, begin)});
    }
  };
  if (at_once > 0) project_to(at_once, normed, logits);
  for (int first = at_once; first < rows; first += exports->tile_rows) {
    const int count = std::min(exports->tile_rows, rows - first);
    project_to(count, rows_from(normed, first), exports->tile);
    exports->on_tile(first - at_once, count);
  }
}

void ModelStep::export_entries(int layer, int tokens_per_row, int most, bool chosen, const ScratchTensor& entries,
                               const ScratchTensor& counts) const {
  if (exports == nullptr || !exports->on_entries) return;
  exports->on_entries(layer, tokens_per_row, most, chosen ? entries.ints(rows()) : nullptr,
                      chosen ? counts.ints(rows()) : nullptr);
}

DeviceMemory ModelStep::score_all(IndexSelectArgs* args) const {
  if (observer == nullptr || !observer->wants("index_scores")) return {};
  const std::ptrdiff_t stride = tables.end / args->tokens_per_row;
  const std::size_t count = static_cast<std::size_t>(rows()) * static_cast<std::size_t>(stride);
  auto scores = device().map(count * sizeof(float), "index scores that are shown");
  if (!scores.ok()) {
    log_warning("{}: they are left out", scores.status().message());
    return {};
  }
  args->scores = reinterpret_cast<float*>(scores->data()), args->scores_stride = stride;
  return std::move(scores).value();
}

}  // namespace sluice
