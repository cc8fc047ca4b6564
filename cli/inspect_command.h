// sluice inspect: what a checkpoint, or a config alone, is made of and what it will cost; loads no weights.
#pragma once

#include "sluice/engine.h"

namespace sluice {

struct InspectOptions {
  EngineOptions engine;  // model_folder: a folder, a .gguf file, a known name, or a config.json; "": the embedded model
  bool tensors = false;  // every tensor instead of a line for each layer
};

int run_inspect(const InspectOptions& options);

}  // namespace sluice
