// ServedRequest: the data of one request for its line in the log, its trace and the metrics. Thread safety: it belongs
// to the thread that has the request at the time.
// Used by serve/http/http.h and traces.h.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace sluice {

// The end of a generating request: each ends in one way, once.
enum class Fate {
  kNone,       // it has not ended, was refused before it began, or generates nothing
  kFinished,   // all of its answers ended by themselves: an end token, a stop string, a limit, a call of tools
  kLeft,       // its client closed the connection before that
  kLate,       // its time ran out before that
  kCancelled,  // the server put an end to it: a shutdown, other weights
  kFailed,     // an error of the engine, of the answer's constraint, or of writing it
};

// The finish reason of answers that had not ended by themselves.
constexpr std::string_view finish_reason_of(Fate fate) {
  return fate == Fate::kLate ? "deadline" : fate == Fate::kFailed ? "error" : "abort";
}

struct ServedRequest {
  std::string id;         // X-Request-Id: the client's, else ours
  std::string key;        // the name of its API key; "" without keys
  std::string answer_id;  // "chatcmpl-...", a generating request's
  Fate fate = Fate::kNone;
  std::string finish_reason;    // its last choice's: "stop", ..., "abort", "deadline", "error"; "" before
  std::string limit;            // the limit that refused it, or its deadline: ApiError::limit; "": none
  int error_status = 0;         // status of the error that ended it, also after a stream began with 200; 0: none
  std::string prompt, answers;  // their texts, for --log-text alone
  int prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;
  // The times of its arrival, memory for its first sequence, first token, last token, and end. Unset: not reached.
  using Time = std::chrono::steady_clock::time_point;
  Time received{}, admitted{}, first_token{}, last_token{}, ended{};
  std::string trace_id, parent_span;  // from the header traceparent, in hexadecimal digits; "" without one
  std::string span_id;                // ours below that one, with a trace
  bool sampled = true;                // the client wants it traced

  // The value of the headers traceparent and traceresponse; "" without a trace.
  std::string trace_context() const {
    return trace_id.empty() ? "" : "00-" + trace_id + "-" + span_id + (sampled ? "-01" : "-00");
  }
};

// The result of one exchange, for logs and metrics.
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
