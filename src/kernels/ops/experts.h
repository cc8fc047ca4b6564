// experts: the mixture-of-experts feed-forward of one layer, routed and shared experts together.
//
//   for row t, slot s with expert e and weight c (docs/models/deepseek_v4.md §8.2):
//     a = w1_e x, b = w3_e x              (order: kernels/ops/linear.h)
//     with biases:  a = a + gate_bias_e,  b = b + up_bias_e        after the products
//     m = activation(a, b, c)              (kernels/common/activation.h: clamps, a gated sigmoid, c)
//     out_s = w2_e m;  with biases:  out_s = out_s + (c * down_bias_e)
//   y[t] = ((out_0 + out_1) + out_2) ... + shared     slots in ascending order, then the shared expert (c = 1)
//
// With several ranks (kernels/device/exchange.h) a rank has a share of the outputs of gate, up and down. Experts whose
// gate has an Nth of down's inputs, for N ranks, exchange m: each rank computes its share, gathers the shares of all
// (all_gather), and multiplies them by its outputs of down. Experts of which every rank has all of gate and up exchange
// nothing. y has as many columns as down has outputs; the caller gathers it. The biases are those of the share.
//
// Row contract: slot order is the router's; which rows share an expert changes nothing.
// Shapes: x [rows, hidden]; y [rows, down's outputs], which is hidden for one rank; expert_ids, expert_weights [rows,
// slots]. x and y do not overlap.
// Used by bench/linear_kernels.cc, bench/linear_step_bench.cc and model/feed_forward.cc.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/common/activation.h"
#include "kernels/ops/linear.h"

namespace sluice {

struct ExpertWeights {
  LinearWeight gate, up, down;  // w1 [inter, hidden], w3 [inter, hidden], w2 [hidden, inter]; or shares of outputs
};

// Biases are added to the products. Each kind (gate, up, down) has an array of its own, in which the biases of all
// experts lie one after the other. Null: nothing is added.
struct ExpertBiases {
  const float *gate = nullptr, *up = nullptr;  // [experts, inter]
  const float* down = nullptr;                 // [experts, hidden]

  bool any() const { return gate != nullptr || up != nullptr || down != nullptr; }
};

struct ExpertsArgs {
  int rows = 0, hidden = 0, slots = 0;
  Rows x = {};
  const std::int32_t* expert_ids = nullptr;  // each in [0, experts.size())
  const float* expert_weights = nullptr;
  std::span<const ExpertWeights> experts;
  const ExpertWeights* shared = nullptr;         // null: none
  ExpertBiases biases = {}, shared_biases = {};  // the routed experts' biases, and the shared one's
  Activation activation = {};                    // all experts' activation
  float* y = nullptr;
};

void experts(const Exec& exec, const ExpertsArgs& args);

// The optional arguments that a device's experts() computes; a model asks when it is loaded (model/feed_forward.h).
struct ExpertsSupport {
  bool biases = true;
  bool gelu = true;  // ActivationKind::kGeluTanh; all devices have kSwish
};

// The activation m of rows. gate, up and out are [rows, dim] with row stride ld; out may be gate or up.
struct ActivationArgs {
  const float* gate;
  const float* up;
  const float* row_weight;  // [rows]; null: 1
  float* out;
  int dim;
  std::ptrdiff_t ld;
  Activation activation;
};

}  // namespace sluice
