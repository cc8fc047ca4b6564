// The tensor-core instruction of a warpgroup on e4m3 codes, and the parts that its kernels share. Both operands are in
// shared memory in the layout of kernels/cuda/fp8_layout.h. The registers of d are as in group_products.h, d's rows
// being outputs.
// Used by fp8_rows.cu and fp8_tiles.cu.
#pragma once

#include "kernels/cuda/fp8_layout.h"
#include "kernels/cuda/sm90/group_products.h"

namespace sluice::cuda_sm90 {

// Returns an operand that is 1,024 bytes aligned; step j of 32 inputs is 2 j further.
SLUICE_DEVICE std::uint64_t fp8_operand(std::uint32_t shared) {
  return rows_operand(shared);
}

// d [64, n] += a b, or = a b.
SLUICE_DEVICE void multiply_fp8_step(float (&d)[4], std::uint64_t a, std::uint64_t b, bool add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {" SLUICE_TO_4 "}, %4, %5, p, 1, 1;\n}"
      : SLUICE_SUMS_4("+f", 0)
      : "l"(a), "l"(b), "r"(static_cast<int>(add)));
}
SLUICE_DEVICE void multiply_fp8_step(float (&d)[8], std::uint64_t a, std::uint64_t b, bool add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %10, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n16k32.f32.e4m3.e4m3 {" SLUICE_TO_8 "}, %8, %9, p, 1, 1;\n}"
      : SLUICE_SUMS_8("+f", 0)
      : "l"(a), "l"(b), "r"(static_cast<int>(add)));
}
SLUICE_DEVICE void multiply_fp8_step(float (&d)[16], std::uint64_t a, std::uint64_t b, bool add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k32.f32.e4m3.e4m3 {" SLUICE_TO_16 "}, %16, %17, p, 1, 1;\n}"
      : SLUICE_SUMS_16("+f", 0)
      : "l"(a), "l"(b), "r"(static_cast<int>(add)));
}
SLUICE_DEVICE void multiply_fp8_step(float (&d)[32], std::uint64_t a, std::uint64_t b, bool add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 {" SLUICE_TO_32 "}, %32, %33, p, 1, 1;\n}"
      : SLUICE_SUMS_32("+f", 0)
      : "l"(a), "l"(b), "r"(static_cast<int>(add)));
}
SLUICE_DEVICE void multiply_fp8_step(float (&d)[64], std::uint64_t a, std::uint64_t b, bool add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {" SLUICE_TO_64 "}, %64, %65, p, 1, 1;\n}"
      : SLUICE_SUMS_64("+f", 0)
      : "l"(a), "l"(b), "r"(static_cast<int>(add)));
}

// Computes a block's sum: four steps, all ended.
template <int kSums>
SLUICE_DEVICE void multiply_fp8_block(float (&sums)[kSums], std::uint32_t weights, std::uint32_t rows) {
  const std::uint64_t a = fp8_operand(weights), b = fp8_operand(rows);
  fence_registers();
#pragma unroll
  for (int step = 0; step < kFp8Inputs / 32; ++step) multiply_fp8_step(sums, a + 2 * step, b + 2 * step, step > 0);
  commit_group();
  wait_group<0>();
}

// Adds a block to y. scale: the weight's for this warp's sixteen outputs; row_scales: those of the rows, in shared
// memory.
template <int kSums>
SLUICE_DEVICE void add_fp8_block(const float (&sums)[kSums], float scale, const float* row_scales, int lane,
                                 float (&total)[kSums]) {
#pragma unroll
  for (int i = 0; i < kSums / 4; ++i) {
    const float2 of_rows = *reinterpret_cast<const float2*>(row_scales + 8 * i + lane % 4 * 2);
    const float scales[2] = {scale * of_rows.x, scale * of_rows.y};
#pragma unroll
    for (int e = 0; e < 4; ++e) total[4 * i + e] = std::fma(sums[4 * i + e], scales[e % 2], total[4 * i + e]);
  }
}

}  // namespace sluice::cuda_sm90
