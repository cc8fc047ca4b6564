// Packing at the speed of memory: whole lines (kernels/cpu/linear/linear_layout.h) of 16 rows that all exist, by
// transposing in registers.
// Used by kernels/cpu/linear/linear_layout.cc.
#pragma once

#include <cstddef>

#include "kernels/cpu/linear/linear_layout.h"

namespace sluice::cpu::avx2 {

// Packs as many of `steps` lines as come in whole strips of 16 bytes a row, and returns how many. Row r begins at
// rows + r * row_bytes; line s goes to `to` + s * stride. The order is that of FP8 lines.
using PackStrips = int(Fp8Order order, const std::byte* rows, std::size_t row_bytes, int steps, std::byte* to,
                       std::size_t stride);
PackStrips pack_f32_strips, pack_bf16_strips, pack_fp8_strips, pack_mxfp4_strips;

}  // namespace sluice::cpu::avx2
