// Used by kernels/cpu/linear/linear_layout.cc.
#include "kernels/cpu/avx2/linear_strips.h"

#include <emmintrin.h>

namespace sluice::cpu::avx2 {
namespace {

// A strip is 16 bytes of each of 16 rows: four columns of a dword a row. Column c of four rows, a quarter of the 16, is
// one vector.
constexpr int kStripBytes = 16, kQuarters = 4, kColumns = 4;

struct Strip {
  __m128i column[kColumns][kQuarters];
};

__m128i load(const std::byte* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
void store(std::byte* p, __m128i v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), v);
}

[[gnu::always_inline]] inline void load_strip(const std::byte* rows, std::size_t row_bytes, Strip& strip) {
#pragma GCC unroll 4
  for (int q = 0; q < kQuarters; ++q, rows += 4 * row_bytes) {
    const __m128i a = load(rows), b = load(rows + row_bytes);
    const __m128i c = load(rows + 2 * row_bytes), d = load(rows + 3 * row_bytes);
    const __m128i ab_low = _mm_unpacklo_epi32(a, b), ab_high = _mm_unpackhi_epi32(a, b);
    const __m128i cd_low = _mm_unpacklo_epi32(c, d), cd_high = _mm_unpackhi_epi32(c, d);
    strip.column[0][q] = _mm_unpacklo_epi64(ab_low, cd_low);
    strip.column[1][q] = _mm_unpackhi_epi64(ab_low, cd_low);
    strip.column[2][q] = _mm_unpacklo_epi64(ab_high, cd_high);
    strip.column[3][q] = _mm_unpackhi_epi64(ab_high, cd_high);
  }
}

// Each strip type writes column `c`, whose line begins at `line` (f32: whose strip begins there).
struct Bf16Strip {
  static constexpr int kSteps = 4;
  [[gnu::always_inline]] static void put(const __m128i (&column)[kQuarters], std::byte* line) {
#pragma GCC unroll 4
    for (int q = 0; q < kQuarters; ++q) store(line + kStripBytes * q, column[q]);
  }
};

struct Mxfp4Strip {
  static constexpr int kSteps = 4;
  // Joins every second nibble of each dword, from the lowest on, as one word in the low half of each word's byte.
  [[gnu::always_inline]] static __m128i join(__m128i nibbles) {
    return _mm_and_si128(_mm_or_si128(nibbles, _mm_srli_epi16(nibbles, 4)), _mm_set1_epi16(0x00FF));
  }
  [[gnu::always_inline]] static void put(const __m128i (&column)[kQuarters], std::byte* line) {
    const __m128i nibble = _mm_set1_epi8(0x0F);
#pragma GCC unroll 4
    for (int q = 0; q < kQuarters; ++q) {
      const __m128i even = join(_mm_and_si128(column[q], nibble));
      const __m128i odd = join(_mm_and_si128(_mm_srli_epi16(column[q], 4), nibble));
      const __m128i both = _mm_packus_epi16(even, odd);  // a word for each output: even outputs, then odd outputs
      store(line + kStripBytes * q, _mm_unpacklo_epi16(both, _mm_srli_si128(both, 8)));
    }
  }
};

// Inputs 0, 1 of four outputs, then their inputs 2, 3.
[[gnu::always_inline]] inline __m128i pairs_of(__m128i quarter) {
  constexpr int kEvensFirst = _MM_SHUFFLE(3, 1, 2, 0);
  return _mm_shuffle_epi32(_mm_shufflehi_epi16(_mm_shufflelo_epi16(quarter, kEvensFirst), kEvensFirst), kEvensFirst);
}

struct Fp8PairsStrip {
  static constexpr int kSteps = 4;
  [[gnu::always_inline]] static void put(const __m128i (&column)[kQuarters], std::byte* line) {
#pragma GCC unroll 4
    for (int q = 0; q < kQuarters; ++q) store(line + kStripBytes * q, pairs_of(column[q]));
  }
};

struct Fp8NibblesStrip {
  static constexpr int kSteps = 4;
  // Returns fp8_nibbles() of every byte.
  [[gnu::always_inline]] static __m128i nibbles(__m128i codes) {
    const auto of = [&](int mask) __attribute__((always_inline)) {
      return _mm_and_si128(codes, _mm_set1_epi8(static_cast<char>(mask)));
    };
    return _mm_or_si128(of(0x0F), _mm_or_si128(_mm_slli_epi16(of(0x70), 1), _mm_srli_epi16(of(0x80), 3)));
  }
  [[gnu::always_inline]] static void put(const __m128i (&column)[kQuarters], std::byte* line) {
    __m128i pairs[kQuarters];
#pragma GCC unroll 4
    for (int q = 0; q < kQuarters; ++q) pairs[q] = pairs_of(nibbles(column[q]));
    store(line, _mm_unpacklo_epi64(pairs[0], pairs[2]));
    store(line + 16, _mm_unpacklo_epi64(pairs[1], pairs[3]));
    store(line + 32, _mm_unpackhi_epi64(pairs[0], pairs[2]));
    store(line + 48, _mm_unpackhi_epi64(pairs[1], pairs[3]));
  }
};

struct Fp8PlanesStrip {
  static constexpr int kSteps = 4;
  // Writes bytes 0 and 2 of the dwords of all quarters to planes 0 and 2 of `line`.
  [[gnu::always_inline]] static void put_evens(const __m128i (&column)[kQuarters], std::byte* line) {
    const __m128i low = _mm_set1_epi16(0x00FF);
    const auto bytes = [&](int q) __attribute__((always_inline)) { return _mm_and_si128(column[q], low); };
    const __m128i first = _mm_packus_epi16(bytes(0), bytes(1)), second = _mm_packus_epi16(bytes(2), bytes(3));
    store(line, _mm_packus_epi16(_mm_and_si128(first, low), _mm_and_si128(second, low)));
    store(line + 32, _mm_packus_epi16(_mm_srli_epi16(first, 8), _mm_srli_epi16(second, 8)));
  }
  [[gnu::always_inline]] static void put(const __m128i (&column)[kQuarters], std::byte* line) {
    put_evens(column, line);
    __m128i odd[kQuarters];
#pragma GCC unroll 4
    for (int q = 0; q < kQuarters; ++q) odd[q] = _mm_srli_epi16(column[q], 8);
    put_evens(odd, line + 16);
  }
};

template <class Format>
int pack(const std::byte* rows, std::size_t row_bytes, int steps, std::byte* to, std::size_t stride) {
  const int strips = steps / Format::kSteps;
  for (int s = 0; s < strips; ++s, rows += kStripBytes) {
    Strip strip;
    load_strip(rows, row_bytes, strip);
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c, to += stride) Format::put(strip.column[c], to);
  }
  return strips * Format::kSteps;
}

}  // namespace

// A line is two columns, of which the odd input's goes first.
int pack_f32_strips(Fp8Order, const std::byte* rows, std::size_t row_bytes, int steps, std::byte* to,
                    std::size_t stride) {
  const int strips = steps / 2;
  for (int s = 0; s < strips; ++s, rows += kStripBytes) {
    Strip strip;
    load_strip(rows, row_bytes, strip);
#pragma GCC unroll 2
    for (int c = 0; c < kColumns; c += 2, to += stride) {
      Bf16Strip::put(strip.column[c + 1], to);
      Bf16Strip::put(strip.column[c], to + 64);
    }
  }
  return strips * 2;
}

int pack_bf16_strips(Fp8Order, const std::byte* rows, std::size_t row_bytes, int steps, std::byte* to,
                     std::size_t stride) {
  return pack<Bf16Strip>(rows, row_bytes, steps, to, stride);
}

int pack_fp8_strips(Fp8Order order, const std::byte* rows, std::size_t row_bytes, int steps, std::byte* to,
                    std::size_t stride) {
  return order == Fp8Order::kPairs     ? pack<Fp8PairsStrip>(rows, row_bytes, steps, to, stride)
         : order == Fp8Order::kNibbles ? pack<Fp8NibblesStrip>(rows, row_bytes, steps, to, stride)
                                       : pack<Fp8PlanesStrip>(rows, row_bytes, steps, to, stride);
}

int pack_mxfp4_strips(Fp8Order, const std::byte* rows, std::size_t row_bytes, int steps, std::byte* to,
                      std::size_t stride) {
  return pack<Mxfp4Strip>(rows, row_bytes, steps, to, stride);
}

}  // namespace sluice::cpu::avx2
