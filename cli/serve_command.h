// sluice serve: the OpenAI API over HTTP.
#pragma once

#include <string>
#include <vector>

#include "model/engine_setup.h"
#include "serve/waiting.h"
#include "text/chat.h"

namespace sluice {

struct ServeOptions {
  EngineSetup engine;  // model.folder as given; "": the embedded model
  ChatEncodingOptions chat;
  std::string host = "127.0.0.1";
  int port = 8000;
  std::string served_model_name;  // "": the folder's name
  double drain_timeout_seconds = 10;
  bool enable_debug_endpoints = false;
  std::vector<std::string> cors_origins = {};
  WaitingLimits waiting;
};

int run_serve(const ServeOptions& options);

}  // namespace sluice
