// Used by engine/runner/runner.h, engine/step/drafts/model_drafts.h and model/drafter.h.
#include "kernels/device/device_tables.h"

#include "base/check.h"

namespace sluice {

Status DeviceTables::reserve(Device& device, const TableShape& shape, const Capacity& capacity) {
  constexpr std::size_t kAlignment = 64;
  const auto rows = static_cast<std::size_t>(capacity.rows);
  std::vector<std::size_t> sizes{rows * sizeof(TokenId),
                                 rows * sizeof(Position),
                                 rows * sizeof(RowSpan),
                                 rows * sizeof(std::int32_t),
                                 capacity.latent_pages * sizeof(LatentPage),
                                 capacity.window_pages * sizeof(WindowPage),
                                 rows * sizeof(RowSlot),
                                 (rows + 1) * sizeof(std::int32_t),
                                 rows * sizeof(WindowPage),
                                 rows * sizeof(std::int32_t),
                                 rows * sizeof(std::int32_t)};
  for (std::size_t ratio = 0; ratio < shape.ratios.size(); ++ratio) {
    sizes.insert(sizes.end(), {(rows + 1) * sizeof(std::int32_t), rows * sizeof(Position), rows * sizeof(RowSlot)});
  }
  std::size_t bytes = 0;
  offsets_.clear();
  for (const std::size_t size : sizes) {
    offsets_.push_back(bytes);
    bytes += (size + kAlignment - 1) / kAlignment * kAlignment;
  }
  offsets_.push_back(bytes);
  device_ = &device;
  memory_ = DeviceMemory();
  SLUICE_ASSIGN_OR_RETURN(memory_, device.map(bytes, "the tables of a step"));
  return {};
}

template <class T>
const T* DeviceTables::put(std::size_t place, const T* values, std::size_t count) {
  std::byte* to = memory_.data() + offsets_[place];
  SLUICE_CHECK(count * sizeof(T) <= offsets_[place + 1] - offsets_[place], "a step as large as was reserved for");
  if (count > 0) moves_.push_back({to, reinterpret_cast<const std::byte*>(values), count * sizeof(T)});
  return reinterpret_cast<const T*>(to);
}

const StepTables& DeviceTables::upload(const StepTables& host) {
  moves_.clear();
  tables_ = host;
  const auto rows = static_cast<std::size_t>(host.rows()), spans = host.spans.size();
  std::size_t latents = 0, windows = 0;
  if (spans > 0) {
    latents = static_cast<std::size_t>(host.latent_count);
    windows = static_cast<std::size_t>(host.window_count);
  }
  tables_.ids = {put(0, host.ids.data(), rows), rows};
  tables_.positions = {put(1, host.positions.data(), rows), rows};
  tables_.spans = {put(2, host.spans.data(), spans), spans};
  tables_.logit_rows = {put(3, host.logit_rows.data(), host.logit_rows.size()), host.logit_rows.size()};
  tables_.latent_pages = put(4, host.latent_pages, latents);
  tables_.window_pages = put(5, host.window_pages, windows);
  const bool has_windows = host.window_slots != nullptr;
  tables_.window_slots = put(6, host.window_slots, has_windows ? rows : 0);
  tables_.ended_blocks = put(7, host.ended_blocks, has_windows ? spans + 1 : 0);
  tables_.boundary_pages =
      put(8, host.boundary_pages, has_windows ? static_cast<std::size_t>(host.ended_blocks[spans]) : 0);
  tables_.id_slots = host.id_slots != nullptr ? put(9, host.id_slots, rows) : nullptr;
  tables_.states_after = put(10, host.states_after, rows);
  std::size_t place = 11;
  for (ClosedWindows& closed : tables_.closed) {
    if (closed.ratio == 0) break;
    closed.begin = put(place++, closed.begin, spans + 1);
    closed.positions = put(place++, closed.positions, static_cast<std::size_t>(closed.count));
    closed.slots = put(place++, closed.slots, static_cast<std::size_t>(closed.count));
  }
  device_->upload_all(moves_);
  return tables_;
}

}  // namespace sluice
