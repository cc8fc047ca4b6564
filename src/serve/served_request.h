// ServedRequest: what one request was and used, for its line in the log, its trace and the metrics.
// Thread safety: belongs to one request; the thread that has the request at the time.
#pragma once

#include <chrono>
#include <string>

namespace sluice {

struct ServedRequest {
  std::string id;               // of X-Request-Id: the client's, else ours
  std::string key;              // the name of its API key; "" without keys
  std::string answer_id;        // "chatcmpl-...", of a generating request
  std::string finish_reason;    // of its last choice: "stop", ..., "abort", "error"; "" before
  std::string prompt, answers;  // their texts, for --log-text alone
  int prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;
  // From `received` on: memory for its first sequence, the first token, the last token. Unset: it never came so far.
  using Time = std::chrono::steady_clock::time_point;
  Time received{}, admitted{}, first_token{}, last_token{};
  std::string trace_id, parent_span;  // of the header traceparent, in hexadecimal digits; "" without one
  std::string span_id;                // ours below that one, with a trace
  bool sampled = true;                // whether the client wants it traced

  // As the headers traceparent and traceresponse say it; "" without a trace.
  std::string trace_context() const {
    return trace_id.empty() ? "" : "00-" + trace_id + "-" + span_id + (sampled ? "-01" : "-00");
  }
};

}  // namespace sluice
