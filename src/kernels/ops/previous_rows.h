// previous_rows: gives each row of a layer another layer's row at the position before. For the first row of a span that
// row is in an open state.
//   y[t] = coded(x[t - 1]), the row of the position before t's; if t is its span's first row, the row in its state_in
// coded() is the row as a state keeps it, in f32 or rounded to bf16; so a span may be cut anywhere. Then, if x is
// given:
//   the state states_after[t], if there is one, becomes coded(x[t]); for the last token of a block, so does the row of
//   its page in `boundaries`, which is a plane of window pages or of latent ones
// Without x every span has one row, and only y is written.
//
// Shapes: x, y [rows, format.dims] contiguous, no overlap.
// Used by model/deepseek_mla/mtp.cc and model/deepseek_v4/mtp.cc.
#pragma once

#include <cstddef>

#include "kernels/device/exec.h"
#include "kernels/ops/plane.h"
#include "kernels/step/step_tables.h"

namespace sluice {

struct PreviousRowsArgs {
  RowFormat format;  // a state's format: kF32 or kBf16
  const StepTables* step = nullptr;
  const float* x = nullptr;
  float* y = nullptr;
  // The first open state; the address of these rows' part in it.
  std::byte* states = nullptr;
  std::size_t state_bytes = 0;            // bytes from one state to the next
  const PlaneView* boundaries = nullptr;  // one row a page; null: not wanted
  bool of_latents = false;                // `boundaries` is a Latent plane with one row a block

  constexpr RowRef state(std::int32_t index) const {
    return {states + static_cast<std::size_t>(index) * state_bytes, nullptr};
  }
};

// Returns the page that keeps the row at a position of span `index`; -1: no block ends there, or its page is already
// written.
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
