// The dwords of sixteen rows, turned so that a row is a lane. The indexer's kernels of this ISA share this.
// Used by index_isa.h, kernels/cpu/avx512_bf16/index_pairs.cc and kernels/cpu/avx512_vnni/index_fp4.cc.
#pragma once

#include "kernels/cpu/avx512/vec.h"
#include "kernels/ops/plane.h"

namespace sluice::cpu::SLUICE_ISA {

struct IndexTranspose {
  // Copies dword `offset` / 4 + i of sixteen rows to lane j of to[i].
  SLUICE_VEC static void transpose(const RowRef* rows, int offset, I32x16 (&to)[4]) {
    const auto quarter = [&](int i) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[i].data + offset));
    };
    __m512i part[4];  // part[i]: rows i, i + 4, i + 8, i + 12
    for (int i = 0; i < 4; ++i) {
      part[i] = _mm512_castsi128_si512(quarter(i));
      part[i] = _mm512_mask_broadcast_i32x4(part[i], 0x00F0, quarter(i + 4));
      part[i] = _mm512_mask_broadcast_i32x4(part[i], 0x0F00, quarter(i + 8));
      part[i] = _mm512_mask_broadcast_i32x4(part[i], 0xF000, quarter(i + 12));
    }
    const __m512i a = _mm512_unpacklo_epi32(part[0], part[1]), b = _mm512_unpackhi_epi32(part[0], part[1]);
    const __m512i c = _mm512_unpacklo_epi32(part[2], part[3]), d = _mm512_unpackhi_epi32(part[2], part[3]);
    to[0].v = _mm512_unpacklo_epi64(a, c);
    to[1].v = _mm512_unpackhi_epi64(a, c);
    to[2].v = _mm512_unpacklo_epi64(b, d);
    to[3].v = _mm512_unpackhi_epi64(b, d);
  }
};

}  // namespace sluice::cpu::SLUICE_ISA
