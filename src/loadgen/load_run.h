// LoadRun: sends the requests of a plan to a server, each at its time, and keeps what came of them.
//
// Open loop (concurrency 0): requests are sent at the times of the trace, whatever the server does; one that the client
// itself sent late shows in `lag`. Closed loop: `concurrency` requests are in flight at a time. Requests that follow
// another (turns of a conversation) wait for its end and their pause in both. Thread safety: one thread.
// Used by cli/bench/bench_serve_command.cc, determinism.h, traffic_report.h and word_scale.h.
#pragma once

#include <functional>
#include <vector>

#include "loadgen/answer_reader.h"
#include "loadgen/load_prompts.h"
#include "net/http_client.h"

namespace sluice {

struct SentRequest {
  std::size_t request = 0;          // index in the plan
  LoadClock::time_point due, sent;  // when the trace wants the request; when the network got it
  int asked_tokens = 0;             // max_tokens
  AnswerRecord answer;
};

struct LoadRun {
  LoadClock::time_point start, end;
  std::vector<SentRequest> requests;  // in the order of their ends
  double client_cpu_seconds = 0;
  bool interrupted = false;
};

struct LoadRunOptions {
  int concurrency = 0;
  std::string authorization;
  bool keep_text = false;  // texts and pieces of answers; otherwise dropped as they end
  std::function<void(std::size_t done, std::size_t total)> on_progress;  // some ten times a second
  std::function<bool()> interrupted;                                     // asked as often
};

LoadRun run_load(HttpClient& client, LoadPlan& plan, const BodyOptions& body, const LoadRunOptions& options);

}  // namespace sluice
