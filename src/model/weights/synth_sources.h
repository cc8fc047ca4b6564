// The tensors of a random checkpoint, to be written: `sluice synth`, and the checkpoints of the tests' oracles.
// Thread safety: functions without shared state. What they return points into both arguments, which must outlive it.
#pragma once

#include <vector>

#include "files/safetensors_writer.h"
#include "model/model_plan.h"
#include "model/weights/synth_weights.h"

namespace sluice {

// As the official checkpoint stores them.
std::vector<TensorSource> synth_sources(const ModelPlan& plan, const SynthWeights& weights);

// The same values in f32, without scales; ids as they are.
std::vector<TensorSource> synth_sources_as_f32(const ModelPlan& plan, const SynthWeights& weights);

}  // namespace sluice
