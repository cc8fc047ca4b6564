// Compiled for avx2 and avx512.
// The weights of kernels/ops/sample.h over sixteen lanes V (kernels/cpu/<isa>/vec.h).
// Used by kernels/cpu.
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/math.h"
#include "kernels/cpu/vec.h"
#include "kernels/ops/sample.h"

namespace sluice::cpu::SLUICE_ISA {

std::uint64_t sample_weights(const SampleWeightsArgs& args) {
  using V = F32x16;
  const V max = V::broadcast(args.max), scale = V::broadcast(args.scale), units = V::broadcast(kWeightUnits);
  double sums[16] = {};  // sums of integers, so they are exact
  alignas(64) float lanes[16];
  for (int i = 0; i < args.n; i += 16) {
    const int count = args.n - i;
    V w = exp((load_up_to_16<V>(args.a + i, count) - max) * scale);
    if (count < 16) w = select(first_lanes_of<V>(count), w, V::zero());
    if (args.w != nullptr) store_up_to_16(w, args.w + i, count);
    round_to_even(w * units).store(lanes);
    for (int l = 0; l < 16; ++l) sums[l] += static_cast<double>(lanes[l]);
  }
  std::uint64_t sum = 0;
  for (const double lane : sums) sum += static_cast<std::uint64_t>(lane);
  return sum;
}

namespace {

constexpr Kernel kKernels[] = {
    SLUICE_KERNEL(sample_weights, sample_weights),
};

}  // namespace

SLUICE_KERNELS(sample_weights, kKernels, {});

}  // namespace sluice::cpu::SLUICE_ISA
