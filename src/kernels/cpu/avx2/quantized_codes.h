// The codes of half a QuantizedBlock (kernels/weights/linear_inputs.h), in bytes of AVX; AVX-512 uses them, too.
// Used by kernels/cpu/linear/linear_inputs.isa.cc.
#pragma once

#include <cstdint>

#include "kernels/cpu/vec.h"

namespace sluice::cpu::SLUICE_ISA {

// Stores sixteen codes as kQuantizedOrder wants them. Returns their sum.
[[gnu::always_inline]] inline std::int32_t store_codes(__m128i codes, std::int8_t* to) {
  const __m128i order = _mm_setr_epi8(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_shuffle_epi8(codes, order));
  constexpr int kOffset = 128;  // added so that the instruction below can sum the bytes as unsigned
  const __m128i bytes = _mm_xor_si128(codes, _mm_set1_epi8(static_cast<char>(kOffset)));
  const __m128i sums = _mm_sad_epu8(bytes, _mm_setzero_si128());  // the sums of eight bytes each
  return _mm_cvtsi128_si32(sums) + _mm_extract_epi16(sums, 4) - 16 * kOffset;
}

}  // namespace sluice::cpu::SLUICE_ISA
