// The mixture-of-experts feed-forward of one layer, routed and shared experts together.
//
//   for row t, slot s with expert e and weight c (spec section 8.2):
//     a = w1_e x, b = w3_e x              (order: kernels/linear.h)
//     with a limit L > 0:  a = min(a, L);  b = max(min(b, L), -L)
//     m = (silu(a) * b) * c               silu(a) = a / (1 + exp(-a)), exp of kernels/math.h
//     out_s = w2_e m
//   y[t] = ((out_0 + out_1) + out_2) ... + shared     slots in ascending order, then the shared expert (c = 1)
//
// Row contract: slot order is the router's; which rows share an expert changes nothing.
// Shapes: x, y [rows, hidden]; expert_ids, expert_weights [rows, slots]. x and y do not overlap.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned.h"
#include "kernels/linear.h"

namespace sluice {

struct ExpertWeights {
  LinearWeight gate, up, down;  // w1 [inter, hidden], w3 [inter, hidden], w2 [hidden, inter]
};

struct ExpertsArgs {
  int rows = 0, hidden = 0, slots = 0;
  const float* x = nullptr;
  const std::int32_t* expert_ids = nullptr;  // each in [0, experts.size())
  const float* expert_weights = nullptr;
  std::span<const ExpertWeights> experts;
  const ExpertWeights* shared = nullptr;  // null: none
  float limit = 0.0F;                     // L; 0: no clamp
  float* y = nullptr;
};

// Reused between calls so that a step allocates nothing once warm. One per caller.
struct ExpertsScratch {
  // The (row, slot) pairs of one expert, which are contiguous once sorted; the shared expert is a group of all rows.
  struct Group {
    const ExpertWeights* weights;
    const std::int32_t* x_rows;     // [rows], null for all rows
    const float* row_weights;       // [rows], null for 1
    float *gate, *up, *down, *out;  // [rows, inter], [rows, inter], inputs of the down product, [rows, hidden]
    int rows;
  };
  std::vector<Group> groups;
  std::vector<std::int32_t> first, sorted_rows, positions;  // by expert, by sorted pair, by (row, slot)
  FloatBuffer row_weights, gate, up, down, outputs;
  std::array<FloatBuffer, 4> inputs;  // by InputForm; x itself where that is kF32
};

void experts(const Exec& exec, const ExpertsArgs& args, ExpertsScratch& scratch);

}  // namespace sluice
