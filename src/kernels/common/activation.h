// Activation: the function between an expert's products (kernels/ops/experts.h), as a value that models give. All
// devices follow the scalar form below. Thread safety: plain values.
//
//   with a limit L > 0:  a = min(a, L);  b = max(min(b, L), -L)
//   kSwish:     s = alpha * a                                          alpha = 1: SiLU; 1.702: gpt-oss
//   kGeluTanh:  s = a * fma(a * a, kGeluCube, kGeluLine)               GELU in its form with tanh, as a sigmoid
//   m = ((a / (1 + exp(-s))) * (b + up_offset)) * weight               exp of kernels/common/math.h
// Used by kernels/cpu/activation.isa.cc, kernels/cuda/sm90/inner_tiles.h, kernels/ops/experts.h and
// kernels/ref/activation.cc.
#pragma once

#include "base/host_device.h"
#include "kernels/common/math.h"

namespace sluice {

enum class ActivationKind { kSwish, kGeluTanh };

// 2 sqrt(2 / pi), and that times 0.044715.
inline constexpr float kGeluLine = 1.59576912160573071F, kGeluCube = 0.07135481627159518F;

struct Activation {
  ActivationKind kind = ActivationKind::kSwish;
  float alpha = 1.0F;      // for kSwish
  float limit = 0.0F;      // L; 0: no limit
  float up_offset = 0.0F;  // 1 for gpt-oss, else 0

  bool operator==(const Activation&) const = default;

  // Returns -0 for no offset: b + -0 is b for every b, but -0 + 0 would be +0.
  SLUICE_HD float added() const { return up_offset == 0.0F ? -0.0F : up_offset; }
};

// Returns m. kSwishAlone: the kernel is compiled for kSwish only.
template <bool kSwishAlone = false>
SLUICE_HD inline float activated(const Activation& of, float a, float b, float weight) {
  if (of.limit > 0.0F) {
    a = of.limit < a ? of.limit : a;
    b = of.limit < b ? of.limit : b;
    b = b < -of.limit ? -of.limit : b;
  }
  float s = of.alpha * a;
  if (!kSwishAlone && of.kind == ActivationKind::kGeluTanh) s = a * std::fma(a * a, kGeluCube, kGeluLine);
  return (a / (1.0F + exp_f32(-s)) * (b + of.added())) * weight;
}

}  // namespace sluice
