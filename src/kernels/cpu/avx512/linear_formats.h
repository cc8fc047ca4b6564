// The primitives and the weight decoders of the AVX-512 linear kernels (kernels/cpu/linear_tile.h says what they are).
#pragma once

// GCC 12 takes the undefined operands of its own intrinsics for uninitialised variables (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/avx512/linear_kernels.h"
#include "kernels/cpu/linear_layout.h"

namespace sluice {
namespace {

struct Avx512 {
  using Vec = __m512;
  static constexpr int kTileGroups = kAvx512TileGroups;
  static constexpr int kPanelGroups = 4;
  static constexpr int kDirectRows = 4;
  static constexpr int kPanelFrom = 17;
  static constexpr int kChains = 4;
  static constexpr int kHeldInputs = 8;

  static Vec zero() { return _mm512_setzero_ps(); }
  static Vec broadcast(const float* p) { return _mm512_set1_ps(*p); }
  static Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
  static Vec load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, Vec v) { _mm512_storeu_ps(p, v); }
  static __mmask16 mask(int count) {
    return count >= 16 ? static_cast<__mmask16>(0xFFFF) : static_cast<__mmask16>((1U << count) - 1U);
  }
  static Vec load_partial(const float* p, int count) { return _mm512_maskz_loadu_ps(mask(count), p); }
  static void store_partial(float* p, Vec v, int count) { _mm512_mask_storeu_ps(p, mask(count), v); }
  static void prefetch(const std::byte*, std::size_t) {}
};

inline __m512i load_line(const std::byte* line) {
  return _mm512_loadu_si512(line);
}

// The two bf16 of each dword as f32.
inline __m512 low_bf16(__m512i pairs) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
}
inline __m512 high_bf16(__m512i pairs) {
  return _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xFFFF0000U))));
}

// 16 powers of two from e8m0 codes: the code is the exponent field. 0, which stands for the denormal 2^-127, becomes 0.
inline __m512 e8m0_scales(const std::byte* codes) {
  const __m512i code = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)));
  const __m512i bits = _mm512_slli_epi32(code, 23);
  const __mmask16 nan = _mm512_cmpeq_epi32_mask(code, _mm512_set1_epi32(0xFF));
  return _mm512_castsi512_ps(_mm512_mask_mov_epi32(bits, nan, _mm512_set1_epi32(0x7FC00000)));
}

struct Unscaled {
  static constexpr std::size_t kBytes = 0;
  static __m512 load(const std::byte*) { return _mm512_setzero_ps(); }
  static __m512 finish(__m512 acc, __m512, __m512 y) { return _mm512_add_ps(acc, y); }
};
struct ScaledE8m0 {
  static constexpr std::size_t kBytes = 1;
  static __m512 load(const std::byte* codes) { return e8m0_scales(codes); }
  static __m512 finish(__m512 acc, __m512 scale, __m512 y) { return _mm512_fmadd_ps(acc, scale, y); }
};

struct F32Weights {
  using Scale = Unscaled;
  static constexpr std::size_t kScaleBytes = 0;
  static constexpr int kInputs = 2;
  static constexpr std::size_t kLineBytes = 128;
  void decode(const std::byte* line, const std::byte*, __m512 (&w)[2]) const {
    w[1] = _mm512_castsi512_ps(load_line(line));
    w[0] = _mm512_castsi512_ps(load_line(line + 64));
  }
};

struct Bf16Weights {
  using Scale = Unscaled;
  static constexpr std::size_t kScaleBytes = 0;
  static constexpr int kInputs = 2;
  static constexpr std::size_t kLineBytes = 64;
  void decode(const std::byte* line, const std::byte*, __m512 (&w)[2]) const {
    const __m512i pairs = load_line(line);
    w[1] = high_bf16(pairs);
    w[0] = low_bf16(pairs);
  }
};

// The high and the low byte of the bf16 of every e4m3 magnitude.
struct E4m3Tables {
  constexpr E4m3Tables() {
    for (int code = 0; code < 128; ++code) {
      const int exponent = code >> 3;
      int mantissa = code & 7;
      int bits = 0;
      if (code == 0x7F) {
        bits = 0x7FC0;
      } else if (exponent > 0) {
        bits = ((exponent + 120) << 7) | (mantissa << 4);
      } else if (mantissa > 0) {  // mantissa * 2^-9
        int e = 127 - 9 + 2;
        for (; mantissa < 4; mantissa <<= 1) --e;
        bits = (e << 7) | ((mantissa & 3) << 5);
      }
      high[code] = static_cast<std::uint8_t>(bits >> 8);
      low[code] = static_cast<std::uint8_t>(bits & 0xFF);
    }
  }
  alignas(64) std::uint8_t high[128]{};
  alignas(64) std::uint8_t low[128]{};
};
constexpr E4m3Tables kE4m3;

class Fp8Decoder {
 public:
  static constexpr int kInputs = 4;
  static constexpr std::size_t kLineBytes = 64;

 protected:
  void unpack(const std::byte* line, __m512 (&w)[4]) const {
    const __m512i codes = load_line(line);
    // The permutation reads the low 7 bits of a code; bit 7, the sign, is or-ed in: (high | (code & 0x80)).
    const __m512i high = _mm512_ternarylogic_epi32(_mm512_permutex2var_epi8(high_[0], codes, high_[1]), codes,
                                                   _mm512_set1_epi8(static_cast<char>(0x80)), 0xF8);
    const __m512i low = _mm512_permutex2var_epi8(low_[0], codes, low_[1]);
    const __m512i first = _mm512_unpacklo_epi8(low, high);
    const __m512i second = _mm512_unpackhi_epi8(low, high);
    w[1] = high_bf16(first);
    w[0] = low_bf16(first);
    w[3] = high_bf16(second);
    w[2] = low_bf16(second);
  }

 private:
  __m512i high_[2]{_mm512_load_si512(kE4m3.high), _mm512_load_si512(kE4m3.high + 64)};
  __m512i low_[2]{_mm512_load_si512(kE4m3.low), _mm512_load_si512(kE4m3.low + 64)};
};

struct Fp8Weights : Fp8Decoder {
  using Scale = ScaledE8m0;
  static constexpr std::size_t kScaleBytes = 1;
  void decode(const std::byte* line, const std::byte*, __m512 (&w)[4]) const { unpack(line, w); }
};

// The scale goes into each weight.
struct Fp8PrescaledWeights : Fp8Decoder {
  using Scale = Unscaled;
  static constexpr std::size_t kScaleBytes = 4;
  void decode(const std::byte* line, const std::byte* scales, __m512 (&w)[4]) const {
    unpack(line, w);
    const __m512 by = _mm512_castsi512_ps(load_line(scales));
    for (__m512& value : w) value = _mm512_mul_ps(value, by);
  }
};

class Mxfp4Weights {
 public:
  using Scale = ScaledE8m0;
  static constexpr std::size_t kScaleBytes = 1;
  static constexpr int kInputs = 8;
  static constexpr std::size_t kLineBytes = 64;
  // The permutation reads the low 4 bits of each dword.
  void decode(const std::byte* line, const std::byte*, __m512 (&w)[8]) const {
    const __m512i codes = load_line(line);
    w[1] = _mm512_permutexvar_ps(codes, values_);
    w[0] = _mm512_permutexvar_ps(_mm512_srli_epi32(codes, 4), values_);
    w[3] = _mm512_permutexvar_ps(_mm512_srli_epi32(codes, 8), values_);
    w[2] = _mm512_permutexvar_ps(_mm512_srli_epi32(codes, 12), values_);
    w[5] = _mm512_permutexvar_ps(_mm512_srli_epi32(codes, 16), values_);
    w[4] = _mm512_permutexvar_ps(_mm512_srli_epi32(codes, 20), values_);
    w[7] = _mm512_permutexvar_ps(_mm512_srli_epi32(codes, 24), values_);
    w[6] = _mm512_permutexvar_ps(_mm512_srli_epi32(codes, 28), values_);
  }

 private:
  __m512 values_ = _mm512_setr_ps(0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F, -0.0F, -0.5F, -1.0F, -1.5F, -2.0F,
                                  -3.0F, -4.0F, -6.0F);
};

}  // namespace
}  // namespace sluice
