// The peak speed of this machine: loops of one kind of instruction on operands in registers, and loops of loads.
// Percentages refer to these figures, and start-up judges by them whether `--profile amx` would be faster.
//
//   f32         multiply-adds
//   bf16 dot    VDPBF16PS
//   int8        VPDPBUSD, as wide as the machine has it; on plain AVX2 VPMADDUBSW, VPMADDWD and an addition
//   tiles       TDPBF16PS of AMX tiles. Emulated tiles have no such loop
// Thread safety: pure functions, each on the calling thread.
// Used by cli/bench/bench_command.cc, engine/runner/profile_advice.h, kernels/cpu/isa.cc and src/bench/machine_probe.h.
#pragma once

#include <cstddef>

#include "kernels/device/cpu_features.h"
#include "kernels/device/isa.h"
#include "kernels/ops/rows.h"

namespace sluice {

enum class BareKind { kF32, kBf16Dot, kInt8, kTiles };

struct BareLoop {
  void (*run)() = nullptr;  // runs for a fraction of a millisecond; null: the machine lacks the instruction
  double operations = 0;    // in one run; a multiply-add counts as two
};
BareLoop bare_loop(BareKind kind, const CpuFeatures& features = cpu_features());

// Loads all of the bytes once: whole vectors, aligned to 64 bytes.
void read_lines(const std::byte* from, std::size_t bytes);

// Peak speeds in 1e9 operations a second; 0: there is no such instruction.
struct Peaks {
  double f32 = 0, bf16_dot = 0, int8 = 0, tiles = 0;

  // Returns the peak of the fastest instruction that gives the exact bits of products with these inputs
  // (docs/dev/numerics.md).
  double of(InputForm inputs) const;
};
// Measures the calling thread with the instructions that `features` allow. It returns the best of some tries, which
// take about 20 ms in all, and 50 ms at most.
Peaks thread_peaks(const CpuFeatures& features);
// The features that the kernels of `table` may use.
const CpuFeatures& features_of(const KernelTable& table);

}  // namespace sluice
