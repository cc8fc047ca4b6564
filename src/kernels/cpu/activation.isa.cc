// Compiled for avx2 and avx512.
// The experts' activation (kernels/common/activation.h) over sixteen lanes V (kernels/cpu/<isa>/vec.h).
#include "kernels/common/activation.h"

#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/math.h"
#include "kernels/cpu/vec.h"

namespace sluice::cpu::SLUICE_ISA {

template <class V>
struct ActivationValues {
  V limit, lowest, alpha, added;

  explicit ActivationValues(const Activation& of)
      : limit(V::broadcast(of.limit > 0.0F ? of.limit : __builtin_inff())),
        lowest(V::zero() - limit),
        alpha(V::broadcast(of.alpha)),
        added(V::broadcast(of.added())) {}

  template <ActivationKind kKind>
  [[gnu::always_inline]] V activated(V a, V b, V weight) const {
    // The limit is the first operand: min and max return the second one if either is NaN, so a NaN stays.
    a = min_of(limit, a);
    b = max_of(lowest, min_of(limit, b));
    const V s =
        kKind == ActivationKind::kSwish ? alpha * a : a * fma(a * a, V::broadcast(kGeluCube), V::broadcast(kGeluLine));
    return (a / (V::broadcast(1.0F) + exp(V::zero() - s)) * (b + added)) * weight;
  }
};

template <ActivationKind kKind>
void activation_rows(const ActivationArgs& args, int begin, int end) {
  using V = F32x16;
  const ActivationValues<V> values(args.activation);
  for (int r = begin; r < end; ++r) {
    const V weight = V::broadcast(args.row_weight != nullptr ? args.row_weight[r] : 1.0F);
    const float* gate = args.gate + r * args.ld;
    const float* up = args.up + r * args.ld;
    float* out = args.out + r * args.ld;
    int i = 0;
    for (; i + 16 <= args.dim; i += 16) {
      values.template activated<kKind>(V::load(gate + i), V::load(up + i), weight).store(out + i);
    }
    if (const int rest = args.dim - i; rest > 0) {
      values.template activated<kKind>(V::load_first(gate + i, rest), V::load_first(up + i, rest), weight)
          .store_first(out + i, rest);
    }
  }
}

void activation(const ActivationArgs& args, int begin, int end) {
  args.activation.kind == ActivationKind::kSwish ? activation_rows<ActivationKind::kSwish>(args, begin, end)
                                                 : activation_rows<ActivationKind::kGeluTanh>(args, begin, end);
}

namespace {

constexpr Kernel kKernels[] = {
    SLUICE_KERNEL(activation, activation),
};

}  // namespace

SLUICE_KERNELS(activation, kKernels, {});

}  // namespace sluice::cpu::SLUICE_ISA
