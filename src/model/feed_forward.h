// The feed-forward of a layer as most families have it: one SwiGLU, or a mixture of experts that a router chooses from
// (spec sections 17.2, 18), beside a shared one where there is one.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/model_config.h"
#include "kernels/experts.h"
#include "kernels/scratch.h"
#include "model/model_step.h"
#include "model/param.h"

namespace sluice {

struct FeedForwardWeights {
  LinearWeight gate;             // the router: [experts, hidden]
  Param<float> gate_bias;  // [experts] with sigmoid routing; empty: softmax
  std::vector<ExpertWeights> experts;
  ExpertWeights shared;  // of a dense layer: all of it
};

struct FeedForwardScratch {
  ScratchTensor router_logits, router_weights, router_ids;
  void reserve(Scratch& scratch, const MoeConfig& config, std::size_t rows);
};

// x, y: [rows, hidden], not the same memory. The probe sees "router_weights" and "router_ids".
void feed_forward(const ModelStep& step, int layer, const ModelConfig& config, const FeedForwardWeights& weights,
                  const float* x, float* y, FeedForwardScratch& scratch);

}  // namespace sluice
