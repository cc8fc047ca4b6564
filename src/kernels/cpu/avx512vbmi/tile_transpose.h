// Sixteen lines of sixteen dwords, turned: lane l of line i goes to lane i of line l.
// Used by column_tiles.h.
#pragma once

#include "kernels/cpu/avx512/intrinsics.h"
#include "kernels/cpu/avx512/vec.h"

namespace sluice::cpu::SLUICE_ISA {

SLUICE_VEC void transpose_lines(__m512i (&line)[16]) {
  __m512i a[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    a[i] = _mm512_unpacklo_epi32(line[i], line[i + 1]);
    a[i + 1] = _mm512_unpackhi_epi32(line[i], line[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    line[i] = _mm512_unpacklo_epi64(a[i], a[i + 2]);
    line[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 2]);
    line[i + 2] = _mm512_unpacklo_epi64(a[i + 1], a[i + 3]);
    line[i + 3] = _mm512_unpackhi_epi64(a[i + 1], a[i + 3]);
  }
  // Quarter q of line[4 i + c] is lane 4 q + c of lines 4 i .. 4 i + 3.
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const __m512i low = _mm512_shuffle_i32x4(line[c], line[4 + c], 0x88);
    const __m512i high = _mm512_shuffle_i32x4(line[c], line[4 + c], 0xDD);
    const __m512i low2 = _mm512_shuffle_i32x4(line[8 + c], line[12 + c], 0x88);
    const __m512i high2 = _mm512_shuffle_i32x4(line[8 + c], line[12 + c], 0xDD);
    a[c] = _mm512_shuffle_i32x4(low, low2, 0x88);         // quarter 0 of all lines
    a[8 + c] = _mm512_shuffle_i32x4(low, low2, 0xDD);     // 2
    a[4 + c] = _mm512_shuffle_i32x4(high, high2, 0x88);   // 1
    a[12 + c] = _mm512_shuffle_i32x4(high, high2, 0xDD);  // 3
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) line[i] = a[i];
}

}  // namespace sluice::cpu::SLUICE_ISA
