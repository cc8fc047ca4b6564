// The tensor-core instruction of a warpgroup (four warps), whose operands lie in shared memory, and the barriers by
// which warpgroups hand tiles to each other.
//
// A tile is rows of 128 bytes (64 values of f16), 1,024 bytes aligned. The 16-byte piece i of row r lies at piece i
// ^ (r % 8) (tile_piece()), which is the hardware's swizzle of 128 bytes. Wider rows are several tiles. The registers
// of d, [64 rows, n]: warp w of the group has rows 16 w + l / 4 and 8 further for lane l. Register 4 i + 2 h + e is
// column 8 i + 2 (l % 4) + e of row 16 w + l / 4 + 8 h.
// Used by attend_rows.h, cluster.h and wgmma_bf16.h.
#pragma once

#include "kernels/cuda/launch.h"
#include "kernels/cuda/sm90/fragments.h"
#include "kernels/cuda/sm90/group_registers.h"

namespace sluice::cuda_sm90 {

inline constexpr int kSwizzledRows = 64, kTileRowBytes = 128, kTileBytes = kSwizzledRows * kTileRowBytes;

// Returns where piece `piece` of 16 bytes of row `row` of a tile lies.
SLUICE_HD constexpr int tile_piece(int row, int piece) {
  return row * kTileRowBytes + (piece ^ row % 8) * 16;
}

// An operand in the instruction's form: where it begins, in units of 16 bytes, and its layout.
struct GroupOperand {
  std::uint32_t at, form;
};
// In a cluster, an address says in the bits above its 18 which block it belongs to. The instruction has other fields
// there.
SLUICE_DEVICE std::uint32_t operand_address(const void* shared) {
  return (shared_address(shared) & 0x3FFFFU) >> 4;
}
// An operand whose values that are multiplied and added are adjacent in a row; a step of 16 of them is 32 bytes
// further.
SLUICE_DEVICE GroupOperand inner_operand(const void* shared) {
  return {operand_address(shared) | 1U << 16, 1U << 30 | 1024U >> 4};
}
// An operand whose values lie in a column, 16 rows further a step; 64 more values of a row are a tile further.
SLUICE_DEVICE GroupOperand outer_operand(const void* shared) {
  return {operand_address(shared) | std::uint32_t{kTileBytes} >> 4 << 16, 1U << 30 | 1024U >> 4};
}
SLUICE_DEVICE GroupOperand further(GroupOperand operand, int bytes) {
  return {operand.at + static_cast<std::uint32_t>(bytes >> 4), operand.form};
}

// d [64 x 64] += a b. kTransposed: b lies as [k, n].
template <bool kTransposed>
SLUICE_DEVICE void multiply_group(float (&d)[32], GroupOperand a, GroupOperand b) {
  asm volatile(
      "{\n.reg .b64 a, b;\nmov.b64 a, {%32, %33};\nmov.b64 b, {%34, %35};\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" SLUICE_TO_32 "}, a, b, 1, 1, 1, 0, %36;\n}"
      : SLUICE_SUMS_32("+f", 0)
      : "r"(a.at), "r"(a.form), "r"(b.at), "r"(b.form), "n"(kTransposed ? 1 : 0));
}
// a lies in registers. For a step these are columns 2 t and 2 t + 1 (t = l % 4) of rows l / 4 and l / 4 + 8 of the
// warp's sixteen, then the same of columns 8 further.
SLUICE_DEVICE void multiply_group(float (&d)[32], const std::uint32_t (&a)[4], GroupOperand b) {
  asm volatile(
      "{\n.reg .b64 b;\nmov.b64 b, {%36, %37};\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" SLUICE_TO_32 "}, {%32, %33, %34, %35}, b, 1, 1, 1, 0;\n}"
      : SLUICE_SUMS_32("+f", 0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.at), "r"(b.form));
}
// d [64 x 128] += a b.
template <bool kTransposed>
SLUICE_DEVICE void multiply_group(float (&d)[64], GroupOperand a, GroupOperand b) {
  asm volatile(
      "{\n.reg .b64 a, b;\nmov.b64 a, {%64, %65};\nmov.b64 b, {%66, %67};\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" SLUICE_TO_64 "}, a, b, 1, 1, 1, 0, %68;\n}"
      : SLUICE_SUMS_64("+f", 0)
      : "r"(a.at), "r"(a.form), "r"(b.at), "r"(b.form), "n"(kTransposed ? 1 : 0));
}

// d [64 x 64] += a b, a in registers: those of multiply_step() for the 16 rows of each warp.
SLUICE_DEVICE void add_group_rows(float (&d)[32], const std::uint32_t (&a)[4], GroupOperand b) {
  asm volatile(
      "{\n.reg .b64 b;\nmov.b64 b, {%36, %37};\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" SLUICE_TO_32 "}, {%32, %33, %34, %35}, b, 1, 1, 1, 0;\n}"
      : SLUICE_SUMS_32("+f", 0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.at), "r"(b.form));
}
// d = a b. What d was is no operand: that of several products could lie in the same registers.
SLUICE_DEVICE void multiply_group_rows(float (&d)[32], const std::uint32_t (&a)[4], GroupOperand b) {
  asm volatile(
      "{\n.reg .b64 b;\nmov.b64 b, {%36, %37};\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" SLUICE_TO_32 "}, {%32, %33, %34, %35}, b, 0, 1, 1, 0;\n}"
      : SLUICE_SUMS_32("=f", 0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.at), "r"(b.form));
}

// Stands between the code that computes the registers of d, or of a, and products, and between products and code that
// reads them: the compiler moves nothing across.
template <int kCount>
SLUICE_DEVICE void hold(float (&d)[kCount]) {
#pragma unroll
  for (float& value : d) asm volatile("" : "+f"(value)::"memory");
}
SLUICE_DEVICE void hold(std::uint32_t (&a)[4]) {
#pragma unroll
  for (std::uint32_t& pair : a) asm volatile("" : "+r"(pair)::"memory");
}
SLUICE_DEVICE void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
SLUICE_DEVICE void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kLeft>
SLUICE_DEVICE void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}
// After it, and a barrier, tensor cores see what this thread wrote to shared memory.
SLUICE_DEVICE void show_tensor_cores() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// A barrier in shared memory, with phases: a phase is over when `arrivals` threads have arrived in it.
struct SharedBarrier {
  std::uint64_t bits;

  SLUICE_DEVICE void init(int arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(&bits)), "r"(arrivals) : "memory");
  }
  SLUICE_DEVICE void arrive() {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(shared_address(&bits)) : "memory");
  }
  // Waits until phase `phase` (0, 1, ...) is over; only the last two are distinguished.
  SLUICE_DEVICE void wait(int phase) {
    asm volatile(
        "{\n.reg .pred p;\nagain:\n"
        "mbarrier.try_wait.parity.shared.b64 p, [%0], %1;\n"
        "@p bra done;\nbra again;\ndone:\n}" ::"r"(shared_address(&bits)),
        "r"(phase & 1)
        : "memory");
  }
};

// Sets the registers of this warp's threads from here on, the same number for all; four warps of a group call it
// together.
template <int kRegisters>
SLUICE_DEVICE void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
SLUICE_DEVICE void leave_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace sluice::cuda_sm90
