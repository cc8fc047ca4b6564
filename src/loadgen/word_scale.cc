// Used by cli/bench/bench_serve_command.cc.
#include "loadgen/word_scale.h"

#include <fmt/format.h>

#include <algorithm>

namespace sluice {

Result<WordScale> measure_word_scale(HttpClient& client, const BodyOptions& body, LoadRunOptions options) {
  constexpr int kShort = 32, kLong = 288;
  Trace trace;
  trace.requests = {plain_request(0, kShort, 1), plain_request(0, kLong, 1)};
  LoadPlan plan = plan_of_trace(trace, body.endpoint, {.base = 0, .per_word = 1}, 0);  // prompts of this many words
  options.concurrency = 1;
  const LoadRun run = run_load(client, plan, body, options);
  if (run.interrupted) return Status(StatusCode::kCancelled, "interrupted");
  double tokens[2] = {0, 0};
  for (const SentRequest& sent : run.requests) {
    const AnswerRecord& answer = sent.answer;
    // One token may be the end of a character or of a word that is not yet shown.
    if (answer.failure != Failure::kNone && answer.failure != Failure::kNoTokens)
      return unavailable(fmt::format("the server does not answer a first request: {}: {}", failure_name(answer.failure),
                                     answer.reason));
    if (answer.prompt_tokens < 0)
      return unavailable("the server tells no usage, so the length of prompts cannot be chosen");
    tokens[sent.request] = answer.prompt_tokens;
  }
  WordScale scale;
  scale.per_word = std::max(0.1, (tokens[1] - tokens[0]) / (kLong - kShort));
  scale.base = std::max(0.0, tokens[0] - kShort * scale.per_word);
  return scale;
}

}  // namespace sluice
