// Sources for writing the tensors of a random checkpoint: for `sluice synth`, and for the checkpoints of the tests'
// oracles. Thread safety: functions without shared state. Their results point into both arguments, which must outlive
// them.
// Used by cli/commands/synth_command.cc.
#pragma once

#include <vector>

#include "files/safetensors_writer.h"
#include "model/model_plan.h"
#include "model/weights/synth_weights.h"

namespace sluice {

// The tensors as the official checkpoint stores them.
std::vector<TensorSource> synth_sources(const ModelPlan& plan, const SynthWeights& weights);

// The same values in f32, without scales; ids as they are.
std::vector<TensorSource> synth_sources_as_f32(const ModelPlan& plan, const SynthWeights& weights);

}  // namespace sluice
