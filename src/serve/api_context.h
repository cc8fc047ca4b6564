// ApiContext: what every endpoint works with. One per server; as thread-safe as its parts.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "grammar/grammar.h"
#include "serve/jobs.h"
#include "serve/openai_request.h"
#include "serve/server_metrics.h"
#include "serve/waiting.h"
#include "sluice/engine.h"
#include "text/chat.h"
#include "text/message_starts.h"
#include "text/tokenizer.h"

namespace sluice {

struct ApiContext {
  Engine& engine;
  const Tokenizer& tokenizer;
  const ChatEncoding* chat;  // null: a family without one; chat is refused, completions work
  MessageStarts message_starts;
  RequestRules rules;
  std::string model_name;  // as served
  std::int64_t created;    // when the server started, Unix seconds
  ServerMetrics metrics;
  std::function<std::chrono::steady_clock::time_point()> now;  // for the metrics' latencies
  JobRegistry jobs;
  GrammarCache grammars;
  std::shared_ptr<Waiting> waiting;
  std::atomic<bool> is_loopback;  // only programs of this machine can reach the server
  bool debug_endpoints;           // /debug/* answers everybody
  // Threads for parsing, rendering and tokenising; large bodies have their own. Last, so that they end first.
  TaskQueue large_workers;
  TaskQueue workers;
};

}  // namespace sluice
