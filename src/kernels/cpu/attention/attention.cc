// Called through the table of ops (kernels/ops/ops.h).
#include <algorithm>
#include <functional>
#include <vector>

#include "base/check.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/linear/tiles.h"

namespace sluice::cpu_ops {

namespace {

// The rows of one span that share decoded keys: a tile begins at a multiple of this in absolute positions. On AMX tiles
// there are fewer rows if threads would be idle.
constexpr int kTileRows = 16, kFewRows = 4;
// Returns the heads of a tile. If tiles with all heads would leave threads idle, each is cut into a group of heads for
// each thread: a multiple of 4 heads, or of 16 on AMX tiles. More groups would not pay, because each group decodes the
// keys again.
int heads_per_tile(int threads, int row_tiles, int heads, bool tiles) {
  if (row_tiles % threads == 0 || row_tiles >= 4 * threads) return heads;
  // With more groups the keys, half of the work, would be decoded again.
  if (tiles && row_tiles >= threads) return heads;
  const int multiple = tiles ? 16 : 4;
  return std::min(heads, ((heads + threads - 1) / threads + multiple - 1) / multiple * multiple);
}

int row_tiles(const RowSpan& span) {
  return (span.first_position + span.rows + kTileRows - 1) / kTileRows - span.first_position / kTileRows;
}

struct Tile {
  int span, begin, end, head_begin, head_end;
};

std::size_t keys_per_row(const AttendArgs& args, const RowSpan& span) {
  const int last = span.first_position + span.rows;
  int keys = args.window != nullptr ? std::min(last, args.window_tokens) : 0;
  if (args.latent != nullptr) {
    const int visible = last / args.tokens_per_row;
    keys += args.selected != nullptr ? std::min(visible, args.max_selected) : visible;
  }
  return static_cast<std::size_t>(keys);
}

// Fills `tiles` and returns about how many operations they are.
std::size_t cut(const Exec& exec, const AttendArgs& args, std::vector<Tile>& tiles) {
  tiles.clear();
  std::size_t operations = 0;
  int of_rows = 0;
  for (const RowSpan& span : args.spans) of_rows += row_tiles(span) * args.key_heads;
  const int sharing = args.heads / args.key_heads;  // a tile's heads share their keys
  const int heads = heads_per_tile(exec.pool->threads(), of_rows, sharing, args.tiles);
  const bool idle = args.tiles && of_rows * ((sharing + heads - 1) / heads) < exec.pool->threads();
  const int rows = idle ? kFewRows : kTileRows;
  for (int s = 0; s < static_cast<int>(args.spans.size()); ++s) {
    const RowSpan& span = args.spans[static_cast<std::size_t>(s)];
    const Position last = span.first_position + span.rows;
    for (Position p = span.first_position; p < last;) {
      const Position next = std::min(last, p / rows * rows + rows);
      const int begin = span.row_begin + (p - span.first_position);
      for (int first = 0; first < args.heads; first += sharing) {
        for (int h = first; h < first + sharing; h += heads) {
          tiles.push_back({s, begin, begin + (next - p), h, std::min(first + sharing, h + heads)});
        }
      }
      p = next;
    }
    operations += static_cast<std::size_t>(span.rows) * keys_per_row(args, span) *
                  static_cast<std::size_t>(args.heads * (args.dims + args.value_dims));
  }
  return operations;
}

}  // namespace

void attend_keys_around(const Exec& exec, const AttendArgs& given, const AroundTile& around) {
  AttendArgs args = given;
  args.fault_chunk_anchored_splits = exec.fault_chunk_anchored_splits;
  args.fault_future_entries = exec.fault_future_entries;
  SLUICE_CHECK(args.heads % args.key_heads == 0 && args.value_offset % 16 == 0, "heads share keys evenly");
  for (const PlaneView* rows : {args.latent, args.window}) {
    if (rows != nullptr && rows->format.codec == RowCodec::kF32) args.bf16 = false;
  }
  args.tiles = args.tiles && args.bf16;
  const KernelTable& table = *exec.kernels;
  const KernelTable::Attend attend = args.tiles                    ? table.attend_tiles
                                     : !args.bf16                  ? table.attend
                                     : args.value_offset % 32 == 0 ? table.attend_bf16
                                                                   : table.attend_bf16_odd;
  thread_local std::vector<Tile> tiles;
  const std::size_t operations = cut(exec, args, tiles);
  const auto run = [&](const Tile& t) {
    const auto keys = [&] { attend(args, t.span, t.begin, t.end, t.head_begin, t.head_end); };
    around({t.begin, t.end, t.head_begin, t.head_end}, std::ref(keys));
  };
  const auto tile = [&, list = tiles.data()](int index, int) { run(list[index]); };
  const auto all = [&](int, int) {
    for (int s = 0; s < static_cast<int>(args.spans.size()); ++s) {
      const RowSpan& span = args.spans[static_cast<std::size_t>(s)];
      const int sharing = args.heads / args.key_heads;
      for (int h = 0; h < args.heads; h += sharing) {
        run({s, span.row_begin, span.row_begin + span.rows, h, h + sharing});
      }
    }
  };
  if (operations < kTileOperations) {
    exec.pool->run(1, std::ref(all));
  } else {
    exec.pool->run(static_cast<int>(tiles.size()), std::ref(tile));
  }
}

void attend_keys(const Exec& exec, const AttendArgs& args) {
  attend_keys_around(exec, args, [](const AttendPiece&, const std::function<void()>& keys) { keys(); });
}

namespace {

constexpr int kExpandedTileRows = 64;  // rows that stream a head's keys through the cache together

}  // namespace

void attend_expanded(const Exec& exec, const AttendExpandedArgs& args) {
  const int row_tiles = (args.rows + kExpandedTileRows - 1) / kExpandedTileRows;
  const auto tile = [&](int index, int) {
    const int begin = index % row_tiles * kExpandedTileRows;
    exec.kernels->attend_expanded(args, index / row_tiles, begin, std::min(args.rows, begin + kExpandedTileRows));
  };
  exec.pool->run(args.heads * row_tiles, std::ref(tile));
}

void merge_attention(const Exec& exec, const MergeAttentionArgs& args) {
  run_row_tiles(exec, args.rows, static_cast<std::size_t>(4 * args.value_dims),
                [&](int begin, int end) { exec.kernels->merge_attention(args, begin, end); });
}

}  // namespace sluice::cpu_ops
