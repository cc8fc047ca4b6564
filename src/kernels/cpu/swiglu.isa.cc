// Compiled for avx2 and avx512.
// SwiGLU (kernels/ops/experts.h) over sixteen lanes V (cpu/<isa>/vec.h).
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/math.h"
#include "kernels/cpu/vec.h"

namespace sluice::cpu::SLUICE_ISA {

template <class V>
[[gnu::always_inline]] inline V swiglu(V a, V b, V limit, V lowest, V weight) {
  // The limit comes first: of two operands of which one is NaN, min and max give the second.
  a = min_of(limit, a);
  b = max_of(lowest, min_of(limit, b));
  const V silu = a / (V::broadcast(1.0F) + exp(V::zero() - a));
  return (silu * b) * weight;
}

void swiglu(const SwiGluArgs& args, int begin, int end) {
  using V = F32x16;
  const V limit = V::broadcast(args.limit > 0.0F ? args.limit : __builtin_inff());
  const V lowest = V::zero() - limit;
  for (int r = begin; r < end; ++r) {
    const V weight = V::broadcast(args.row_weight != nullptr ? args.row_weight[r] : 1.0F);
    const float* gate = args.gate + r * args.ld;
    const float* up = args.up + r * args.ld;
    float* out = args.out + r * args.ld;
    int i = 0;
    for (; i + 16 <= args.dim; i += 16) {
      swiglu(V::load(gate + i), V::load(up + i), limit, lowest, weight).store(out + i);
    }
    if (const int rest = args.dim - i; rest > 0) {
      swiglu(V::load_first(gate + i, rest), V::load_first(up + i, rest), limit, lowest, weight)
          .store_first(out + i, rest);
    }
  }
}

namespace {

constexpr Kernel kKernels[] = {
    SLUICE_KERNEL(swiglu, swiglu),
};

}  // namespace

SLUICE_KERNELS(swiglu, kKernels, {});

}  // namespace sluice::cpu::SLUICE_ISA
