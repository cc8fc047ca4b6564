// Used by engine/load.cc.
#include "model/ranked_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

template <class T>
std::span<const T> place(const DeviceGroup& group, int rank, std::span<const T> values) {
  return {group.of(rank, values.data()), values.size()};
}

// The tables with a rank's addresses; the spans for the host stay the host's.
StepTables tables_of(const DeviceGroup& group, int rank, const StepTables& tables) {
  StepTables own = tables;
  own.ids = place(group, rank, tables.ids), own.positions = place(group, rank, tables.positions);
  own.spans = place(group, rank, tables.spans), own.logit_rows = place(group, rank, tables.logit_rows);
  own.states_after = group.of(rank, tables.states_after);
  own.latent_pages = group.of(rank, tables.latent_pages), own.window_pages = group.of(rank, tables.window_pages);
  own.window_slots = group.of(rank, tables.window_slots);
  for (ClosedWindows& closed : own.closed) {
    closed.begin = group.of(rank, closed.begin), closed.positions = group.of(rank, closed.positions);
    closed.slots = group.of(rank, closed.slots);
  }
  own.ended_blocks = group.of(rank, tables.ended_blocks), own.boundary_pages = group.of(rank, tables.boundary_pages);
  own.id_slots = group.of(rank, tables.id_slots);
  return own;
}

CacheView view_of(const DeviceGroup& group, int rank, const CacheView& cache) {
  CacheView own = cache;
  for (PlaneView& plane : own.planes) plane.base = group.of(rank, plane.base);
  own.open_base = group.of(rank, cache.open_base);
  return own;
}

// The exports of a rank other than the first: it computes the same values, and hands nothing out.
StepExports exports_of(const DeviceGroup& group, int rank, const StepExports* exports) {
  StepExports own;
  if (exports == nullptr) return own;
  own.scored_from = exports->scored_from, own.tile_rows = exports->tile_rows;
  own.tile = group.of(rank, exports->tile);
  if (exports->on_tile) own.on_tile = [](int, int) {};
  return own;
}

}  // namespace

RankedModel::RankedModel(std::vector<std::unique_ptr<Model>> parts, DeviceGroup& group)
    : parts_(std::move(parts)), group_(group) {}

Status RankedModel::prepare(Device& /*device*/, int rows, Position positions) {
  for (int rank = 0; rank < group_.ranks(); ++rank) {
    const Status prepared = parts_[static_cast<std::size_t>(rank)]->prepare(group_.device(rank), rows, positions);
    if (!prepared.ok()) {
      return resource_exhausted(fmt::format("rank {} of {}: {}", rank, group_.ranks(), prepared.message()));
    }
  }
  return {};
}

// The views change only with the cache, when all ops are done.
void RankedModel::place_views(const CacheView& cache) {
  const auto same = [](const PlaneView& a, const PlaneView& b) { return a.base == b.base; };
  if (!views_.empty() && views_.front().open_base == cache.open_base &&
      std::ranges::equal(views_.front().planes, cache.planes, same)) {
    return;
  }
  group_.wait();
  views_.clear();
  for (int rank = 0; rank < group_.ranks(); ++rank) views_.push_back(view_of(group_, rank, cache));
}

void RankedModel::forward(const Exec& exec, const StepTables& step, const CacheView& cache, float* logits,
                          const Observer* observer) {
  place_views(cache);
  group_.each([&](int rank) {
    Model& part = *parts_[static_cast<std::size_t>(rank)];
    const StepExports beside = exports_of(group_, rank, exports_);
    part.set_exports(rank == 0 || exports_ == nullptr ? exports_ : &beside);
    part.forward(group_.rank_exec(exec, rank), tables_of(group_, rank, step), views_[static_cast<std::size_t>(rank)],
                 group_.of(rank, logits), rank == 0 ? observer : nullptr);
    part.set_exports(nullptr);
  });
}

void RankedModel::draft(const Exec& exec, const StepTables& step, const CacheView& cache, int depth, float* logits,
                        const Observer* observer) {
  place_views(cache);
  group_.each([&](int rank) {
    parts_[static_cast<std::size_t>(rank)]->draft(group_.rank_exec(exec, rank), tables_of(group_, rank, step),
                                                  views_[static_cast<std::size_t>(rank)], depth,
                                                  group_.of(rank, logits), rank == 0 ? observer : nullptr);
  });
}

Result<std::unique_ptr<Model>> load_ranked_model(const Exec& exec, DeviceGroup& group, const std::string& folder,
                                                 const EngineSetup& options, const LoadProgress& progress,
                                                 LoadReport* report) {
  std::vector<std::unique_ptr<Model>> parts;
  for (int rank = 0; rank < group.ranks(); ++rank) {
    Exec own = group.rank_exec(exec, rank);
    own.pool = exec.pool;  // the pool is idle
    const LoadProgress of_all = [&](std::size_t done, std::size_t total) {
      const auto before = static_cast<std::size_t>(rank) * total;
      if (progress) progress(before + done, static_cast<std::size_t>(group.ranks()) * total);
    };
    LoadReport of_rank;
    auto part = load_model(own, folder, options, of_all, &of_rank);
    if (!part.ok()) return part.status();
    parts.push_back(std::move(part).value());
    if (report == nullptr) continue;
    if (rank == 0) {
      *report = std::move(of_rank);
    } else {
      report->seconds += of_rank.seconds;
      report->packed_bytes += of_rank.packed_bytes;
    }
  }
  return std::unique_ptr<Model>(std::make_unique<RankedModel>(std::move(parts), group));
}

}  // namespace sluice
