// HttpRequest, HttpResponse and HttpExchange: what a handler reads and answers, without a network library.
// Used by serve/api, serve/generate, serve/guard, serve/http and serve/observe.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "telemetry/served_request.h"

namespace sluice {

struct HttpRequest {
  std::string method;  // "GET", upper case as sent
  std::string path;    // without scheme, host, query, empty segments and a slash at its end; not percent-decoded
  std::string body;
  std::string host;               // the target's host, else the header Host; "": neither (HTTP/1.0)
  std::string origin;             // the header Origin, which browsers send
  std::string requested_headers;  // Access-Control-Request-Headers
  bool is_preflight = false;      // it has Access-Control-Request-Method
  bool is_forwarded = false;      // a header says that a proxy forwarded it
  std::string allow_origin;       // the origin whose pages may read the answer; "": none
  std::string ignored_fields;     // unknown body fields that were ignored, sent in X-Sluice-Ignored; "": none
  std::chrono::steady_clock::time_point received;                 // when its header was complete
  std::vector<std::pair<std::string, std::string>> headers = {};  // names in lower case, in the order sent

  // The values that the server sets.
  ServedRequest record = {};
  bool is_admin = false;                                               // it came with an admin's key
  std::optional<std::chrono::steady_clock::time_point> deadline = {};  // the answer is of no use later
  std::shared_ptr<void> ticket = {};     // holds its slot in the limits of requests until it is destroyed
  std::shared_ptr<void> body_room = {};  // holds the body's share of the limit on all decoded bodies

  // Returns the first header of this name (lower case), or "".
  std::string_view header(std::string_view name) const {
    for (const auto& [key, value] : headers) {
      if (key == name) return value;
    }
    return {};
  }
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::string allow;                         // the Allow header of a 405
  int retry_after = 0;                       // seconds, the Retry-After header of a 429 or 503; 0: none
  bool wants_key = false;                    // adds WWW-Authenticate, for a 401
  std::string allow_methods, allow_headers;  // Access-Control-Allow-...
  std::string headers;                       // further header lines, each with CRLF
  std::string filler;                        // text that a reader of the stream skips
  std::string error;                         // an error's message; `body` has it in OpenAI's JSON
  std::string limit = {};                    // ApiError::limit
};

// One request and its answer: either respond(), or begin_stream(), any number of write() and finish().
//
// Everything may be called from any thread, even long after the client has left (then it does nothing). Nothing blocks:
// what the client has not read yet is kept. A handle that is dropped before the answer is complete answers 500, or
// breaks the connection if a stream has begun.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  virtual HttpRequest& request() = 0;
  virtual void respond(HttpResponse response) = 0;
  virtual void begin_stream(HttpResponse head) = 0;  // `head.body` is the first piece
  virtual void write(std::string piece) = 0;
  virtual void finish() = 0;

  // Runs `task` on the network thread, in the order of the calls. Tasks must be short.
  virtual void post(std::function<void()> task) = 0;
  // `gone` runs on the network thread, once, if the connection ends before the answer is complete.
  virtual void on_disconnect(std::function<void()> gone) = 0;
  // `tell` runs on the network thread: with true when the client has left more of the answer unread than allowed, with
  // false when it has caught up.
  virtual void on_backlog(std::function<void(bool is_full)> tell) = 0;
  // `task` runs on the network thread after this time, unless the answer is complete by then. An exchange has one such
  // task: a second call replaces the first.
  virtual void after(std::chrono::nanoseconds time, std::function<void()> task) = 0;
};

using HttpExchangePtr = std::shared_ptr<HttpExchange>;
// Runs on the network thread and must return soon; it may keep the exchange and answer later.
using HttpHandler = std::function<void(HttpExchangePtr)>;

}  // namespace sluice
