// Norms and rotations of rows: parts of the composed ops (kernels/ops/parts.h). Their orders are those of
// kernels/device/exec.h. All may run in place (y == x), except where it says "No overlap".
// Used by bench, engine, kernels, model and src/bench.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/index_types.h"
#include "kernels/device/exec.h"

namespace sluice {

// y[t] = (x[t] * r) * w,  r = 1 / sqrt(lanes16(x * x) / dim + eps);  w = null: y[t] = x[t] * r.
// x, y: [rows, dim] with strides ldx, ldy.
struct RmsNormArgs {
  int rows = 0, dim = 0;
  const float* x = nullptr;
  std::ptrdiff_t ldx = 0;
  const float* weight = nullptr;  // [dim]
  float eps = 0.0F;
  float* y = nullptr;
  std::ptrdiff_t ldy = 0;
};
void rms_norm(const Exec& exec, const RmsNormArgs& args);

// y[t] = fma((x[t] - mean) * r, w, b),  mean = lanes16(x * 1) / dim,  r = 1 / sqrt(lanes16((x - mean)^2) / dim + eps).
struct LayerNormArgs {
  int rows = 0, dim = 0;
  const float* x = nullptr;
  std::ptrdiff_t ldx = 0;
  const float* weight = nullptr;  // [dim]
  const float* bias = nullptr;    // [dim]
  float eps = 0.0F;
  float* y = nullptr;
  std::ptrdiff_t ldy = 0;
};
void layer_norm(const Exec& exec, const LayerNormArgs& args);

// Rotary embedding of the `rope_dims` values from `offset` on, of each head of each row, in pairs
// (x0, x1) -> (fma(x0, c, -(x1 * s)), fma(x0, s, x1 * c)), s negated when `inverse` (docs/models/deepseek_v4.md §5).
// Pair i is interleaved, values 2i and 2i + 1, or, with half_split, values i and i + rope_dims / 2.
// With norm_eps >= 0 the whole head is first divided by its root mean square: x * (1 / sqrt(lanes16(x * x) / head_dim +
// eps)).
struct RopeHeadsArgs {
  int rows = 0, heads = 0, head_dim = 0, rope_dims = 0, offset = 0;
  float* x = nullptr;  // [rows, heads, head_dim] with row stride ldx
  std::ptrdiff_t ldx = 0;
  const Position* positions = nullptr;  // [rows]
  const float* table = nullptr;         // [position][rope_dims / 2][cos, sin], from RopeTable
  bool inverse = false;
  float norm_eps = -1.0F;
  bool half_split = false;
};
void rope_heads(const Exec& exec, const RopeHeadsArgs& args);

// A rotation of heads that is part of another op, done as rope_heads() does it. Table null: none.
struct Rotation {
  const float* table = nullptr;
  int dims = 0, offset = 0;
  bool half_split = false;
};

// The work that attend() does on queries first: with eps >= 0 each head is RMS-normed, and multiplied by `norm` unless
// that is null; then it is rotated.
struct HeadForm {
  const float* norm = nullptr;  // [head_dim]
  float eps = -1.0F;
  Rotation rope = {};
};

// x <- dim^-1/2 H x, where H is the Sylvester-ordered Hadamard matrix and dim a power of two
// (docs/models/deepseek_v4.md §7.2). The order: butterflies (a, b) -> (a + b, a - b) at distances 1, 2, 4, ..., then
// one multiplication by dim^-1/2 (rounded to f32 once). x: [rows, dim] contiguous.
struct HadamardArgs {
  int rows = 0, dim = 0;
  float* x = nullptr;
};
void hadamard(const Exec& exec, const HadamardArgs& args);

// y[t, c] = y[t, c] + x[t] for x [rows, dim] and y [rows, copies, dim], both contiguous: the residual sum.
struct AddArgs {
  int rows = 0, dim = 0;
  const float* x = nullptr;
  float* y = nullptr;
  int copies = 1;
};
void add(const Exec& exec, const AddArgs& args);

// y[t] = y[t] + bias for [rows, dim], contiguous.
struct AddBiasArgs {
  int rows = 0, dim = 0;
  const float* bias = nullptr;
  float* y = nullptr;
};
void add_bias(const Exec& exec, const AddBiasArgs& args);

// x[t] = x[t] * factor for [rows, dim], contiguous.
struct ScaleArgs {
  int rows = 0, dim = 0;
  float factor = 1.0F;
  float* x = nullptr;
};
void scale(const Exec& exec, const ScaleArgs& args);

// y[i] = x[from[i]] for rows of `dim` values, contiguous. No overlap.
struct GatherRowsArgs {
  std::span<const std::int32_t> from;
  int dim = 0;
  const float* x = nullptr;
  float* y = nullptr;
};
void gather_rows(const Exec& exec, const GatherRowsArgs& args);

// y[row, head, 0..dims) = x[row, head, 0..dims), between layouts with different strides of heads and rows. The `zeros`
// values after them become 0. No overlap.
struct CopyHeadsArgs {
  int rows = 0, heads = 0, dims = 0;
  const float* x = nullptr;
  std::ptrdiff_t head_x = 0, ldx = 0;
  float* y = nullptr;
  std::ptrdiff_t head_y = 0, ldy = 0;
  int zeros = 0;
};
void copy_heads(const Exec& exec, const CopyHeadsArgs& args);

}  // namespace sluice
