// sluice eval: how many questions of a task are answered correctly, greedily; or the perplexity of a text, and what a
// numerics profile costs on it.
#pragma once

#include <string>

#include "model/engine_setup.h"
#include "text/chat.h"

namespace sluice {

struct EvalOptions {
  EngineSetup engine;  // model.folder as given; "": the embedded model
  ChatEncodingOptions chat;
  std::string task;        // JSON lines, see eval_task.h
  std::string perplexity;  // instead of a task: a text whose perplexity to measure
  int window = 512;        // of it
  std::string against;     // and a profile to compare with on it; "": none
  std::string json;        // "": no file
  int concurrency = 1;     // requests in flight
  int limit = 0;           // only this many first items of the task; 0: all
  int max_tokens = 512;
};

int run_eval(const EvalOptions& options);

}  // namespace sluice
