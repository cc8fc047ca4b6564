// ApiContext: what every endpoint works with. One per server; as thread-safe as its parts.
// Used by serve, serve/api, serve/generate and serve/guard.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "grammar/grammar.h"
#include "serve/api/openai/openai_request.h"
#include "serve/guard/key_limits.h"
#include "serve/guard/waiting.h"
#include "serve/http/jobs.h"
#include "serve/observe/engine_feed.h"
#include "serve/observe/server_metrics.h"
#include "sluice/engine.h"
#include "text/chat/chat.h"
#include "text/chat/message_starts.h"
#include "text/tokenizer/tokenizer.h"

namespace sluice {

struct ApiContext {
  Engine& engine;
  const Tokenizer& tokenizer;
  const ChatEncoding* chat;  // null: the family has none; chat is refused, completions work
  MessageStarts message_starts;
  RequestRules rules;
  std::string model_name;  // the name under which the model is served
  std::int64_t created;    // when the server started, Unix seconds
  ServerMetrics metrics;
  std::function<std::chrono::steady_clock::time_point()> now;  // for the metrics' latencies
  JobRegistry jobs;
  GrammarCache grammars, call_grammars;
  std::shared_ptr<Waiting> waiting;
  std::shared_ptr<KeyLimits> key_limits;
  std::shared_ptr<std::atomic<std::int64_t>> distribution_bytes;  // bytes that scores under way will keep
  double request_timeout;                                         // seconds, of a request that names none; 0: none
  bool log_text;                                                  // prompts and answers in the log
  std::atomic<bool> is_loopback;                                  // only programs of this machine can reach the server
  bool debug_endpoints;                                           // /debug/* answers every client
  std::unique_ptr<EngineFeed> feed;
  // Threads for parsing, rendering and tokenising; large bodies have their own. Last, so that they end first.
  TaskQueue large_workers;
  TaskQueue workers;
};

}  // namespace sluice
