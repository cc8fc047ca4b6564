// A checkpoint of random weights that no file holds: `sluice synth` would write the same for a config, but here it is
// made while it is loaded. It serves to measure and try a geometry whose weights are not at hand, or would not fit on
// the disk.
// Thread safety: as Checkpoint.
// Used by cli/commands/inspect_command.cc, engine/engine_options.cc and model/families.cc.
#pragma once

#include <string>

#include "files/checkpoint.h"
#include "model/model_plan.h"
#include "sluice/engine.h"
#include "sluice/status.h"

namespace sluice {

// Makes a checkpoint of the plan's tensors, with the values that SynthWeights has for `seed`. If `held_experts` > 0, a
// layer has this many routed experts of its own, and expert e has the weights of expert e % held_experts. The router
// knows them all.
Result<Checkpoint> dummy_checkpoint(const std::string& path, const ModelPlan& plan, std::uint64_t seed,
                                    int held_experts);

inline bool is_dummy(const ModelOptions& options) {
  return options.load_format == LoadFormat::kDummy;
}

}  // namespace sluice
