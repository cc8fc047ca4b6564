// ServedRequest: what one request was and used, for its line in the log, its trace and the metrics.
// Thread safety: belongs to one request; the thread that has the request at the time.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace sluice {

// How a generating request ended: each in one way, once.
enum class Fate {
  kNone,       // it has not ended, was refused before it began, or generates nothing
  kFinished,   // all of its answers ended by themselves: an end token, a stop string, a limit, a call of tools
  kLeft,       // its client closed the connection before that
  kLate,       // its time ran out before that
  kCancelled,  // the server put an end to it: a shutdown, other weights
  kFailed,     // an error of the engine, of what binds the answer, of writing it
};

// How its answers count that had not ended by themselves.
constexpr std::string_view finish_reason_of(Fate fate) {
  return fate == Fate::kLate ? "deadline" : fate == Fate::kFailed ? "error" : "abort";
}

struct ServedRequest {
  std::string id;         // of X-Request-Id: the client's, else ours
  std::string key;        // the name of its API key; "" without keys
  std::string answer_id;  // "chatcmpl-...", of a generating request
  Fate fate = Fate::kNone;
  std::string finish_reason;    // of its last choice: "stop", ..., "abort", "deadline", "error"; "" before
  std::string limit;            // that refused it, or its deadline: ApiError::limit; "": none
  int error_status = 0;         // of the error that ended it, also where a stream had begun with 200; 0: none
  std::string prompt, answers;  // their texts, for --log-text alone
  int prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;
  // From `received` on: memory for its first sequence, the first token, the last token, its end. Unset: it never came
  // so far.
  using Time = std::chrono::steady_clock::time_point;
  Time received{}, admitted{}, first_token{}, last_token{}, ended{};
  std::string trace_id, parent_span;  // of the header traceparent, in hexadecimal digits; "" without one
  std::string span_id;                // ours below that one, with a trace
  bool sampled = true;                // whether the client wants it traced

  // As the headers traceparent and traceresponse say it; "" without a trace.
  std::string trace_context() const {
    return trace_id.empty() ? "" : "00-" + trace_id + "-" + span_id + (sampled ? "-01" : "-00");
  }
};

// What became of one exchange, for logs and metrics.
struct HttpSummary {
  std::string method;  // empty when the request could not be read
  std::string path;
  std::string peer;
  int status = 0;  // 499: the client left before there was any answer
  std::size_t request_bytes = 0, response_bytes = 0;
  double seconds = 0;         // from the end of the header to the end of the answer
  bool disconnected = false;  // the client left before the answer was complete
  ServedRequest record = {};
};

}  // namespace sluice
