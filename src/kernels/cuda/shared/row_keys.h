// Finds the keys of a row (kernels/ops/attention.h) in the tables of its step.
// Used by kernels/cuda/sm90/attend_rows.h and shared_attend.cu.
#pragma once

#include "kernels/cuda/launch.h"
#include "kernels/ops/attention.h"

namespace sluice::SLUICE_CUDA_OPS {

SLUICE_DEVICE Position position_of(const RowSpan& span, int row) {
  return span.first_position + (row - span.row_begin);
}
// Returns the number of latent rows, the first of which is entry args.first_key or the first of `selected`.
SLUICE_DEVICE int latent_count(const AttendArgs& args, bool has_latents, Position p, int row) {
  if (!has_latents) return 0;
  if (args.selected != nullptr) return args.selected_count[row];
  const int visible = (p + 1) / args.tokens_per_row;
  return visible > args.first_key ? visible - args.first_key : 0;
}
// Returns the first position of the row's window.
SLUICE_DEVICE Position window_first(const AttendArgs& args, Position p) {
  const Position begin = p - args.window_tokens + 1;
  const Position clipped = begin > args.first_key ? begin : args.first_key;
  return clipped < p ? clipped : p;
}

}  // namespace sluice::SLUICE_CUDA_OPS
