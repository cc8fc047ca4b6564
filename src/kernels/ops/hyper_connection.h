// Manifold-constrained hyper-connections (docs/models/deepseek_v4.md §3), in halves: mix computes the coefficients of a
// row from its streams, collapse makes the input of a sub-layer, expand puts its output back.
//
// Per row, X [streams, dim], z = X flattened stream-major:
//   rho = 1 / sqrt(lanes16(z * z) / (streams * dim) + norm_eps);  m = (fn z) * rho      (fn z: kernels/ops/linear.h)
//   pre_j  = sigmoid(fma(m_j, scale_0, base_j)) + hc_eps
//   post_j = 2 * sigmoid(fma(m_{n+j}, scale_1, base_{n+j}))
//   A_jk   = fma(m_{2n+n*j+k}, scale_2, base_{2n+n*j+k}); comb = sinkhorn(A):
//     row softmax over k: e = exp(A_jk - max_k A_jk), divided by their sum; then + hc_eps; a column step;
//     then (iterations - 1) times: a row step, a column step.
//     row step A_jk /= (sum_k A_jk + hc_eps); column step A_jk /= (sum_j A_jk + hc_eps);
//     sums of four: (a_0 + a_2) + (a_1 + a_3).
//   collapse: x[d] = fma chain over j from pre_0 * X_0[d]
//   expand:   X'_k[d] = fma chain over j of comb_jk * X_j[d] (the first index!) from post_k * y[d]
// streams is 4.
//
// hc_leave_enter: from one sub-layer to the next, all rows at once:
//   y not null:        leave: expand, with post and comb as the last enter left them
//   weights not null:  enter: mix, collapse, and normed = rms_norm(collapsed, norm, norm_eps), as in
//                      kernels/ops/elementwise.h; then the forms of `normed` that have memory are made.
//                      If only.data() is not null, only the rows `only` are entered:
//                      row i of mixes, pre, post, comb, collapsed and normed is row only[i] of x.
// Used by bench/row_kernels.cc, kernels/composed/between_layers.cc, model/deepseek_v4/model.cc and
// model/deepseek_v4/mtp.cc.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "kernels/device/exec.h"
#include "kernels/ops/linear.h"

namespace sluice {

inline constexpr int kHcStreams = 4;

struct HyperConnectionWeights {
  // [24, 4 * dim] as 16 rows and 8, so that two threads have work; for the head [4, 4 * dim] and nothing.
  std::array<LinearWeight, 2> fn;
  const float* base = nullptr;   // [24] or [4]
  const float* scale = nullptr;  // [3] or [1]
};

struct HcMixArgs {
  int rows = 0, dim = 0;
  const float* x = nullptr;  // [rows, 4, dim]
  const HyperConnectionWeights* weights = nullptr;
  float norm_eps = 0.0F, hc_eps = 0.0F;
  int sinkhorn_iterations = 0;
  float* mixes = nullptr;  // scratch [rows, 24 or 4]
  float* pre = nullptr;    // [rows, 4]
  float* post = nullptr;   // [rows, 4]; null for the head: only `pre` is made
  float* comb = nullptr;   // [rows, 4, 4]; null for the head
};
void hc_mix(const Exec& exec, const HcMixArgs& args);

// x [rows, 4, dim], pre [rows, 4] -> y [rows, dim]
struct HcCollapseArgs {
  int rows = 0, dim = 0;
  const float* x = nullptr;
  const float* pre = nullptr;
  float* y = nullptr;
};
void hc_collapse(const Exec& exec, const HcCollapseArgs& args);

// y [rows, dim], post [rows, 4], comb [rows, 4, 4]: x [rows, 4, dim] is replaced by X'.
struct HcExpandArgs {
  int rows = 0, dim = 0;
  const float* y = nullptr;
  const float* post = nullptr;
  const float* comb = nullptr;
  float* x = nullptr;
};
void hc_expand(const Exec& exec, const HcExpandArgs& args);

struct HcLeaveEnterArgs {
  int rows = 0, dim = 0;
  float* x = nullptr;                               // [rows, 4, dim]
  const float* y = nullptr;                         // [rows, dim]
  const HyperConnectionWeights* weights = nullptr;  // the weights of the site that is entered
  float norm_eps = 0.0F, hc_eps = 0.0F;
  int sinkhorn_iterations = 0;
  float* mixes = nullptr;                 // scratch [rows, 24]
  float *pre = nullptr, *post = nullptr;  // [rows, 4]; the head writes no post and comb
  float* comb = nullptr;                  // [rows, 4, 4]
  float* collapsed = nullptr;             // [rows, dim]
  const float* norm = nullptr;            // [dim]
  Rows normed = {};                       // [rows, dim]
  std::span<const std::int32_t> only = {};
  float* gathered = nullptr;  // with only: scratch [only.size(), 4, dim]
};
void hc_leave_enter(const Exec& exec, const HcLeaveEnterArgs& args);

}  // namespace sluice
