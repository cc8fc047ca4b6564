// The KV compressor's pooling, streamed (spec section 6.2; the online form of 6.4 for both ratios).
//
// Per channel, a window's softmax-weighted sum is kept as (max M, denominator S, weighted sum A), taken in token order:
//   first token: (g, 1, u).  Then, for g <= M: e = exp(g - M), S = S + e, A = fma(e, u, A);
//                            else: e = exp(M - g), S = fma(S, e, 1), A = fma(A, e, u), M = g.
//   where g = gate + ape[t mod ratio].  A closing window gives A / S.
// Without overlap (HCA) a window takes its own tokens: state [3, dim] = M, S, A.
// With overlap (CSA) window w takes the four tokens of window w - 1 through channels [0, dim) and its own through
// [dim, 2 dim): state [2, 3, dim] = the open window, then the next one (so far only its "previous" half).
// An empty accumulator is (-inf, 0, 0). At a multiple of the ratio the second accumulator is empty, and without overlap
// so is the first: the first accumulator, [3, dim], is all that the state at a block boundary (a multiple of 128, which
// the ratio divides) has to say, so with `boundaries` it is also written wherever a span passes one.
//
// Row contract: the state after token t is a function of tokens 0..t; cutting a span anywhere gives the same bits.
#pragma once

#include <limits>
#include <span>

#include "base/index_types.h"
#include "kernels/exec.h"

namespace sluice {

inline int compressor_state_floats(int dim, bool overlap) {
  return (overlap ? 6 : 3) * dim;
}
void reset_compressor_state(int dim, bool overlap, float* state);

struct CompressSpan {
  int row_begin = 0, rows = 0;
  Position first_position = 0;
  const float* state_in = nullptr;  // before the first row
  float* state_out = nullptr;       // after the last row; not the same memory
  int pooled_begin = 0;             // the first window that closes in this span goes to this row of `pooled`
  int boundary_begin = 0;           // the first block that ends in this span: its index in `boundaries`
};

struct CompressArgs {
  int dim = 0, ratio = 0;
  bool overlap = false;
  const float* kv = nullptr;    // u: [rows, dim or 2 dim], stride ld
  const float* gate = nullptr;  // [rows, dim or 2 dim], stride ld, without ape
  std::ptrdiff_t ld = 0;
  const float* ape = nullptr;  // [ratio, dim or 2 dim]
  std::span<const CompressSpan> spans;
  float* pooled = nullptr;  // [closed windows, dim], in span order, ascending
  // [ended blocks], in span order, ascending: each receives the first accumulator, [3, dim], after the block's last
  // token. None may be memory that the op reads. Null: not wanted.
  float* const* boundaries = nullptr;
};
void compress(const Exec& exec, const CompressArgs& args);

// How many windows close in rows [first, first + rows).
inline int windows_closed(Position first, int rows, int ratio) {
  return (first + rows) / ratio - first / ratio;
}

}  // namespace sluice
