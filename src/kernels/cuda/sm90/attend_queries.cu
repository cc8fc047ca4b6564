// form_queries(): the step before attention over official FP8 rows. Sixteen threads have a head, whose values stay in
// registers. They are normed and rotated as by rope_heads() of kernels/ops/elementwise.h, then rounded as attention
// multiplies them.
#include <cmath>

#include "kernels/cuda/shared/row_sums.h"
#include "kernels/cuda/sm90/attend_rows.h"

namespace sluice::cuda_sm90 {
namespace {

using cuda_ops::Team;

// With few rows a team rehearses: it makes a head once without a result, while the kernels ahead still work, to load
// the instructions.
template <int kDims, bool kBeside>
struct FormQueries {
  static constexpr int kThreads = 16, kOfThread = kDims / kThreads, kRotary = kRopeDims / kThreads;
  static constexpr bool kWaits = !kBeside;
  QueryForm form;
  bool rehearses;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int t = static_cast<int>(threadIdx.x) % kThreads, row = team.index / form.heads;
    const float* from = form.q + static_cast<std::ptrdiff_t>(team.index) * kDims + t;
    float2 turns[kRotary] = {};  // for the pairs of the thread's values
    if (form.table != nullptr) {
      const auto* of_row = form.table + static_cast<std::ptrdiff_t>(form.positions[row]) * kRopeDims + t / 2 * 2;
#pragma unroll
      for (int i = 0; i < kRotary; ++i) turns[i] = *reinterpret_cast<const float2*>(of_row + i * kThreads);
    }
#pragma unroll 1
    for (int run = rehearses ? 0 : 1; run < 2; ++run) {
      const bool real = run == 1;
      if (real && kWaits) cuda_ops::wait_for_kernels();
      float x[kOfThread];
#pragma unroll
      for (int i = 0; i < kOfThread; ++i) x[i] = real ? __ldcg(from + i * kThreads) : 0.0F;
      if (form.eps >= 0.0F) normalise(team, x);
      if (form.table != nullptr) rotate(x, turns, t);
      store(x, t, team.index, real);
    }
  }

  static SLUICE_DEVICE float of_neighbour(float value) { return __shfl_xor_sync(Team<kThreads>::mask(), value, 1); }
  SLUICE_DEVICE void normalise(const Team<kThreads>& team, float (&x)[kOfThread]) const {
    cuda_ops::PerThread<float, kThreads> squares{0.0F};
#pragma unroll
    for (const float value : x) squares.value = std::fma(value, value, squares.value);
    cuda_ops::tree_sum16(team, squares);
    const float r = cuda_ops::reciprocal_rms(squares.value, kDims, form.eps);
#pragma unroll
    for (float& value : x) value *= r;
  }
  static SLUICE_DEVICE void rotate(float (&x)[kOfThread], const float2 (&turns)[kRotary], int t) {
#pragma unroll
    for (int i = 0; i < kRotary; ++i) {
      float& value = x[kOfThread - kRotary + i];
      const float other = of_neighbour(value), c = turns[i].x, s = turns[i].y;
      value = t % 2 == 0 ? std::fma(value, c, -(other * s)) : std::fma(other, s, value * c);
    }
  }
  SLUICE_DEVICE void store(const float (&x)[kOfThread], int t, int index, bool real) const {
    std::uint32_t largest = 0;
#pragma unroll
    for (const float value : x) largest = max(largest, __float_as_uint(value) & 0x7FFFFFFFU);
#pragma unroll
    for (int half = 8; half > 0; half /= 2) {
      largest = max(largest, __shfl_xor_sync(Team<kThreads>::mask(), largest, half, 16));
    }
    const int exponent = query_exponent(largest);
    const float down = power_of_two(-exponent);
    std::byte* to = form.to + index * form.record_bytes;
#pragma unroll
    for (int i = 0; i < kOfThread; i += 2) {  // an even thread has the pair of its first value, its neighbour the other
      const float first = x[i] * down, second = x[i + 1] * down;
      const float other = of_neighbour(t % 2 == 0 ? second : first);
      const std::uint32_t pair = t % 2 == 0 ? half_pair(first, other) : half_pair(other, second);
      const int dim = t / 2 * 2 + (i + t % 2) * kThreads;
      if (real) *reinterpret_cast<std::uint32_t*>(to + dim * 2) = pair;
    }
    if (real && t == 0) *reinterpret_cast<float*>(to + kDims * 2) = power_of_two(exponent);
  }
};

}  // namespace

void form_queries(const Exec& exec, const QueryForm& form, int dims, bool beside_last) {
  constexpr int kRehearsed = 8;  // at most this many rows are rehearsed
  const std::int64_t teams = std::int64_t{form.rows} * form.heads;
  const auto start = [&]<int kDims>() {
    if (beside_last) return cuda_ops::launch_beside(exec, teams, FormQueries<kDims, true>{form, false});
    cuda_ops::launch(exec, teams, FormQueries<kDims, false>{form, form.rows <= kRehearsed});
  };
  dims == 512 ? start.template operator()<512>() : start.template operator()<128>();
}

}  // namespace sluice::cuda_sm90
