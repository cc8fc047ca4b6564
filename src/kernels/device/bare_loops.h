// What this machine does where nothing else is to be done: loops of one kind of instruction on operands in registers,
// and of loads. The figures to which percentages refer, and by which start-up judges what would be faster.
//
//   f32         multiply-adds
//   bf16 dot    VDPBF16PS
//   int8        VPDPBUSD, as wide as the machine has it; on plain AVX2 VPMADDUBSW, VPMADDWD and an addition
//   tiles       TDPBF16PS of AMX tiles. Emulated tiles have no such loop
// Thread safety: pure functions, each on the calling thread.
#pragma once

#include <cstddef>

#include "kernels/device/cpu_features.h"
#include "kernels/device/isa.h"
#include "kernels/ops/rows.h"

namespace sluice {

enum class BareKind { kF32, kBf16Dot, kInt8, kTiles };

struct BareLoop {
  void (*run)() = nullptr;  // a fraction of a millisecond; null: there is no such instruction
  double operations = 0;    // of one run; a multiply-add counts as two
};
BareLoop bare_loop(BareKind kind, const CpuFeatures& features = cpu_features());

// Loads all of it once: whole vectors, aligned to 64 bytes.
void read_lines(const std::byte* from, std::size_t bytes);

// In 1e9 operations a second; 0 where there is no such instruction.
struct Peaks {
  double f32 = 0, bf16_dot = 0, int8 = 0, tiles = 0;

  // Of the fastest instruction that gives the bits of products with such inputs (docs/dev/numerics.md).
  double of(InputForm inputs) const;
};
// Of this thread with what `features` allow: the best of some tries by turns, 20 ms in all and 50 at most.
Peaks thread_peaks(const CpuFeatures& features);
// What the kernels of `table` may use.
const CpuFeatures& features_of(const KernelTable& table);

}  // namespace sluice
