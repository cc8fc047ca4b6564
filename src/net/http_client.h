// HttpClient: many HTTP/1.1 requests at a time to one server, on one thread, with the time at which each piece of an
// answer came. Connections are kept and used again; a request whose kept connection turns out to be closed before a
// byte of an answer is sent once more on a new one.
//
//   HttpClient client(url, {.timeout_seconds = 600});
//   SLUICE_RETURN_IF_ERROR(client.resolve());
//   client.send({.path = "/v1/models"}, {.on_body = ..., .on_end = ...});
//   client.run();   // returns when nothing is under way and no timer is left
//
// Thread safety: one thread; the callbacks are called by run().
// Used by hub/hub_http.h, loadgen/answer_reader.h and loadgen/load_run.h.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/server_url.h"
#include "sluice/status.h"

namespace sluice {

using LoadClock = std::chrono::steady_clock;

struct HttpCall {
  std::string method = "GET", path;                               // after the URL's prefix
  std::string body = {};                                          // JSON, if not empty
  std::string authorization = {};                                 // "": none
  std::vector<std::pair<std::string, std::string>> headers = {};  // further ones; the caller checks their characters
};

// The head of an answer.
struct HttpHead {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> fields;

  // The value of the first field of this name, in whatever case; "" if there is none.
  std::string_view field(std::string_view name) const;
};

enum class CallEnd {
  kWhole,      // the answer came to its end
  kConnect,    // no connection
  kBroken,     // the connection ended before the answer did
  kMalformed,  // what came is not HTTP
  kTimeout,    // the time of the request was over
  kGivenUp,    // stop() ended the call
};

struct HttpEvents {
  std::function<void(int status, bool events)> on_head = {};  // events: text/event-stream
  std::function<void(const HttpHead& head)> on_fields = {};   // the same with every field, after on_head
  std::function<void(std::string_view bytes)> on_body = {};
  std::function<void(CallEnd end, const std::string& reason)> on_end = {};  // always, once, the last
};

struct HttpClientOptions {
  double timeout_seconds = 3600;  // time from sending to the end of the answer
  // For https: a file in PEM with the certificates to trust, "": those that the system trusts; or whether to trust all.
  std::string authorities = {};
  bool trust_all = false;
  std::string trust_advice = "--cacert FILE names whom to trust, --insecure trusts all";  // ends messages about TLS
  double idle_seconds = 0;  // the longest silence of the server; if above 0, it replaces timeout_seconds
  std::string agent = "sluice-bench";
  // A proxy that requests go through; with https it opens a tunnel (CONNECT) and sees only the server's name.
  std::optional<ServerUrl> proxy = {};
};

class HttpClient {
 public:
  HttpClient(ServerUrl url, HttpClientOptions options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Finds the server's addresses, and reads whom to trust; without it requests end with kConnect.
  Status resolve();
  void send(HttpCall call, HttpEvents events);
  void at(LoadClock::time_point time, std::function<void()> task);
  void run();
  // Ends everything that is under way, and run().
  void stop();

  struct Impl;

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace sluice
