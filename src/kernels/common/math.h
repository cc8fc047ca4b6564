// exp and log in f32 as fixed sequences of operations, so that every ISA and the scalar oracle give the same bits.
//
// exp: relative error below 2 ulp on [-87.3, 88.7]; below -87.33 it gives 0, above 88.72 it gives +inf; exp(0) = 1
// exactly. log: relative error below 2 ulp for normal positive inputs; log(1) = 0 exactly. log1p: below 3 ulp for
// normal |x| <= 1/2. The vector forms (kernels/cpu/math.h) follow these lines operation by operation.
// Used by engine, kernels and sim.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "base/host_device.h"

namespace sluice {

inline constexpr float kExpLow = -87.33F, kExpHigh = 88.72F;
inline constexpr float kLog2E = 1.44269504088896341F;
inline constexpr float kLn2High = 0.693359375F, kLn2Low = -2.12194440e-4F;  // Cody-Waite split of ln 2
// Minimax polynomial of (exp(r) - 1 - r) / r^2 on |r| <= ln2 / 2 (Cephes' coefficients, public domain).
inline constexpr float kExp0 = 1.9875691500e-4F, kExp1 = 1.3981999507e-3F, kExp2 = 8.3334519073e-3F,
                       kExp3 = 4.1665795894e-2F, kExp4 = 1.6666665459e-1F, kExp5 = 5.0000001201e-1F;

// Minimax polynomial of (log(1 + f) - f + f^2 / 2) / f^3 on sqrt(1/2) - 1 <= f <= sqrt(2) - 1.
inline constexpr float kLog0 = 7.0376836292e-2F, kLog1 = -1.1514610310e-1F, kLog2 = 1.1676998740e-1F,
                       kLog3 = -1.2420140846e-1F, kLog4 = 1.4249322787e-1F, kLog5 = -1.6668057665e-1F,
                       kLog6 = 2.0000714765e-1F, kLog7 = -2.4999993993e-1F, kLog8 = 3.3333331174e-1F;
inline constexpr std::int32_t kSqrtHalfBits = 0x3F3504F3;

SLUICE_HD inline float exp_f32(float x) {
  if (!(x > kExpLow)) return x != x ? x : 0.0F;
  if (x > kExpHigh) return std::bit_cast<float>(0x7F800000U);
  const float n = std::nearbyint(x * kLog2E);
  float r = std::fma(n, -kLn2High, x);
  r = std::fma(n, -kLn2Low, r);
  float p = std::fma(kExp0, r, kExp1);
  p = std::fma(p, r, kExp2);
  p = std::fma(p, r, kExp3);
  p = std::fma(p, r, kExp4);
  p = std::fma(p, r, kExp5);
  p = std::fma(p, r * r, r);
  p = p + 1.0F;
  // Scale by 2^n in two exact halves, so that n = 128 does not overflow before the product.
  const int half = static_cast<int>(n) >> 1;
  const int rest = static_cast<int>(n) - half;
  return p * std::bit_cast<float>((half + 127) << 23) * std::bit_cast<float>((rest + 127) << 23);
}

// Returns log((1 + f) * 2^e) for f in the polynomial's range.
SLUICE_HD inline float log_of_parts(float f, int e) {
  const float z = f * f;
  float p = std::fma(kLog0, f, kLog1);
  p = std::fma(p, f, kLog2);
  p = std::fma(p, f, kLog3);
  p = std::fma(p, f, kLog4);
  p = std::fma(p, f, kLog5);
  p = std::fma(p, f, kLog6);
  p = std::fma(p, f, kLog7);
  p = std::fma(p, f, kLog8);
  p = p * f * z;
  const float n = static_cast<float>(e);
  p = std::fma(n, kLn2Low, p);
  p = std::fma(z, -0.5F, p);
  return std::fma(n, kLn2High, f + p);
}
// x = m * 2^e with m in [sqrt(1/2), sqrt(2))
SLUICE_HD inline int log_exponent(float x) {
  return (std::bit_cast<std::int32_t>(x) - kSqrtHalfBits) >> 23;
}
SLUICE_HD inline float log_f32(float x) {  // x must be normal and positive
  const int e = log_exponent(x);
  return log_of_parts(std::bit_cast<float>(std::bit_cast<std::int32_t>(x) - e * (1 << 23)) - 1.0F, e);
}
// Returns log(1 + x) for |x| <= 1/2, computed as log_f32(1 + x). If the exponent e is 0, f is x itself, so 1 + x is not
// rounded.
SLUICE_HD inline float log1p_f32(float x) {
  return log_exponent(1.0F + x) == 0 ? log_of_parts(x, 0) : log_f32(1.0F + x);
}

SLUICE_HD inline float sigmoid_f32(float x) {
  return 1.0F / (1.0F + exp_f32(-x));
}
// Returns ln(1 + e^x), or x if it is above 20 (docs/models/deepseek_v4.md §8.1). With u = 1 + e^x rounded, log(u) *
// (e^x / (u - 1)) undoes the rounding of the sum (Kahan): without it a small e^x loses all its digits, and with it the
// weight of an unlikely expert.
SLUICE_HD inline float softplus_f32(float x) {
  const float e = exp_f32(x);
  const float u = 1.0F + e;
  if (x > 20.0F) return x;
  return u > 1.0F ? log_f32(u) * (e / (u - 1.0F)) : e;
}

}  // namespace sluice
