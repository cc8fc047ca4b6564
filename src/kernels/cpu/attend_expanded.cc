#include <algorithm>
#include <functional>

#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/tiles.h"

namespace sluice::cpu_ops {
namespace {

constexpr int kExpandedTileRows = 64;  // that stream a head's keys through the cache together

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
