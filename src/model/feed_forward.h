// The feed-forward of a layer as most families have it: one SwiGLU, or a mixture of experts that a router chooses from,
// with a shared expert if there is one (docs/models/deepseek_v4.md §8, docs/models/deepseek_v3.md §2,
// docs/models/deepseek_v2.md §2, docs/models/decoder.md §2).
// Used by model/decoder/weights.h, model/deepseek_mla/weights.h and model/deepseek_v4/weights.h.
#pragma once

#include <cstdint>
#include <vector>

#include "config/model_config.h"
#include "kernels/device/scratch.h"
#include "kernels/ops/experts.h"
#include "kernels/ops/router.h"
#include "model/model_step.h"
#include "model/weights/param.h"

namespace sluice {

struct FeedForwardWeights {
  LinearWeight gate;            // the router: [experts, hidden]
  Param<float> gate_bias;       // [experts]; empty: none
  Param<std::int32_t> tid2eid;  // [vocab, slots]: experts by token id; empty: by score
  std::vector<ExpertWeights> experts;
  ExpertWeights shared;                                             // in a dense layer: the whole SwiGLU
  Param<float> shared_gate_bias, shared_up_bias, shared_down_bias;  // the shared expert's; empty: none
};

struct FeedForwardScratch {
  ScratchTensor router_logits, router_weights, router_ids;
  void reserve(Scratch& scratch, const MoeConfig& config, std::size_t rows);
};

Activation activation_of(const MoeConfig& config);

// Refuses what the device's experts() does not compute (ExpertsSupport). `mlp_bias`: feed-forward layers have biases.
Status check_feed_forward(const Exec& exec, const Activation& activation, bool mlp_bias);

// Describes how a layer's router scores: with sigmoids if it has a bias, with softmax otherwise (DeepSeek-V2 to V3.2,
// Qwen3-MoE).
RouteArgs routing(const MoeConfig& config, const FeedForwardWeights& weights);

// The input forms that the weights multiply.
InputForms inputs_of(const FeedForwardWeights& weights);

// Computes y from x: [rows, hidden], not the same memory. `routing` describes how the router scores, nothing about
// rows. The observer sees "router_weights" and "router_ids".
void feed_forward(const ModelStep& step, int layer, const ModelConfig& config, const FeedForwardWeights& weights,
                  const RouteArgs& routing, const Rows& x, const Rows& y, FeedForwardScratch& scratch);

}  // namespace sluice
