// NullModel: a model that computes nothing, with the memory of a real one. Under it the scheduler and the cache work as
// they do with the model that it stands for.
//
// Its latent and window pages have as many bytes as the real ones, so a budget gives as many pages of either; they are
// mapped and never touched. Open states are left out of the layout, because a real one would be copied for each
// request: null_model_options() takes their bytes from the budget instead.
// Used by bench/scheduler_bench.cc, cli/commands/simulate_command.cc and simulation.cc.
#pragma once

#include <memory>

#include "model/engine_setup.h"
#include "model/model.h"
#include "sluice/status.h"

namespace sluice {

std::unique_ptr<Model> make_null_model(const CacheLayout& real, int max_position_embeddings);

// `options` adapted for an engine over the null model, so that it has as many places and pages as an engine over the
// real one would have.
Result<EngineSetup> null_model_options(const CacheLayout& real, int max_position_embeddings, EngineSetup options);

}  // namespace sluice
