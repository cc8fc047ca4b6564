// The mixture-of-experts feed-forward of one layer, routed and shared experts together.
//
//   for row t, slot s with expert e and weight c (docs/models/deepseek_v4.md §8.2):
//     a = w1_e x, b = w3_e x              (order: kernels/ops/linear.h)
//     with a limit L > 0:  a = min(a, L);  b = max(min(b, L), -L)
//     with biases (of the shared expert alone):  a = a + bias, b = b + bias, out = out + bias, each after its product
//     m = (silu(a) * b) * c               silu(a) = a / (1 + exp(-a)), exp of kernels/common/math.h
//     out_s = w2_e m
//   y[t] = ((out_0 + out_1) + out_2) ... + shared     slots in ascending order, then the shared expert (c = 1)
//
// Row contract: slot order is the router's; which rows share an expert changes nothing.
// Shapes: x, y [rows, hidden]; expert_ids, expert_weights [rows, slots]. x and y do not overlap.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/ops/linear.h"

namespace sluice {

struct ExpertWeights {
  LinearWeight gate, up, down;  // w1 [inter, hidden], w3 [inter, hidden], w2 [hidden, inter]
};

// Of an expert's products; null: none.
struct ExpertBiases {
  const float *gate = nullptr, *up = nullptr;  // [inter]
  const float* down = nullptr;                 // [hidden]
};

struct ExpertsArgs {
  int rows = 0, hidden = 0, slots = 0;
  Rows x = {};
  const std::int32_t* expert_ids = nullptr;  // each in [0, experts.size())
  const float* expert_weights = nullptr;
  std::span<const ExpertWeights> experts;
  const ExpertWeights* shared = nullptr;  // null: none
  ExpertBiases shared_biases = {};        // on the CPU
  float limit = 0.0F;                     // L; 0: no clamp
  float* y = nullptr;
};

void experts(const Exec& exec, const ExpertsArgs& args);

// silu(gate) * up * weight of rows, the activation m of kernels/ops/experts.h: gate, up, out [rows, dim] with row
// stride ld; out may be either.
struct SwiGluArgs {
  const float* gate;
  const float* up;
  const float* row_weight;  // [rows]; null: 1
  float* out;
  int dim;
  std::ptrdiff_t ld;
  float limit;
};

}  // namespace sluice
