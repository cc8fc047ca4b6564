// Called through the table of ops (kernels/ops/ops.h).
#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "base/aligned.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/linear/tiles.h"

namespace sluice::cpu_ops {
namespace {

constexpr int kIndexTileRows = 16;  // rows that share decoded keys, anchored at absolute positions
constexpr int kTilesPerThread = 4;
// The least entries of a tile if a row's are cut, and the room for a row's candidates. With more room, candidates are
// thinned out less often, which takes some passes over all of them.
constexpr std::int32_t kTileEntries = 2048;
constexpr int kCandidates = 2048;

// Rows [begin, end) of a span, which see `entries` at most, in `chunks` tiles.
struct RowGroup {
  int span, begin, end;
  std::int32_t entries;
  std::int32_t chunk_entries = 0;
  int chunks = 0;
  std::size_t found = 0;  // with several chunks: where the rows' results begin, [row][chunk]
};
struct ScoreTile {
  int group, chunk;
};
struct RowTile {
  int group, row;
};
// The best of a chunk for a row: their number, in slots of top_k keys and top_k entries.
struct Plan {
  std::vector<RowGroup> groups;
  std::vector<ScoreTile> tiles;
  std::vector<RowTile> merged;
  std::vector<int> counts;
  FloatBuffer slots;
};

// Candidates for some rows, in memory of this thread.
class CandidateRows {
 public:
  void place(int rows, int capacity) {
    const auto stride = static_cast<std::size_t>(capacity + IndexCandidates::kSlack);
    auto* next = reinterpret_cast<std::int32_t*>(buffer_.get(2 * stride * static_cast<std::size_t>(rows)));
    for (int i = 0; i < rows; ++i, next += 2 * stride) {
      rows_[i] = {.keys = next, .entries = next + stride, .capacity = capacity};
    }
  }
  IndexCandidates* rows() { return rows_; }

 private:
  IndexCandidates rows_[kIndexTileRows];
  FloatBuffer buffer_;
};
CandidateRows& thread_candidates() {
  thread_local CandidateRows rows;
  return rows;
}

class Selection {
 public:
  Selection(const Exec& exec, const IndexSelectArgs& args, Plan& plan) : exec_(exec), args_(args), plan_(plan) {}

  void run() {
    for (int s = 0; s < static_cast<int>(args_.step->spans.size()); ++s) {
      const RowSpan& span = args_.step->spans[static_cast<std::size_t>(s)];
      for (int row = span.row_begin; row < span.row_begin + span.rows;) {
        const Position p = span.first_position + (row - span.row_begin);
        const int next = std::min(span.row_begin + span.rows, row + kIndexTileRows - p % kIndexTileRows);
        add_rows(s, row, next);
        row = next;
      }
    }
    if (plan_.groups.empty()) return;
    cut();
    score_all();
    merge_all();
  }

 private:
  std::int32_t visible(int span, int row) const {
    return visible_entries(args_, args_.step->spans[static_cast<std::size_t>(span)], row);
  }

  void add_rows(int span, int begin, int end) {
    while (begin < end && args_.scores == nullptr && takes_all(args_, visible(span, begin))) take_all(span, begin++);
    if (begin < end) plan_.groups.push_back({span, begin, end, visible(span, end - 1)});
  }

  void take_all(int span, int row) {
    args_.count[row] = std::max(0, visible(span, row) - args_.first_entry);
    std::int32_t* selected = args_.selected + static_cast<std::ptrdiff_t>(row) * args_.top_k;
    std::iota(selected, selected + args_.count[row], args_.first_entry);
  }

  // Cuts entries if there are fewer groups than threads want tiles. The cuts change no result.
  void cut() {
    std::size_t work = 0;
    for (const RowGroup& group : plan_.groups) work += scores_of(group);
    alone_ = exec_.pool->threads() == 1 || work * static_cast<std::size_t>(args_.heads * args_.dims) < kTileOperations;
    const std::size_t tiles = alone_ ? 1 : static_cast<std::size_t>(exec_.pool->threads() * kTilesPerThread);
    const std::size_t least = static_cast<std::size_t>(std::max(kTileEntries, 2 * args_.top_k));
    std::size_t slots = 0;
    for (int g = 0; g < static_cast<int>(plan_.groups.size()); ++g) {
      RowGroup& group = plan_.groups[static_cast<std::size_t>(g)];
      const auto rows = static_cast<std::size_t>(group.end - group.begin);
      const std::size_t entries = std::clamp<std::size_t>(work / tiles / rows, least, 1U << 30);
      group.chunk_entries =
          static_cast<std::int32_t>(entries + IndexTile::kKeys - 1) / IndexTile::kKeys * IndexTile::kKeys;
      group.chunks = std::max(1, (group.entries + group.chunk_entries - 1) / group.chunk_entries);
      group.found = slots;
      for (int chunk = 0; chunk < group.chunks; ++chunk) plan_.tiles.push_back({g, chunk});
      if (group.chunks == 1) continue;
      slots += rows * static_cast<std::size_t>(group.chunks);
      for (int row = group.begin; row < group.end; ++row) plan_.merged.push_back({g, row});
    }
    plan_.counts.assign(slots, 0);
    plan_.slots.get(2 * slots * static_cast<std::size_t>(args_.top_k));
  }
  static std::size_t scores_of(const RowGroup& group) {
    return static_cast<std::size_t>(group.entries) * static_cast<std::size_t>(group.end - group.begin);
  }

  void score_all() {
    const int tiles = static_cast<int>(plan_.tiles.size());
    const auto one = [&](int index, int) { score(plan_.tiles[static_cast<std::size_t>(index)]); };
    const auto all = [&](int, int) {
      for (const ScoreTile& tile : plan_.tiles) score(tile);
    };
    if (alone_) {
      exec_.pool->run(1, std::ref(all));
    } else {
      exec_.pool->run(tiles, std::ref(one));
    }
  }

  void score(const ScoreTile& tile) {
    const RowGroup& group = plan_.groups[static_cast<std::size_t>(tile.group)];
    const std::int32_t first = tile.chunk * group.chunk_entries;
    CandidateRows& candidates = thread_candidates();
    candidates.place(group.end - group.begin, std::max(kCandidates, 2 * args_.top_k) + IndexTile::kKeys);
    for (int row = group.begin; row < group.end; ++row) {
      if (takes_all(args_, visible(group.span, row))) candidates.rows()[row - group.begin].capacity = 0;
    }
    exec_.kernels->index_scores_of(args_.keys->format.codec)({&args_, group.span, group.begin, group.end, first,
                                                              std::min(group.entries, first + group.chunk_entries),
                                                              candidates.rows()});
    for (int row = group.begin; row < group.end; ++row) {
      IndexCandidates& best = candidates.rows()[row - group.begin];
      if (best.capacity == 0) {
        if (tile.chunk == 0) take_all(group.span, row);
        continue;
      }
      exec_.kernels->keep_best(best, args_.top_k);
      if (group.chunks == 1) {
        write(row, best);
      } else {
        const std::size_t slot = slot_of(group, row, tile.chunk);
        plan_.counts[slot] = best.count;
        std::copy_n(best.keys, best.count, keys_of(slot));
        std::copy_n(best.entries, best.count, keys_of(slot) + args_.top_k);
      }
    }
  }

  std::size_t slot_of(const RowGroup& group, int row, int chunk) const {
    return group.found + static_cast<std::size_t>((row - group.begin) * group.chunks + chunk);
  }
  std::int32_t* keys_of(std::size_t slot) const {
    return reinterpret_cast<std::int32_t*>(plan_.slots.get(0)) + 2 * slot * static_cast<std::size_t>(args_.top_k);
  }

  void write(int row, const IndexCandidates& best) {
    args_.count[row] = best.count;
    std::copy_n(best.entries, best.count, args_.selected + static_cast<std::ptrdiff_t>(row) * args_.top_k);
  }

  // Merges the best of a row's chunks, in the order of the chunks, so that entries ascend.
  void merge_all() {
    const std::size_t held = plan_.counts.size() * static_cast<std::size_t>(args_.top_k);
    const std::size_t per_row = 16 * held / std::max<std::size_t>(plan_.merged.size(), 1);
    run_row_tiles(exec_, static_cast<int>(plan_.merged.size()), per_row, [&](int begin, int end) {
      for (int i = begin; i < end; ++i) merge(plan_.merged[static_cast<std::size_t>(i)]);
    });
  }
  void merge(const RowTile& tile) {
    const RowGroup& group = plan_.groups[static_cast<std::size_t>(tile.group)];
    if (takes_all(args_, visible(group.span, tile.row))) return;
    CandidateRows& candidates = thread_candidates();
    candidates.place(1, group.chunks * args_.top_k);
    IndexCandidates& all = candidates.rows()[0];
    for (int chunk = 0; chunk < group.chunks; ++chunk) {
      const std::size_t slot = slot_of(group, tile.row, chunk);
      std::copy_n(keys_of(slot), plan_.counts[slot], all.keys + all.count);
      std::copy_n(keys_of(slot) + args_.top_k, plan_.counts[slot], all.entries + all.count);
      all.count += plan_.counts[slot];
    }
    exec_.kernels->keep_best(all, args_.top_k);
    write(tile.row, all);
  }

  const Exec& exec_;
  const IndexSelectArgs& args_;
  Plan& plan_;
  bool alone_ = false;  // all of it runs on this thread
};

}  // namespace

void select_entries(const Exec& exec, const IndexSelectArgs& args) {
  thread_local Plan plan;
  plan.groups.clear();
  plan.tiles.clear();
  plan.merged.clear();
  if (args.scores != nullptr) {
    std::fill_n(args.scores, static_cast<std::size_t>(args.rows) * static_cast<std::size_t>(args.scores_stride), 0.0F);
  }
  Selection(exec, args, plan).run();
}

}  // namespace sluice::cpu_ops
