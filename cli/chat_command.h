// sluice chat: a conversation in the terminal, or read from a pipe, one line a turn.
#pragma once

#include <string>

#include "cli/text_options.h"
#include "model/engine_setup.h"
#include "text/chat.h"

namespace sluice {

struct ChatOptions {
  EngineSetup engine;  // model.folder as given; "": the embedded model
  TextOptions text;
  ChatEncodingOptions chat;
  std::string system;
  bool thinking = false;
};

int run_chat(const ChatOptions& options);

}  // namespace sluice
