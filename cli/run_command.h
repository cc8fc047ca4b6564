// sluice run: one answer to stdout.
#pragma once

#include <string>

#include "cli/text_options.h"
#include "model/engine_setup.h"
#include "text/chat.h"

namespace sluice {

struct RunOptions {
  EngineSetup engine;  // model.folder as given; "": the embedded model
  TextOptions text;
  ChatEncodingOptions chat;
  std::string prompt;  // "-": standard input
  std::string system;
  bool raw = false;  // no chat encoding
  bool thinking = false;
};

int run_run(const RunOptions& options);

}  // namespace sluice
