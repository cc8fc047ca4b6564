// Used by kernels/cpu/cpu_features.cc.
#include "kernels/cpu/avx512_bf16/dot_speed.h"

#include <algorithm>
#include <chrono>

#include "kernels/cpu/avx512/intrinsics.h"

namespace sluice::cpu::avx512_bf16 {
namespace {

constexpr int kChains = 12, kRounds = 2000;

[[gnu::noinline]] float chains_of_dots() {
  __m512 acc[kChains];
  for (auto& a : acc) a = _mm512_setzero_ps();
  const auto pair = reinterpret_cast<__m512bh>(_mm512_set1_epi32(0x3F003F00));
  for (int i = 0; i < kRounds; ++i) {
#pragma GCC unroll 12
    for (auto& a : acc) a = _mm512_dpbf16_ps(a, pair, pair);
  }
  for (int c = 1; c < kChains; ++c) acc[0] = _mm512_add_ps(acc[0], acc[c]);
  return _mm512_cvtss_f32(acc[0]);
}

[[gnu::noinline]] float chains_of_fmas() {
  __m512 acc[kChains];
  for (auto& a : acc) a = _mm512_setzero_ps();
  const __m512 x = _mm512_set1_ps(0.5F);
  for (int i = 0; i < kRounds; ++i) {
#pragma GCC unroll 12
    for (auto& a : acc) a = _mm512_fmadd_ps(a, x, x);
  }
  for (int c = 1; c < kChains; ++c) acc[0] = _mm512_add_ps(acc[0], acc[c]);
  return _mm512_cvtss_f32(acc[0]);
}

// Returns the shortest time of some runs of some microseconds each, because other work of the machine lengthens some of
// them.
double shortest_seconds(float (*run)()) {
  double shortest = 1.0;
  volatile float sink = 0.0F;
  for (int i = 0; i < 12; ++i) {
    const auto start = std::chrono::steady_clock::now();
    sink = run();
    shortest = std::min(shortest, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  static_cast<void>(sink);
  return shortest;
}

}  // namespace

bool dot_is_fast() {
  // A dot does two multiply-adds, and saves the shifts that turn pairs into floats.
  return shortest_seconds(chains_of_dots) < 2.0 * shortest_seconds(chains_of_fmas);
}

}  // namespace sluice::cpu::avx512_bf16
