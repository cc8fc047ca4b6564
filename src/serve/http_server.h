// HttpServer: HTTP/1.1 on one network thread.
//
// Connections are kept alive; pipelined requests are answered in order. What clients may cost is bounded: bytes of a
// header and of a body, of all bodies together, connections, and the time that a header, a body or a stalled answer may
// take. Protocol errors are answered in the API's JSON form (400, 413, 417, 431, 503); clients that are too slow are
// cut off.
//
// Only http_server.cc sees the network library. Thread safety: every method may be called from any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "serve/http.h"
#include "sluice/status.h"

namespace sluice {

struct HttpServerOptions {
  std::string host = "127.0.0.1";  // an address, or a name, with all of its addresses
  int port = 8000;                 // 0: any free one

  std::size_t max_header_bytes = 64 << 10;
  std::size_t max_body_bytes = 16 << 20;
  std::size_t max_bodies_bytes = 512 << 20;  // of all requests that are being read or answered
  int max_connections = 1024;
  std::chrono::milliseconds idle_timeout{75'000};    // between two requests of a connection
  std::chrono::milliseconds header_timeout{10'000};  // from a header's first byte to its last
  std::chrono::milliseconds body_timeout{120'000};   // for the whole body
  std::chrono::milliseconds write_timeout{60'000};   // without the client taking a byte
  // The clock for timing requests; called on the network thread.
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
};

class HttpServer {
 public:
  // Listens when it returns. `handler` gets every well-formed request, `observer` the summary of every exchange; both
  // run on the network thread. An address in use, or one that is not this machine's, is an error that says so.
  static Result<std::unique_ptr<HttpServer>> start(const HttpServerOptions& options, HttpHandler handler,
                                                   std::function<void(const HttpSummary&)> observer);
  ~HttpServer();  // as stop(0)

  int port() const;  // the actual one
  // Whether only programs of this machine can reach the addresses that it listens on.
  bool is_loopback() const;

  // Calls `callback` on the network thread at every SIGTERM and SIGINT from now on, instead of ending the process.
  void on_signal(std::function<void(int signal)> callback);

  // Stops accepting, closes idle connections and waits until every exchange is answered, or for `drain_timeout` at
  // most; true when all were. Exchanges that are left are cut by close().
  bool drain(std::chrono::milliseconds drain_timeout);
  // Ends the wait of a drain() that another thread is in.
  void hurry();
  // Closes every connection (each on_disconnect runs) and ends the network thread. Idempotent.
  void close();

 private:
  class Impl;
  explicit HttpServer(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace sluice
