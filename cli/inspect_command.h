// sluice inspect: what a checkpoint, or a config alone, is made of and what it will cost; loads no weights.
#pragma once

#include "model/engine_setup.h"

namespace sluice {

struct InspectOptions {
  EngineSetup engine;    // model.folder: a folder, a .gguf file, a known name, or a config.json; "": the embedded model
  bool tensors = false;  // every tensor instead of a line for each layer
};

int run_inspect(const InspectOptions& options);

}  // namespace sluice
