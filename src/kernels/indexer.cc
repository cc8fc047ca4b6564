#include "kernels/indexer.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "base/aligned.h"
#include "kernels/kernel_table.h"
#include "kernels/tiles.h"

namespace sluice {
namespace {

constexpr int kTileRows = 16;                // rows that share decoded keys, anchored at absolute positions
constexpr std::int32_t kTileEntries = 1024;  // entries of a scoring tile
constexpr std::size_t kScoreFloats = std::size_t{4} << 20;  // scores held at once, when the caller keeps none

// Rows [begin, end) of a span, with their scores at scores[(row - begin) * stride + entry].
struct RowGroup {
  int span, begin, end;
  float* scores;
  std::ptrdiff_t stride;
};
struct ScoreTile {
  int group;
  std::int32_t first, last;
};
struct RowTile {
  int group, row;
};

struct Plan {
  std::vector<RowGroup> groups;
  std::vector<ScoreTile> score_tiles;
  std::vector<RowTile> rows;
  FloatBuffer scores;
};

Position position_of(const CacheSpan& span, int row) {
  return span.first_position + (row - span.row_begin);
}

class Selection {
 public:
  Selection(const Exec& exec, const IndexSelectArgs& args, Plan& plan) : exec_(exec), args_(args), plan_(plan) {}

  void run() {
    for (int s = 0; s < static_cast<int>(args_.spans.size()); ++s) {
      const CacheSpan& span = args_.spans[static_cast<std::size_t>(s)];
      for (int row = span.row_begin; row < span.row_begin + span.rows;) {
        const Position p = position_of(span, row);
        const int next = std::min(span.row_begin + span.rows, row + kTileRows - p % kTileRows);
        add_rows(s, row, next);
        row = next;
      }
    }
    flush();
  }

 private:
  std::int32_t visible(const CacheSpan& span, int row) const {
    return (position_of(span, row) + 1) / args_.tokens_per_row;
  }

  void add_rows(int span_index, int begin, int end) {
    const CacheSpan& span = args_.spans[static_cast<std::size_t>(span_index)];
    const std::int32_t entries = visible(span, end - 1);
    if (entries <= args_.top_k && args_.scores == nullptr) {
      for (int row = begin; row < end; ++row) take_all(row, visible(span, row));
      return;
    }
    const std::size_t floats = static_cast<std::size_t>(entries) * static_cast<std::size_t>(end - begin);
    if (held_ > 0 && held_ + floats > kScoreFloats) flush();
    plan_.groups.push_back({span_index, begin, end, nullptr, entries});
    held_ += floats;
  }

  void take_all(int row, std::int32_t count) {
    args_.count[row] = count;
    std::int32_t* selected = args_.selected + static_cast<std::ptrdiff_t>(row) * args_.top_k;
    std::iota(selected, selected + count, 0);
  }

  // Scores and selects for the groups gathered so far.
  void flush() {
    if (plan_.groups.empty()) return;
    place_scores();
    cut();
    const auto score = [&](int index, int) {
      const ScoreTile& tile = plan_.score_tiles[static_cast<std::size_t>(index)];
      const RowGroup& group = plan_.groups[static_cast<std::size_t>(tile.group)];
      exec_.kernels->index_scores(args_, group.span, group.begin, group.end, tile.first, tile.last, group.scores,
                                  group.stride);
    };
    const int tiles = static_cast<int>(plan_.score_tiles.size());
    const auto score_all = [&](int, int thread) {
      for (int index = 0; index < tiles; ++index) score(index, thread);
    };
    if (held_ * static_cast<std::size_t>(args_.heads * args_.dims) < kTileOperations) {
      exec_.pool->run(1, std::ref(score_all));
    } else {
      exec_.pool->run(tiles, std::ref(score));
    }
    // Selecting a row costs some operations for each of its scores.
    const std::size_t per_row = 16 * held_ / std::max<std::size_t>(plan_.rows.size(), 1);
    run_row_tiles(exec_, static_cast<int>(plan_.rows.size()), per_row, [&](int begin, int end) {
      for (int i = begin; i < end; ++i) select(plan_.rows[static_cast<std::size_t>(i)]);
    });
    plan_.groups.clear();
    held_ = 0;
  }

  void place_scores() {
    float* next = args_.scores == nullptr ? plan_.scores.get(held_) : nullptr;
    for (RowGroup& group : plan_.groups) {
      if (args_.scores != nullptr) {
        group.scores = args_.scores + group.begin * args_.scores_stride;
        group.stride = args_.scores_stride;
      } else {
        group.scores = next;
        next += group.stride * (group.end - group.begin);
      }
    }
  }

  void cut() {
    plan_.score_tiles.clear();
    plan_.rows.clear();
    for (int g = 0; g < static_cast<int>(plan_.groups.size()); ++g) {
      const RowGroup& group = plan_.groups[static_cast<std::size_t>(g)];
      const std::int32_t entries = visible(args_.spans[static_cast<std::size_t>(group.span)], group.end - 1);
      for (std::int32_t first = 0; first < entries; first += kTileEntries) {
        plan_.score_tiles.push_back({g, first, std::min(entries, first + kTileEntries)});
      }
      for (int row = group.begin; row < group.end; ++row) plan_.rows.push_back({g, row});
    }
  }

  void select(const RowTile& tile) {
    const RowGroup& group = plan_.groups[static_cast<std::size_t>(tile.group)];
    const std::int32_t entries = visible(args_.spans[static_cast<std::size_t>(group.span)], tile.row);
    if (entries <= args_.top_k) return take_all(tile.row, entries);
    args_.count[tile.row] = args_.top_k;
    exec_.kernels->top_k(group.scores + (tile.row - group.begin) * group.stride, entries, args_.top_k,
                         args_.selected + static_cast<std::ptrdiff_t>(tile.row) * args_.top_k);
  }

  const Exec& exec_;
  const IndexSelectArgs& args_;
  Plan& plan_;
  std::size_t held_ = 0;  // floats of scores that the groups need
};

}  // namespace

void index_select(const Exec& exec, const IndexSelectArgs& args) {
  thread_local Plan plan;
  plan.groups.clear();
  Selection(exec, args, plan).run();
}

}  // namespace sluice
