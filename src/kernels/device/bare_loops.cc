// Used by cli/bench/bench_command.cc, engine/runner/profile_advice.h, kernels/cpu/isa.cc and src/bench/machine_probe.h.
#include "kernels/device/bare_loops.h"

#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace sluice {
namespace {

constexpr int kRounds = 100'000;
constexpr int kTileRounds = 10'000;
constexpr int kChains = 12;  // independent chains, enough to hide the latency of an instruction on two ports

// Keeps results that are not used, so that the compiler computes them.
volatile double sink;

__attribute__((target("avx512f"))) void keep(__m512i value) {
  alignas(64) int lanes[16];
  _mm512_store_si512(lanes, value);
  sink = lanes[0];
}

__attribute__((target("avx512f"))) void f32_avx512() {
  __m512 acc[kChains];
  for (auto& a : acc) a = _mm512_set1_ps(1.0F);
  const __m512 x = _mm512_set1_ps(0.999F);
  for (int i = 0; i < kRounds; ++i) {
#pragma GCC unroll 12
    for (auto& a : acc) a = _mm512_fmadd_ps(a, x, x);
  }
  __m512 sum = acc[0];
  for (int c = 1; c < kChains; ++c) sum = _mm512_add_ps(sum, acc[c]);
  sink = _mm512_cvtss_f32(sum);
}

__attribute__((target("avx2,fma"))) void f32_avx2() {
  __m256 acc[kChains];
  for (auto& a : acc) a = _mm256_set1_ps(1.0F);
  const __m256 x = _mm256_set1_ps(0.999F);
  for (int i = 0; i < kRounds; ++i) {
#pragma GCC unroll 12
    for (auto& a : acc) a = _mm256_fmadd_ps(a, x, x);
  }
  __m256 sum = acc[0];
  for (int c = 1; c < kChains; ++c) sum = _mm256_add_ps(sum, acc[c]);
  sink = _mm256_cvtss_f32(sum);
}

__attribute__((target("avx512f,avx512bf16"))) void bf16_avx512() {
  __m512 acc[kChains];
  for (auto& a : acc) a = _mm512_set1_ps(1.0F);
  const __m512bh x = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.25F), _mm512_set1_ps(0.5F));
  for (int i = 0; i < kRounds; ++i) {
#pragma GCC unroll 12
    for (auto& a : acc) a = _mm512_dpbf16_ps(a, x, x);
  }
  __m512 sum = acc[0];
  for (int c = 1; c < kChains; ++c) sum = _mm512_add_ps(sum, acc[c]);
  sink = _mm512_cvtss_f32(sum);
}

__attribute__((target("avx512f,avx512vnni"))) void int8_avx512() {
  __m512i acc[kChains];
  for (auto& a : acc) a = _mm512_set1_epi32(1);
  __m512i x = _mm512_set1_epi32(static_cast<int>(0x01020304U));
  for (int i = 0; i < kRounds; ++i) {
#pragma GCC unroll 12
    for (auto& a : acc) a = _mm512_dpbusd_epi32(a, x, x);
  }
  __m512i sum = acc[0];
  for (int c = 1; c < kChains; ++c) sum = _mm512_add_epi32(sum, acc[c]);
  keep(sum);
}

__attribute__((target("avx2,avxvnni"))) void int8_avx2() {
  __m256i acc[kChains];
  for (auto& a : acc) a = _mm256_set1_epi32(1);
  const __m256i x = _mm256_set1_epi32(static_cast<int>(0x01020304U));
  for (int i = 0; i < kRounds; ++i) {
#pragma GCC unroll 12
    for (auto& a : acc) a = _mm256_dpbusd_avx_epi32(a, x, x);
  }
  __m256i sum = acc[0];
  for (int c = 1; c < kChains; ++c) sum = _mm256_add_epi32(sum, acc[c]);
  sink = _mm_cvtsi128_si32(_mm256_castsi256_si128(sum));
}

// Stands in for VPDPBUSD if there is none: sums of pairs in 16 bits, of two such pairs in 32, and an addition.
__attribute__((target("avx2"))) void int8_pairs_avx2() {
  __m256i acc[kChains];
  for (auto& a : acc) a = _mm256_set1_epi32(1);
  const __m256i x = _mm256_set1_epi32(static_cast<int>(0x01020304U)), ones = _mm256_set1_epi16(1);
  for (int i = 0; i < kRounds; ++i) {
#pragma GCC unroll 12
    for (auto& a : acc) {
      __m256i products = x;
      asm volatile("" : "+x"(products));  // makes the compiler compute the products again in each round
      a = _mm256_add_epi32(a, _mm256_madd_epi16(_mm256_maddubs_epi16(products, x), ones));
    }
  }
  __m256i sum = acc[0];
  for (int c = 1; c < kChains; ++c) sum = _mm256_add_epi32(sum, acc[c]);
  sink = _mm_cvtsi128_si32(_mm256_castsi256_si128(sum));
}

// Products of bf16 tiles that are in registers, added to four sums in turn.
void bf16_tiles() {
  struct alignas(64) Shapes {
    std::uint8_t palette = 1, start_row = 0, reserved[14]{};
    std::uint16_t row_bytes[16]{64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16]{16, 16, 16, 16, 16, 16, 16, 16};
  };
  const Shapes shapes;
  alignas(64) std::uint16_t values[16][32];
  for (int i = 0; i < 512; ++i) values[i / 32][i % 32] = static_cast<std::uint16_t>(0x3C00 + 37 * i % 0x200);
  const std::size_t stride = 64;
  asm volatile("ldtilecfg %0" : : "m"(shapes));
  asm volatile(
      "tilezero %%tmm0; tilezero %%tmm1; tilezero %%tmm2; tilezero %%tmm3;"
      "tileloadd (%0,%1,1), %%tmm4; tileloadd (%0,%1,1), %%tmm5"
      :
      : "r"(values), "r"(stride)
      : "memory");
  for (int i = 0; i < kTileRounds; ++i) {
    asm volatile(
        "tdpbf16ps %tmm5, %tmm4, %tmm0; tdpbf16ps %tmm5, %tmm4, %tmm1;"
        "tdpbf16ps %tmm5, %tmm4, %tmm2; tdpbf16ps %tmm5, %tmm4, %tmm3");
  }
  asm volatile("tilerelease");
}

// There are eight sums, so that enough loads are under way at once.
__attribute__((target("avx512f"))) void read_avx512(const std::byte* from, std::size_t bytes) {
  __m512i sums[8] = {};
  for (std::size_t i = 0; i + 512 <= bytes; i += 512) {
#pragma GCC unroll 8
    for (std::size_t j = 0; j < 8; ++j) sums[j] = _mm512_xor_si512(sums[j], _mm512_load_si512(from + i + 64 * j));
  }
  for (int j = 1; j < 8; ++j) sums[0] = _mm512_xor_si512(sums[0], sums[j]);
  keep(sums[0]);
}

__attribute__((target("avx2"))) void read_avx2(const std::byte* from, std::size_t bytes) {
  __m256i sums[8] = {};
  for (std::size_t i = 0; i + 256 <= bytes; i += 256) {
#pragma GCC unroll 8
    for (std::size_t j = 0; j < 8; ++j) {
      sums[j] = _mm256_xor_si256(sums[j], _mm256_load_si256(reinterpret_cast<const __m256i*>(from + i + 32 * j)));
    }
  }
  for (int j = 1; j < 8; ++j) sums[0] = _mm256_xor_si256(sums[0], sums[j]);
  sink = _mm_cvtsi128_si32(_mm256_castsi256_si128(sums[0]));
}

void read_plain(const std::byte* from, std::size_t bytes) {
  __m128i sums[8] = {};
  for (std::size_t i = 0; i + 128 <= bytes; i += 128) {
    for (std::size_t j = 0; j < 8; ++j) {
      sums[j] = _mm_xor_si128(sums[j], _mm_load_si128(reinterpret_cast<const __m128i*>(from + i + 16 * j)));
    }
  }
  for (int j = 1; j < 8; ++j) sums[0] = _mm_xor_si128(sums[0], sums[j]);
  sink = _mm_cvtsi128_si32(sums[0]);
}

}  // namespace

void read_lines(const std::byte* from, std::size_t bytes) {
  if (cpu_features().has(CpuFeature::kAvx512)) return read_avx512(from, bytes);
  cpu_features().has(CpuFeature::kAvx2) ? read_avx2(from, bytes) : read_plain(from, bytes);
}

BareLoop bare_loop(BareKind kind, const CpuFeatures& features) {
  using enum CpuFeature;
  const auto of = [](double operations, void (*run)()) { return BareLoop{run, operations * kChains * kRounds}; };
  switch (kind) {
    case BareKind::kF32:
      return features.has(kAvx512) ? of(32, &f32_avx512) : features.has(kAvx2) ? of(16, &f32_avx2) : BareLoop();
    case BareKind::kBf16Dot:
      return features.has(kBf16Dot) ? of(64, &bf16_avx512) : BareLoop();
    case BareKind::kInt8:
      if (features.has(kVnni)) return of(128, &int8_avx512);
      if (features.has(kAvxVnni)) return of(64, &int8_avx2);
      return features.has(kAvx2) ? of(64, &int8_pairs_avx2) : BareLoop();
    case BareKind::kTiles:
      return features.has(kAmxBf16) ? BareLoop{&bf16_tiles, 4.0 * kTileRounds * 2 * 16 * 16 * 32} : BareLoop();
  }
  return {};
}

double Peaks::of(InputForm inputs) const {
  switch (inputs) {
    case InputForm::kF32:
      return f32;
    case InputForm::kBf16:
    case InputForm::kFp8:  // kFp8's values are exact in bf16
    case InputForm::kFp8Blocks:
      return std::max(f32, bf16_dot);
    case InputForm::kInt8:
      return int8 > 0 ? int8 : f32;
    case InputForm::kTiles:
      return std::max(f32, tiles);
  }
  return f32;
}

Peaks thread_peaks(const CpuFeatures& features) {
  using Clock = std::chrono::steady_clock;
  constexpr int kTries = 16;
  constexpr std::chrono::milliseconds kMost{40};
  struct Kind {
    BareKind kind;
    double Peaks::* peak;
  };
  const Clock::time_point begin = Clock::now();
  Peaks peaks;
  for (int i = 0; i < kTries && Clock::now() - begin < kMost; ++i) {
    for (const auto& [kind, peak] : {Kind{BareKind::kF32, &Peaks::f32}, Kind{BareKind::kBf16Dot, &Peaks::bf16_dot},
                                     Kind{BareKind::kInt8, &Peaks::int8}, Kind{BareKind::kTiles, &Peaks::tiles}}) {
      const BareLoop loop = bare_loop(kind, features);
      if (loop.run == nullptr) continue;
      const Clock::time_point start = Clock::now();
      loop.run();
      const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
      peaks.*peak = std::max(peaks.*peak, 1e-9 * loop.operations / seconds);
    }
  }
  return peaks;
}

}  // namespace sluice
