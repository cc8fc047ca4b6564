// Server: an engine, a tokenizer and a chat encoding served over the OpenAI API.
// Used by cli/commands/serve_command.cc.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "serve/api/openai/openai_request.h"
#include "serve/guard/api_keys.h"
#include "serve/guard/key_limits.h"
#include "serve/guard/waiting.h"
#include "serve/http/http_server.h"
#include "sluice/engine.h"
#include "sluice/status.h"
#include "text/chat/chat.h"
#include "text/tokenizer/tokenizer.h"

namespace sluice {

struct ServerOptions {
  HttpServerOptions http;         // host, port, limits
  std::string served_model_name;  // the name that requests may give; never empty
  std::chrono::milliseconds drain_timeout{10'000};
  bool enable_debug_endpoints = false;  // /debug/* for other machines too; on a loopback address it is always there
  std::vector<std::string> cors_origins = {};  // origins whose pages may use the server (access.h)
  ApiKeys::Sources keys = {};                  // none: every client may use the server; read again at SIGHUP
  WaitingLimits waiting;
  KeyLimitOptions key_limits = {};
  double request_timeout_seconds = 0;      // for requests without X-Request-Timeout; 0: none
  double watchdog_seconds = 30;            // after which a step that does not end makes /health/live fail; 0: never
  std::string metrics_prefix = "sluice_";  // begins all names in /metrics
  std::string otlp_endpoint = {};          // where traces go; "": nowhere
  bool log_text = false;                   // prompts and answers in the log
  std::string version = {};                // the program's version
  // Further values that /server_info shows: names and values of flags; no secrets.
  std::vector<std::pair<std::string, std::string>> configuration = {};
  bool strict_fields = false;  // requests with unknown fields are refused
  int workers = 2;             // threads that parse and tokenise; large bodies have their own
  // The clock for the latencies in the metrics; called from any thread. Tests pass their own.
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
};

// The model that is served. All of it must outlive the server; `chat` may be null for a family without a chat encoding.
struct ServedModel {
  Engine& engine;
  const Tokenizer& tokenizer;
  const ChatEncoding* chat;
  SamplingDefaults defaults;
};

class Server {
 public:
  // Listens when it returns.
  static Result<std::unique_ptr<Server>> start(const ServedModel& model, const ServerOptions& options);
  ~Server();  // as stop(0 ms)

  int port() const;
  std::string url() const;  // "http://127.0.0.1:8000", or "unix:PATH"

  // Reads again what the options name files for.
  void reload();
  // `callback` runs on the network thread at every SIGTERM, SIGINT and SIGHUP.
  void on_signal(std::function<void(int signal)> callback);

  // Stops accepting, lets running requests finish for at most `drain_timeout`, cancels the rest and closes. True if
  // nothing had to be cancelled. A second call does nothing.
  bool stop(std::chrono::milliseconds drain_timeout);
  // Ends the wait of a stop() that another thread is in.
  void hurry();

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Serves until SIGTERM or SIGINT, then drains; a second signal ends the drain. Prints the URL and a curl line on
// stderr.
Status serve(const ServedModel& model, const ServerOptions& options);

}  // namespace sluice
