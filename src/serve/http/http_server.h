// HttpServer: HTTP/1.1, plain or in TLS, on one network thread or several; a connection stays on its thread.
//
// Connections are kept alive; pipelined requests are answered in order. The costs that clients may cause are bounded:
// bytes of a header, of a body and of all bodies together, and connections. The time that a header, a body or a stalled
// answer may take is bounded, too. Protocol errors are answered in the API's JSON form (400, 413, 417, 431, 503);
// clients that are too slow are cut off.
//
// Only http_*.cc see the network library. Thread safety: every method may be called from any thread.
// Used by serve, serve/http and serve/observe.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/api/api_error.h"
#include "serve/http/http.h"
#include "sluice/status.h"

namespace sluice {

struct HttpServerOptions {
  // Each an address, a name with all of its addresses, or unix:PATH.
  std::vector<std::string> hosts = {"127.0.0.1"};
  int port = 8000;                                 // 0: any free one
  std::string tls_certificate = {}, tls_key = {};  // files in PEM, the certificate's with its chain; "": plain HTTP
  int network_threads = 1;

  std::size_t max_header_bytes = 64 << 10;
  std::size_t max_body_bytes = 16 << 20;
  std::size_t max_bodies_bytes = 512 << 20;  // the sum over requests that are being read or answered
  int max_connections = 1024;
  std::chrono::milliseconds idle_timeout{75'000};    // between two requests of a connection
  std::chrono::milliseconds header_timeout{10'000};  // from a header's first byte to its last
  std::chrono::milliseconds body_timeout{120'000};   // for the whole body
  std::chrono::milliseconds write_timeout{60'000};   // without the client taking a byte, or too far behind
  // The most unread bytes of an answer, including those that the system keeps, which are half of it at most. Beyond
  // that the client is too far behind, and its exchange is notified, until half of it is left.
  std::size_t max_unread_bytes = 1 << 20;
  // Whether the header alone refuses a request; sets HttpRequest::allow_origin. It is asked before the body is read
  // where the client waits for that (Expect), and for the answer to what cannot be read. Called on the network thread.
  std::function<std::optional<ApiError>(HttpRequest&)> check_header = nullptr;
  // The clock for timing requests; called on the network thread.
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
};

class HttpServer {
 public:
  // Listens when it returns. `handler` gets every well-formed request, `observer` the summary of every exchange; both
  // run on the connection's network thread. An address in use, or one that is not this machine's, is an error that says
  // so.
  static Result<std::unique_ptr<HttpServer>> start(const HttpServerOptions& options, HttpHandler handler,
                                                   std::function<void(const HttpSummary&)> observer);
  // Checks what start() would say of the addresses and the certificate, before there is anything to serve.
  static Status check(const HttpServerOptions& options);
  ~HttpServer();  // as stop(0)

  int port() const;  // the actual one
  // Returns whether only programs of this machine can reach the addresses that it listens on.
  bool is_loopback() const;

  // Reads the certificate again, for connections that begin later. An error leaves the old one.
  Status reload();

  struct Counts {
    int connections = 0;
    std::size_t bodies_bytes = 0;  // bytes of requests that are being read or answered
    std::uint64_t refused_connections = 0, refused_bodies = 0;
    std::uint64_t cut_unread = 0;  // connections whose clients did not catch up
  };
  Counts counts() const;

  // Calls `callback` on the network thread at every SIGTERM, SIGINT and SIGHUP from now on, instead of ending the
  // process.
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
