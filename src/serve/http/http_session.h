// The connections of a server and the threads that they live on, for http_server.cc alone, which sees the network
// library.
// Used by http_exchange.h and http_server.cc.
#pragma once

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "base/threads/mutex.h"
#include "serve/api/api_error.h"
#include "serve/http/http_answer.h"
#include "serve/http/http_server.h"
#include "serve/http/http_socket.h"

namespace sluice {

class HttpSession;

// The state that all threads of a server share.
struct HttpShared {
  HttpServerOptions options;
  HttpHandler handler;
  std::function<void(const HttpSummary&)> observer;
  std::atomic<std::shared_ptr<const TlsConfig>> tls;  // null: plain
  std::atomic<std::size_t> bodies_bytes{0};
  std::atomic<int> connections{0};
  std::atomic<std::uint64_t> refused_connections{0}, refused_bodies{0}, cut_unread{0};
  std::atomic<bool> draining{false};

  Mutex mutex;
  Condition quiet;
  int exchanges SLUICE_GUARDED_BY(mutex) = 0;  // being read or answered
  bool hurry SLUICE_GUARDED_BY(mutex) = false;

  void exchange_begins() {
    const MutexLock lock(mutex);
    ++exchanges;
  }
  void exchange_ends() {
    const MutexLock lock(mutex);
    if (--exchanges == 0) quiet.notify_all();
  }
};

// A thread and its connections.
struct HttpLoop {
  explicit HttpLoop(std::shared_ptr<HttpShared> server) : shared(std::move(server)), work(io.get_executor()) {}

  const std::shared_ptr<HttpShared> shared;
  boost::asio::io_context io{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work;
  std::set<HttpSession*> sessions;  // its own thread's
  std::thread thread;

  bool is_current() { return io.get_executor().running_in_this_thread(); }
};

struct HttpLiveAnswer : HttpAnswer {
  std::unique_ptr<boost::asio::steady_timer> timer;  // the timer of after()
  std::function<void()> gone;
  std::function<void(bool)> backlog;
  std::weak_ptr<HttpSession> session;
  std::atomic<int> changes{0};  // posted to the loop and not yet made
};

// Reads requests and writes answers of one connection, until either side ends it. Its loop's thread.
// Arguments of coroutines are named variables: g++ 12 destroys braced temporaries in a co_await expression twice.
class HttpSession : public std::enable_shared_from_this<HttpSession> {
 public:
  HttpSession(std::shared_ptr<HttpLoop> loop, HttpSocket::Stream stream, std::string peer);
  ~HttpSession();

  static boost::asio::awaitable<void> run(std::shared_ptr<HttpSession> self);

  bool idle() const { return answer_ == nullptr && !reading_body_; }
  void abort();
  // The answer has changed: sends what it can at once.
  void changed();

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  using Failure = HttpSocket::Failure;

  boost::asio::awaitable<bool> serve_one();
  boost::asio::awaitable<bool> read_header(Parser& parser);
  boost::asio::awaitable<bool> read_body_and_answer(Parser& parser, std::size_t reserved);
  boost::asio::awaitable<bool> read_body(Parser& parser);
  Failure parse(Parser& parser);
  boost::asio::awaitable<bool> answer(Parser& parser);
  boost::asio::awaitable<bool> write_answer(HttpLiveAnswer& answer);
  boost::asio::awaitable<void> refuse(Failure failure, Parser& parser);
  boost::asio::awaitable<void> refuse_with(const ApiError& error, Parser& parser);
  boost::asio::awaitable<void> linger();
  std::optional<ApiError> check_header(Parser& parser, HttpRequest& request) const;
  void watch_peer();
  void peer_is_readable();
  void watch_for_reset();
  void lose_peer();
  void wake() { wake_.cancel(); }
  void watch_unread();
  void report(HttpSummary summary, int status, bool disconnected);
  const HttpServerOptions& options() const { return loop_->shared->options; }

  const std::shared_ptr<HttpLoop> loop_;
  HttpSocket socket_;
  boost::asio::steady_timer wake_;  // never expires; cancelling it wakes the coroutine that writes the answer
  boost::beast::flat_buffer buffer_;
  const std::string peer_;
  std::shared_ptr<HttpLiveAnswer> answer_;
  std::chrono::steady_clock::time_point started_;
  std::chrono::steady_clock::time_point unread_since_{};  // when max_unread_bytes were passed; unset: caught up
  bool aborted_ = false, reading_body_ = false, peer_gone_ = false, watching_ = false;
  bool blocked_ = false;  // the coroutine waits for room to write
  bool began_ = false;    // something has come
};

}  // namespace sluice
