// Attention of bf16 by the bf16 dot instruction. A cell is two dims of a row, d in the low half and d + 16 in the high
// one, which the instruction multiplies first. Weights and values are multiplied as pairs of keys instead, which are
// made on the way.
#include <cstdint>

#include "kernels/cpu/attention/attend_tile.h"
#include "kernels/cpu/avx512/intrinsics.h"
#include "kernels/cpu/avx512/vec.h"
#include "kernels/cpu/avx512vbmi/fp8_cells.h"
#include "kernels/cpu/kernel_list.h"

namespace sluice::cpu::SLUICE_ISA {
namespace {

struct DotProducts {
  using Cell = std::uint32_t;
  static constexpr int kDotHeads = 4, kValueHeads = 4, kValueVectors = 4, kLeastValueVectors = 2;

  SLUICE_VEC static int cells(int dims) { return (dims + 31) / 32 * 16; }
  SLUICE_VEC static std::ptrdiff_t stride(int dims) { return cells(dims) + 16; }

  SLUICE_VEC static const Cell* key(const RowFormat& format, RowRef row, Cell* into, float* scratch) {
    if (!decode(format, row, into)) {
      const float* values = key_values<F32x16>(format, row, scratch);
      if (format.dims % 32 > 0 && format.dims % 32 <= 16) F32x16::zero().store(scratch + padded_dims(format.dims));
      for (int c = 0; c < cells(format.dims); c += 16) {
        const __m512i low = _mm512_loadu_si512(values + 2 * c), high = _mm512_loadu_si512(values + 2 * c + 16);
        _mm512_storeu_si512(into + c, _mm512_mask_blend_epi16(kHighHalves, _mm512_srli_epi32(low, 16), high));
      }
    }
    return into;
  }
  SLUICE_VEC static void query(const float* q, int dims, Cell* into) {
    for (int c = 0; c < cells(dims); c += 16) {
      const int left = dims - 2 * c;
      const I32x16 low = bf16_codes(load_up_to_16<F32x16>(q + 2 * c, left));
      const I32x16 high = left > 16 ? bf16_codes(load_up_to_16<F32x16>(q + 2 * c + 16, left - 16)) : I32x16{};
      _mm512_storeu_si512(into + c, (low | shift_left<16>(high)).v);
    }
  }
  SLUICE_VEC static F32x16 rounded(F32x16 w) { return as_float(shift_left<16>(bf16_codes(w))); }

  template <int H>
  SLUICE_VEC static void dot(const Cell* q, std::ptrdiff_t ldq, const Cell* const* keys, int cells,
                             F32x16 (&acc)[H][4]) {
    for (int c = 0; c < cells; c += 16) {
      __m512i key[4];
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) key[k] = _mm512_loadu_si512(keys[k] + c);
#pragma GCC unroll 4
      for (int h = 0; h < H; ++h) {
        const __m512i a = _mm512_loadu_si512(q + h * ldq + c);
#pragma GCC unroll 4
        for (int k = 0; k < 4; ++k) acc[h][k] = add(acc[h][k], a, key[k]);
      }
    }
  }

  // Pair p, of weights 2 p and 2 p + 1, goes to where weight p was.
  SLUICE_VEC static void pack_weights(float* weights, int first, int last) {
    const __m512i high_words = _mm512_add_epi16(_mm512_slli_epi16(words(), 1), _mm512_set1_epi16(1));
    for (int i = first / 16 * 16; i < last; i += 32) {
      const __m512i low = _mm512_loadu_si512(weights + i), high = _mm512_loadu_si512(weights + i + 16);
      _mm512_storeu_si512(weights + i / 2, _mm512_permutex2var_epi16(low, high_words, high));
    }
  }
  template <int H, int D>
  SLUICE_VEC static void value(const float* weights, std::ptrdiff_t stride, const Cell* const* keys, int first,
                               int last, int d, F32x16 (&acc)[H][D]) {
    // Word w of the pairs of dims d + 0..15 is the low half of a cell; it is the first key's if w is even.
    const __m512i low_halves = _mm512_mask_blend_epi16(kHighHalves, words(), _mm512_add_epi16(words(), second_key()));
    const __m512i high_halves = _mm512_add_epi16(low_halves, _mm512_set1_epi16(1));
    const auto* pairs = reinterpret_cast<const std::uint32_t*>(weights);
    for (int p = first / 2; 2 * p < last; ++p) {
      const Cell *even = keys[2 * p] + d / 2, *odd = keys[2 * p + 1] + d / 2;
      __m512i values[D];
#pragma GCC unroll 2
      for (int j = 0; j < D; j += 2) {
        const __m512i a = _mm512_loadu_si512(even + 8 * j), b = _mm512_loadu_si512(odd + 8 * j);
        values[j] = _mm512_permutex2var_epi16(a, low_halves, b);
        values[j + 1] = _mm512_permutex2var_epi16(a, high_halves, b);
      }
#pragma GCC unroll 4
      for (int h = 0; h < H; ++h) {
        const __m512i w = _mm512_set1_epi32(static_cast<int>(pairs[h * stride + p]));
#pragma GCC unroll 4
        for (int j = 0; j < D; ++j) acc[h][j] = add(acc[h][j], w, values[j]);
      }
    }
  }

 private:
  static constexpr __mmask32 kHighHalves = 0xAAAAAAAAU;

  // Decodes straight from codes to cells; returns false if a shape, a scale or a code needs the general form.
  SLUICE_VEC static bool decode(const RowFormat& format, RowRef row, Cell* into) {
    const auto put = [&](int line, __m512i cells)
                         __attribute__((always_inline)) { _mm512_storeu_si512(into + 16 * line, cells); };
    return decode_row_lines<kFp8InCells>(format, row, put, [&](int line, __m512i words) __attribute__((always_inline)) {
      put(line, _mm512_permutexvar_epi16(halves(), words));
    });
  }
  // Returns the permutation of words 0 16 1 17 2 18 ...
  SLUICE_VEC static __m512i halves() {
    return _mm512_or_si512(I32x16::iota().v,
                           _mm512_slli_epi32(_mm512_add_epi32(I32x16::iota().v, _mm512_set1_epi32(16)), 16));
  }

  SLUICE_VEC static F32x16 add(F32x16 acc, __m512i a, __m512i b) {
    return {_mm512_dpbf16_ps(acc.v, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b))};
  }
  SLUICE_VEC static __m512i words() {  // 0, 1, 2 ... 31
    return _mm512_or_si512(
        _mm512_slli_epi32(I32x16::iota().v, 1),
        _mm512_slli_epi32(_mm512_add_epi32(_mm512_slli_epi32(I32x16::iota().v, 1), _mm512_set1_epi32(1)), 16));
  }
  // Word 2 l + 1 of a pair comes from word 2 l of the second key, whose words a permutation counts from 32.
  SLUICE_VEC static __m512i second_key() { return _mm512_set1_epi16(31); }
};

}  // namespace

void attend_bf16(const AttendArgs& args, int span, int begin, int end, int head_begin, int head_end) {
  attend_tiles<F32x16, DotProducts>(args, span, begin, end, head_begin, head_end);
}

namespace {

constexpr Kernel kKernels[] = {SLUICE_KERNEL(attend_bf16, attend_bf16, CpuFeature::kFastBf16Dot)};

}  // namespace

SLUICE_KERNELS(attend, kKernels, {});

}  // namespace sluice::cpu::SLUICE_ISA
