// The tensor-core instruction of a warpgroup (four warps) with weights in registers and rows in shared memory.
//
// d [64 outputs, n rows] += a b. Warp w of the group has outputs 16 w + g and 8 further, g = l / 4, for lane l.
// Register 4 i + 2 h + e of d is row 8 i + 2 (l % 4) + e of output 16 w + g + 8 h: as multiply_step() for each 8 rows.
// a: the four registers of multiply_step(). b: rows of 128 bytes, 64 inputs, 1,024 bytes aligned; the 16-byte piece i
// of row r lies at piece i ^ (r % 8).
// Used by fp8_group.h and tile_products.h.
#pragma once

#include "kernels/cuda/sm90/fragments.h"
#include "kernels/cuda/sm90/group_registers.h"

namespace sluice::cuda_sm90 {

// Returns the operand b, in which step j of 16 inputs is 2 j further.
SLUICE_DEVICE std::uint64_t rows_operand(std::uint32_t shared) {
  constexpr std::uint64_t kForm = std::uint64_t{1} << 62 | std::uint64_t{1024 >> 4} << 32 | std::uint64_t{1} << 16;
  return kForm | (shared & 0x3FFFFU) >> 4;
}
SLUICE_DEVICE void fence_registers() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
SLUICE_DEVICE void commit_group() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kLeft>
SLUICE_DEVICE void wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}
// After it, tensor cores see what copies wrote to shared memory.
SLUICE_DEVICE void fence_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// multiply_group(d, a, b, add): d of `rows` rows, half as many registers; add: false: d = a b.
#define SLUICE_MULTIPLY_GROUP(kRows, kSums, a_text, b_text, add_text)                                          \
  SLUICE_DEVICE void multiply_group(float(&d)[kSums], const std::uint32_t(&a)[4], std::uint64_t b, bool add) { \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " add_text ", 0;\nwgmma.mma_async.sync.aligned.m64n" #kRows \
                 "k16.f32.bf16.bf16 {" SLUICE_TO_##kSums "}, {" a_text "}, " b_text ", p, 1, 1, 0;\n}"         \
                 : SLUICE_SUMS_##kSums("+f", 0)                                                                \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)));            \
  }
SLUICE_MULTIPLY_GROUP(32, 16, "%16, %17, %18, %19", "%20", "%21")
SLUICE_MULTIPLY_GROUP(48, 24, "%24, %25, %26, %27", "%28", "%29")
SLUICE_MULTIPLY_GROUP(56, 28, "%28, %29, %30, %31", "%32", "%33")
SLUICE_MULTIPLY_GROUP(64, 32, "%32, %33, %34, %35", "%36", "%37")
SLUICE_MULTIPLY_GROUP(80, 40, "%40, %41, %42, %43", "%44", "%45")
SLUICE_MULTIPLY_GROUP(96, 48, "%48, %49, %50, %51", "%52", "%53")
SLUICE_MULTIPLY_GROUP(104, 52, "%52, %53, %54, %55", "%56", "%57")
SLUICE_MULTIPLY_GROUP(112, 56, "%56, %57, %58, %59", "%60", "%61")
SLUICE_MULTIPLY_GROUP(128, 64, "%64, %65, %66, %67", "%68", "%69")
SLUICE_MULTIPLY_GROUP(192, 96, "%96, %97, %98, %99", "%100", "%101")
#undef SLUICE_MULTIPLY_GROUP

}  // namespace sluice::cuda_sm90
