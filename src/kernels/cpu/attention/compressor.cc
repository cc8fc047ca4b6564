// Called through the table of ops (kernels/ops/ops.h).
#include <algorithm>
#include <functional>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/linear/tiles.h"

namespace sluice::cpu_ops {

void compress(const Exec& exec, const CompressArgs& args) {
  // A window's channel is a chain over its tokens, so a tile is some channels of a whole span. Short spans get few
  // tiles.
  constexpr int kTileChannels = 64;
  const int tiles_per_span = (args.dim + kTileChannels - 1) / kTileChannels;
  const int spans = static_cast<int>(args.step->spans.size());
  int rows = 0;
  for (const RowSpan& span : args.step->spans) rows += span.rows;
  const auto tile = [&](int index, int) {
    const int begin = index % tiles_per_span * kTileChannels;
    exec.kernels->compress(args, index / tiles_per_span, begin, std::min(args.dim, begin + kTileChannels));
  };
  const auto all = [&](int, int) {
    for (int span = 0; span < spans; ++span) exec.kernels->compress(args, span, 0, args.dim);
  };
  const std::size_t operations = static_cast<std::size_t>(rows) * static_cast<std::size_t>(args.dim) * 32;
  if (operations < kTileOperations) {
    exec.pool->run(1, std::ref(all));
  } else {
    exec.pool->run(spans * tiles_per_span, std::ref(tile));
  }
}

}  // namespace sluice::cpu_ops
