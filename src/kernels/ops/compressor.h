// compress: the KV compressor's pooling, streamed (docs/models/deepseek_v4.md §6.2, §6.4).
//
// Per channel, a window's softmax-weighted sum is kept as (max M, denominator S, weighted sum A), taken in token order:
//   first token: (g, 1, u).  Then, for g <= M: e = exp(g - M), S = S + e, A = fma(e, u, A);
//                            else: e = exp(M - g), S = fma(S, e, 1), A = fma(A, e, u), M = g.
//   where g = gate + ape[t mod ratio].  A closing window gives A / S.
// Without overlap (HCA) a window takes its own tokens: state [3, dim] = M, S, A.
// With overlap (CSA) window w takes the four tokens of window w - 1 through channels [0, dim) and its own through
// [dim, 2 dim): state [2, 3, dim] = the open window, then the next one (so far only its "previous" half).
// An empty accumulator is (-inf, 0, 0). At a multiple of the ratio the second accumulator is empty, and without overlap
// so is the first. The ratio divides 128, so this holds at every block boundary (a multiple of 128): there the first
// accumulator, [3, dim], is all that the state has to say. With `boundaries` it is also written wherever a span passes
// a block boundary.
//
// Row contract: the state after token t is a function of tokens 0..t; cutting a span anywhere gives the same bits.
// Used by bench/row_kernels.cc and kernels/composed/store_kv.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/index_types.h"
#include "kernels/device/exec.h"
#include "kernels/ops/plane.h"
#include "kernels/step/step_tables.h"

namespace sluice {

inline int compressor_state_floats(int dim, bool overlap) {
  return (overlap ? 6 : 3) * dim;
}
void reset_compressor_state(int dim, bool overlap, float* state);

struct CompressArgs {
  int dim = 0, ratio = 0;
  bool overlap = false;
  const float* kv = nullptr;    // u: [rows, dim or 2 dim], stride ld
  const float* gate = nullptr;  // [rows, dim or 2 dim], stride ld, without ape
  std::ptrdiff_t ld = 0;
  const float* ape = nullptr;  // [ratio, dim or 2 dim]
  const StepTables* step = nullptr;
  // The first open state; the address of this compressor's part in it. A span reads the state state_in and writes the
  // states states_after of its rows.
  std::byte* states = nullptr;
  std::size_t state_bytes = 0;  // bytes from one state to the next
  float* pooled = nullptr;      // [closed windows of the ratio, dim], in the order of StepTables::closed
  // Each page of StepTables::boundary_pages receives the first accumulator, [3, dim], after the block's last token, as
  // row 0 of its part of this plane. Null: not wanted.
  const PlaneView* boundaries = nullptr;

  float* state(std::int32_t index) const {
    return reinterpret_cast<float*>(states + static_cast<std::size_t>(index) * state_bytes);
  }
  float* boundary(std::int32_t ended) const {
    return reinterpret_cast<float*>(boundaries->row(step->boundary_pages[ended].value, 0).data);
  }
};
void compress(const Exec& exec, const CompressArgs& args);

}  // namespace sluice
