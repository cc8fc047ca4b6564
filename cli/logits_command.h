// sluice logits: the logits of given token ids, and what follows greedily, as a safetensors file. Needs no tokenizer.
#pragma once

#include <string>

#include "model/engine_setup.h"

namespace sluice {

struct LogitsOptions {
  EngineSetup engine;         // model.folder as given; "": the embedded model
  std::string ids, ids_file;  // one of them
  std::string positions;      // "": all
  std::string out;            // the file to write
  int greedy = 0;             // tokens to continue by
};

int run_logits(const LogitsOptions& options);

}  // namespace sluice
