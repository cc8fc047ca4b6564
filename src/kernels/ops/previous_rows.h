// previous_rows: for a layer whose row at a position reads another layer's row at the position before, which for the
// first row of a span is in an open state.
//   y[t] = the row of the position before t's: coded(x[t - 1]), or what state_in of the span has where t is its first
// coded() is the row as a state keeps it, in f32 or rounded to bf16; so a span may be cut anywhere. Then, with x:
//   the state states_after[t], where there is one, and for the last token of a block the row of its page in
//   `boundaries`, of window pages or of latent ones, become coded(x[t])
// Without x every span has one row, and nothing is written but y.
//
// Shapes: x, y [rows, format.dims] contiguous, no overlap.
#pragma once

#include <cstddef>

#include "kernels/device/exec.h"
#include "kernels/ops/plane.h"
#include "kernels/step/step_tables.h"

namespace sluice {

struct PreviousRowsArgs {
  RowFormat format;  // of a state: kF32 or kBf16
  const StepTables* step = nullptr;
  const float* x = nullptr;
  float* y = nullptr;
  // Open states, the first one's part for these rows.
  std::byte* states = nullptr;
  std::size_t state_bytes = 0;            // from one to the next
  const PlaneView* boundaries = nullptr;  // of one row a page; null: not wanted
  bool of_latents = false;                // they are a Latent plane of one row a block

  constexpr RowRef state(std::int32_t index) const {
    return {states + static_cast<std::size_t>(index) * state_bytes, nullptr};
  }
};

// The page that keeps the row at a position of span `index`; -1: no block ends there, or its page is written already.
constexpr std::int32_t boundary_page(const PreviousRowsArgs& args, const StepTables& step, const RowSpan& span,
                                     int index, Position p) {
  if ((p + 1) % kBlockTokens != 0) return -1;
  const std::int32_t block = p / kBlockTokens - span.first_position / kBlockTokens;
  if (!args.of_latents) return step.boundary_pages[step.ended_blocks[index] + block].value;
  const ClosedWindows& blocks = step.closed_by(kBlockTokens);
  return blocks.slots[blocks.begin[index] + block].value;
}

void previous_rows(const Exec& exec, const PreviousRowsArgs& args);

}  // namespace sluice
