// The tensor-core instruction of a warpgroup (wgmma.h) for bf16: operands of attention over rows in bf16.
// Used by attend_list_parts.h.
#pragma once

#include "kernels/cuda/sm90/wgmma.h"

namespace sluice::cuda_sm90 {

// d [64 x 64] += a b. kTransposed: b lies as [k, n].
template <bool kTransposed>
SLUICE_DEVICE void multiply_bf16(float (&d)[32], GroupOperand a, GroupOperand b) {
  asm volatile(
      "{\n.reg .b64 a, b;\nmov.b64 a, {%32, %33};\nmov.b64 b, {%34, %35};\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" SLUICE_TO_32 "}, a, b, 1, 1, 1, 0, %36;\n}"
      : SLUICE_SUMS_32("+f", 0)
      : "r"(a.at), "r"(a.form), "r"(b.at), "r"(b.form), "n"(kTransposed ? 1 : 0));
}
// d [64 x 128] += a b.
template <bool kTransposed>
SLUICE_DEVICE void multiply_bf16(float (&d)[64], GroupOperand a, GroupOperand b) {
  asm volatile(
      "{\n.reg .b64 a, b;\nmov.b64 a, {%64, %65};\nmov.b64 b, {%66, %67};\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" SLUICE_TO_64 "}, a, b, 1, 1, 1, 0, %68;\n}"
      : SLUICE_SUMS_64("+f", 0)
      : "r"(a.at), "r"(a.form), "r"(b.at), "r"(b.form), "n"(kTransposed ? 1 : 0));
}
// a lies in registers, as for multiply_group() of wgmma.h; b as [k, n].
SLUICE_DEVICE void multiply_bf16(float (&d)[32], const std::uint32_t (&a)[4], GroupOperand b) {
  asm volatile(
      "{\n.reg .b64 b;\nmov.b64 b, {%36, %37};\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" SLUICE_TO_32 "}, {%32, %33, %34, %35}, b, 1, 1, 1, 1;\n}"
      : SLUICE_SUMS_32("+f", 0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.at), "r"(b.form));
}
SLUICE_DEVICE void multiply_bf16(float (&d)[64], const std::uint32_t (&a)[4], GroupOperand b) {
  asm volatile(
      "{\n.reg .b64 b;\nmov.b64 b, {%68, %69};\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" SLUICE_TO_64
      "}, {%64, %65, %66, %67}, b, 1, 1, 1, 1;\n}"
      : SLUICE_SUMS_64("+f", 0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.at), "r"(b.form));
}

}  // namespace sluice::cuda_sm90
