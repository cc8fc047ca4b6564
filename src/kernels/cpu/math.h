// kernels/common/math.h over sixteen lanes V (kernels/cpu/<isa>/vec.h), operation by operation, and the reductions of
// kernels/device/exec.h.
// Used by kernels/cpu, kernels/cpu/attention and kernels/cpu/linear.
#pragma once

#include "kernels/common/math.h"

namespace sluice::cpu::SLUICE_ISA {

template <class V>
[[gnu::always_inline]] inline V exp(V x) {
  const auto c = [](float value) { return V::broadcast(value); };
  const V n = round_to_even(x * c(kLog2E));
  V r = fma(n, c(-kLn2High), x);
  r = fma(n, c(-kLn2Low), r);
  V p = fma(c(kExp0), r, c(kExp1));
  p = fma(p, r, c(kExp2));
  p = fma(p, r, c(kExp3));
  p = fma(p, r, c(kExp4));
  p = fma(p, r, c(kExp5));
  p = fma(p, r * r, r);
  p = p + c(1.0F);
  V y = times_power_of_two(p, n);
  y = select(greater(x, c(kExpLow)), y, V::zero());
  y = select(greater(x, c(kExpHigh)), c(__builtin_inff()), y);
  return select(is_nan(x), x, y);
}

template <class V>
[[gnu::always_inline]] inline V log(V x) {
  using I = typename V::Int;
  const auto c = [](float value) { return V::broadcast(value); };
  const I bits = as_bits(x);
  const I e = shift_right_signed<23>(bits - I::broadcast(kSqrtHalfBits));
  const V m = as_float(bits - shift_left<23>(e));
  const V f = m - c(1.0F);
  const V z = f * f;
  V p = fma(c(kLog0), f, c(kLog1));
  p = fma(p, f, c(kLog2));
  p = fma(p, f, c(kLog3));
  p = fma(p, f, c(kLog4));
  p = fma(p, f, c(kLog5));
  p = fma(p, f, c(kLog6));
  p = fma(p, f, c(kLog7));
  p = fma(p, f, c(kLog8));
  p = p * f * z;
  const V n = to_float(e);
  p = fma(n, c(kLn2Low), p);
  p = fma(z, c(-0.5F), p);
  return fma(n, c(kLn2High), f + p);
}

template <class V>
[[gnu::always_inline]] inline V sigmoid(V x) {
  const V one = V::broadcast(1.0F);
  return one / (one + exp(V::zero() - x));
}

template <class V>
[[gnu::always_inline]] inline V softplus(V x) {
  const V one = V::broadcast(1.0F);
  const V e = exp(x);
  const V u = one + e;
  const V y = select(greater(u, one), log(u) * (e / (u - one)), e);
  return select(greater(x, V::broadcast(20.0F)), x, y);
}

// Loads the n values from p on, sixteen at most.
template <class V>
[[gnu::always_inline]] inline V load_up_to_16(const float* p, int n) {
  return n >= 16 ? V::load(p) : V::load_first(p, n);
}
template <class V>
[[gnu::always_inline]] inline void store_up_to_16(V a, float* p, int n) {
  n >= 16 ? a.store(p) : a.store_first(p, n);
}
template <class V>
[[gnu::always_inline]] inline typename V::Mask first_lanes_of(int n) {
  return greater(V::Int::broadcast(n), V::Int::iota());
}

// Returns the tree sum of lanes16, in every lane.
template <class V>
[[gnu::always_inline]] inline V tree_sum(V a) {
  a = a + permute_xor<8>(a);
  a = a + permute_xor<4>(a);
  a = a + permute_xor<2>(a);
  return a + permute_xor<1>(a);
}

// Returns the largest lane, in every lane. T: sixteen floats or integers.
template <class T>
[[gnu::always_inline]] inline T tree_max(T a) {
  a = max_of(a, permute_xor<8>(a));
  a = max_of(a, permute_xor<4>(a));
  a = max_of(a, permute_xor<2>(a));
  return max_of(a, permute_xor<1>(a));
}

// Returns 1 / sqrt(lanes16(x * x) / n + eps) of R rows, in every lane. One row is a chain of additions that mostly
// waits, so several rows are summed at once.
template <class V, int R>
[[gnu::always_inline]] inline void reciprocal_rms(const float* x, std::ptrdiff_t ldx, int n, float eps, V (&out)[R]) {
  V sum[R];
  for (int r = 0; r < R; ++r) sum[r] = V::zero();
  int i = 0;
  for (; i + 16 <= n; i += 16) {
    for (int r = 0; r < R; ++r) {
      const V a = V::load(x + r * ldx + i);
      sum[r] = fma(a, a, sum[r]);
    }
  }
  for (int r = 0; r < R; ++r) {
    if (i < n) {
      const V a = V::load_first(x + r * ldx + i, n - i);
      sum[r] = fma(a, a, sum[r]);
    }
    const V mean = tree_sum(sum[r]) / V::broadcast(static_cast<float>(n));
    out[r] = V::broadcast(1.0F) / sqrt(mean + V::broadcast(eps));
  }
}

}  // namespace sluice::cpu::SLUICE_ISA
