// A checkpoint of random weights that no file holds: what `sluice synth` would write for a config, made while it is
// loaded. To measure and try a geometry whose weights are not at hand, or would not fit on the disk.
// Thread safety: as Checkpoint.
#pragma once

#include <string>

#include "files/checkpoint.h"
#include "model/model_plan.h"
#include "sluice/engine.h"
#include "sluice/status.h"

namespace sluice {

// Of the plan's tensors, with the values that SynthWeights has for `seed`. `held_experts` > 0: a layer has so many
// routed experts of its own, and expert e has the weights of expert e % held_experts; the router knows them all.
Result<Checkpoint> dummy_checkpoint(const std::string& path, const ModelPlan& plan, std::uint64_t seed,
                                    int held_experts);

inline bool is_dummy(const ModelOptions& options) {
  return options.load_format == LoadFormat::kDummy;
}

}  // namespace sluice
