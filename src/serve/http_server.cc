// The only file that sees the network library, which takes long to compile.
#define BOOST_ASIO_SEPARATE_COMPILATION
#define BOOST_BEAST_SEPARATE_COMPILATION

#include "serve/http_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <condition_variable>
#include <csignal>
#include <future>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "serve/api_error.h"
#include "serve/http_answer.h"
#include "serve/http_listen.h"

// Calls with an error_code to fill return it too.
// NOLINTBEGIN(bugprone-unused-return-value)

namespace sluice {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);  // failures come as values, not as exceptions
constexpr std::size_t kReadBytes = 16 << 10;
constexpr std::size_t kMaxPipelinedBytes = 1 << 20;  // read ahead while an answer is under way
constexpr auto kLingerTimeout = std::chrono::seconds(5);
constexpr std::size_t kMaxLingerBytes = 64 << 20;
constexpr int kClientLeft = 499;  // in summaries only, as other servers log it

class Session;

struct Answer : HttpAnswer {
  std::function<void()> gone;
  std::weak_ptr<Session> session;
};

// What the sessions of one server share. Used on the network thread, except `io` and what the mutex guards.
struct Shared {
  HttpServerOptions options;
  HttpHandler handler;
  std::function<void(const HttpSummary&)> observer;
  asio::io_context io{1};
  std::set<Session*> sessions;
  std::size_t bodies_bytes = 0;
  bool draining = false;

  std::mutex mutex;
  std::condition_variable quiet;
  int exchanges = 0;  // being read or answered
  bool hurry = false;

  void exchange_begins() {
    const std::lock_guard lock(mutex);
    ++exchanges;
  }
  void exchange_ends() {
    const std::lock_guard lock(mutex);
    if (--exchanges == 0) quiet.notify_all();
  }
};

// What to tell a client whose request could not be read; status 0: nothing, it left or
// was too slow (then the stream has closed the connection already).
ApiError protocol_error(error_code failure, const HttpServerOptions& options) {
  if (failure == http::error::header_limit) {
    return {431, fmt::format("the header exceeds {} bytes", options.max_header_bytes), "", ""};
  }
  if (failure == http::error::body_limit) {
    return {413, fmt::format("the body exceeds the limit of {} bytes", options.max_body_bytes), "", ""};
  }
  const bool left = failure == http::error::end_of_stream || failure == http::error::partial_message;
  if (left || failure.category() != make_error_code(http::error::bad_method).category()) return {0, "", "", ""};
  return {400, "malformed HTTP request: " + failure.message(), "", ""};
}

std::string header_of(const http::request<http::string_body>& message, http::field field) {
  const auto found = message.find(field);
  return found == message.end() ? std::string() : std::string(found->value());
}

// A target in absolute form names the host itself.
void read_target_and_header(const http::request<http::string_body>& message, HttpRequest& out) {
  std::string_view target(message.target().data(), message.target().size());
  out.host = header_of(message, http::field::host);
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!beast::iequals(target.substr(0, scheme.size()), scheme)) continue;
    target.remove_prefix(scheme.size());
    const std::size_t end = std::min(target.find_first_of("/?"), target.size());
    out.host = std::string(target.substr(0, end));
    target.remove_prefix(end);
    break;
  }
  out.path = std::string(target.substr(0, target.find('?')));
  if (out.path.empty()) out.path = "/";
  out.origin = header_of(message, http::field::origin);
  out.requested_headers = header_of(message, http::field::access_control_request_headers);
  out.is_preflight = message.find(http::field::access_control_request_method) != message.end();
  out.is_forwarded = message.find(http::field::forwarded) != message.end() ||
                     message.find(http::field::via) != message.end() || message.find("X-Real-IP") != message.end() ||
                     message.find("X-Forwarded-For") != message.end() ||
                     message.find("X-Forwarded-Host") != message.end();
}

// Reads requests and writes answers of one connection, until either side ends it.
// Arguments of coroutines are named variables: g++ 12 destroys braced temporaries in a co_await expression twice.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(std::shared_ptr<Shared> shared, tcp::socket socket)
      : shared_(std::move(shared)), stream_(std::move(socket)), wake_(shared_->io) {
    shared_->sessions.insert(this);
    error_code ignored;
    stream_.socket().set_option(tcp::no_delay(true), ignored);
    stream_.socket().set_option(tcp::socket::keep_alive(true), ignored);  // finds clients whose machine is gone
    stream_.socket().non_blocking(true, ignored);
    const auto peer = stream_.socket().remote_endpoint(ignored);
    if (!ignored) peer_ = fmt::format("{}:{}", peer.address().to_string(), peer.port());
  }
  ~Session() { shared_->sessions.erase(this); }

  bool idle() const { return answer_ == nullptr && !reading_body_; }
  void abort() {
    aborted_ = true;
    stream_.cancel();
    error_code ignored;
    stream_.socket().close(ignored);
    wake();
  }
  void wake() { wake_.cancel(); }

  static asio::awaitable<void> run(std::shared_ptr<Session> self) {
    while (!self->aborted_ && co_await self->serve_one()) {
    }
    error_code ignored;
    self->stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
  }

 private:
  using Parser = http::request_parser<http::string_body>;

  // One request and its answer; false when the connection ends.
  asio::awaitable<bool> serve_one() {
    Parser parser;
    parser.header_limit(static_cast<std::uint32_t>(shared_->options.max_header_bytes));
    parser.body_limit(shared_->options.max_body_bytes);
    parser.eager(true);
    if (!co_await read_header(parser)) co_return false;

    started_ = shared_->options.now();
    shared_->exchange_begins();
    reading_body_ = true;
    const std::size_t reserved = parser.content_length().value_or(shared_->options.max_body_bytes);
    const bool again = co_await read_body_and_answer(parser, reserved);
    reading_body_ = false;
    answer_.reset();
    shared_->exchange_ends();
    co_return again && !shared_->draining;
  }

  asio::awaitable<bool> read_header(Parser& parser) {
    if (buffer_.size() == 0) {
      stream_.expires_after(shared_->options.idle_timeout);
      const auto [failure, bytes] = co_await stream_.async_read_some(buffer_.prepare(kReadBytes), kAwait);
      if (failure) co_return false;
      buffer_.commit(bytes);
    }
    started_ = shared_->options.now();
    stream_.expires_after(shared_->options.header_timeout);
    const auto [failure, bytes] = co_await http::async_read_header(stream_, buffer_, parser, kAwait);
    if (!failure) co_return true;
    co_await refuse(failure, parser);
    co_return false;
  }

  asio::awaitable<bool> read_body_and_answer(Parser& parser, std::size_t reserved) {
    if (reserved > shared_->options.max_body_bytes) {
      co_await refuse(make_error_code(http::error::body_limit), parser);
      co_return false;
    }
    if (shared_->bodies_bytes + reserved > shared_->options.max_bodies_bytes) {
      const ApiError busy{503, "the server holds too many request bodies; try again", "", "unavailable"};
      co_await refuse_with(busy, parser);
      co_return false;
    }
    shared_->bodies_bytes += reserved;
    const bool whole = co_await read_body(parser);
    shared_->bodies_bytes -= reserved;
    if (!whole) co_return false;
    if (parser.get().version() >= 11 && parser.get().count(http::field::host) != 1) {
      const ApiError no_host{400, "malformed HTTP request: expected one header Host", "", ""};
      co_await refuse_with(no_host, parser);
      co_return false;
    }
    const std::size_t held = parser.get().body().size();
    shared_->bodies_bytes += held;
    const bool again = co_await answer(parser);
    shared_->bodies_bytes -= held;
    co_return again;
  }

  asio::awaitable<bool> read_body(Parser& parser) {
    stream_.expires_after(shared_->options.body_timeout);
    if (const auto expect = parser.get().find(http::field::expect); expect != parser.get().end() && !parser.is_done()) {
      if (!beast::iequals(expect->value(), "100-continue")) {
        const ApiError unknown{417, "the header Expect is understood as 100-continue only", "", ""};
        co_await refuse_with(unknown, parser);
        co_return false;
      }
      if (!co_await write_all(kContinue)) co_return false;
      stream_.expires_after(shared_->options.body_timeout);
    }
    const auto [failure, bytes] = co_await http::async_read(stream_, buffer_, parser, kAwait);
    if (!failure) co_return true;
    co_await refuse(failure, parser);
    co_return false;
  }

  asio::awaitable<bool> answer(Parser& parser);
  asio::awaitable<bool> write_answer(Answer& answer);

  asio::awaitable<bool> write_all(std::string_view bytes) {
    while (!bytes.empty()) {
      stream_.expires_after(shared_->options.write_timeout);
      const auto [failure, written] =
          co_await stream_.async_write_some(asio::buffer(bytes.data(), bytes.size()), kAwait);
      if (failure) co_return false;
      response_bytes_ += written;
      bytes.remove_prefix(written);
    }
    stream_.expires_never();
    co_return true;
  }

  // Answers a request that could not be read, where an answer makes sense, and ends the connection.
  asio::awaitable<void> refuse(error_code failure, Parser& parser) {
    const ApiError error = protocol_error(failure, shared_->options);
    if (error.status != 0) co_await refuse_with(error, parser);
  }

  asio::awaitable<void> refuse_with(const ApiError& error, Parser& parser) {
    const HttpResponse response = error_response(error);
    const std::string bytes = response_head(response, {false, false, response.body.size()}) + response.body;
    response_bytes_ = 0;
    const bool sent = co_await write_all(bytes);
    HttpSummary summary;
    if (parser.is_header_done()) {
      summary.method = std::string(parser.get().method_string());
      summary.path = std::string(parser.get().target());
    }
    report(std::move(summary), error.status, !sent);
    if (sent) co_await linger();
  }

  // Closing while the client still sends would reset the connection, and the client might never read the answer.
  asio::awaitable<void> linger() {
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    stream_.expires_after(kLingerTimeout);
    std::array<char, kReadBytes> sink;
    for (std::size_t total = 0; total < kMaxLingerBytes && !shared_->draining;) {
      const auto [failure, bytes] = co_await stream_.async_read_some(asio::buffer(sink), kAwait);
      if (failure) co_return;
      total += bytes;
    }
  }

  void watch_peer();
  void peer_is_readable();
  void watch_for_reset();
  void lose_peer();

  void report(HttpSummary summary, int status, bool disconnected) {
    summary.peer = peer_;
    summary.status = status != 0 ? status : kClientLeft;
    summary.response_bytes = response_bytes_;
    summary.seconds = std::chrono::duration<double>(shared_->options.now() - started_).count();
    summary.disconnected = disconnected;
    if (shared_->observer) shared_->observer(summary);
  }

  std::shared_ptr<Shared> shared_;
  beast::tcp_stream stream_;
  asio::steady_timer wake_;  // never expires; cancelling it wakes the coroutine that writes the answer
  beast::flat_buffer buffer_;
  std::string peer_;
  std::shared_ptr<Answer> answer_;
  Clock::time_point started_;
  std::size_t response_bytes_ = 0;
  bool aborted_ = false, reading_body_ = false, peer_gone_ = false, watching_ = false;
};

// The handle that the application holds. The network thread owns the answer; this posts to it.
class Exchange : public HttpExchange {
 public:
  Exchange(std::weak_ptr<Shared> shared, std::shared_ptr<Answer> answer)
      : shared_(std::move(shared)), answer_(std::move(answer)) {}
  ~Exchange() override {
    change([](Answer& answer) { answer.abandon(); });
  }

  HttpRequest& request() override { return answer_->request; }
  void respond(HttpResponse response) override {
    change([response = std::move(response)](Answer& answer) { answer.respond(response); });
  }
  void begin_stream(HttpResponse head) override {
    change([head = std::move(head)](Answer& answer) { answer.begin_stream(head); });
  }
  void write(std::string piece) override {
    change([piece = std::move(piece)](Answer& answer) { answer.write(piece); });
  }
  void finish() override {
    change([](Answer& answer) { answer.finish(); });
  }
  void post(std::function<void()> task) override {
    if (const auto shared = shared_.lock()) asio::post(shared->io, std::move(task));
  }
  void on_disconnect(std::function<void()> gone) override {
    change([gone = std::move(gone)](Answer& answer) {
      if (answer.session.expired()) {
        gone();
      } else if (!answer.finished) {
        answer.gone = gone;
      }
    });
  }

 private:
  template <class Change>
  void change(Change change) {
    const auto shared = shared_.lock();
    if (!shared) return;
    asio::post(shared->io, [answer = answer_, change = std::move(change)] {
      change(*answer);
      if (const auto session = answer->session.lock()) session->wake();
    });
  }

  std::weak_ptr<Shared> shared_;
  std::shared_ptr<Answer> answer_;
};

asio::awaitable<bool> Session::answer(Parser& parser) {
  auto& message = parser.get();
  answer_ = std::make_shared<Answer>();
  Answer& answer = *answer_;
  answer.session = weak_from_this();
  answer.keep_alive = message.keep_alive() && !shared_->draining;
  answer.chunked = message.version() >= 11;
  answer.head_only = message.method() == http::verb::head;
  answer.request.method = std::string(message.method_string());
  read_target_and_header(message, answer.request);
  answer.request.received = started_;
  answer.request.body = std::move(message.body());

  HttpSummary summary{answer.request.method, answer.request.path, {}, 0, answer.request.body.size(), 0, 0, false};
  response_bytes_ = 0;
  peer_gone_ = false;
  watch_peer();
  shared_->handler(std::make_shared<Exchange>(shared_, answer_));
  const bool complete = co_await write_answer(answer);

  watching_ = false;
  error_code ignored;
  if (stream_.socket().is_open()) stream_.socket().cancel(ignored);
  answer.session.reset();
  // Both closures may hold the exchange, which holds this answer.
  const auto gone = std::exchange(answer.gone, nullptr);
  report(std::move(summary), answer.status, !complete);
  if (!complete && gone) gone();
  co_return complete&& answer.keep_alive;
}

// True when the answer was written to its end.
asio::awaitable<bool> Session::write_answer(Answer& answer) {
  for (;;) {
    if (peer_gone_ || aborted_) co_return false;
    if (!answer.out.empty()) {
      const std::string bytes = std::exchange(answer.out, {});
      if (!co_await write_all(bytes)) co_return false;
    } else if (answer.finished) {
      co_return true;
    } else if (answer.broken) {
      co_return false;
    } else {
      wake_.expires_at(asio::steady_timer::time_point::max());
      co_await wake_.async_wait(kAwait);
    }
  }
}

// While an answer is under way nothing reads the connection; this notices that the client closed it or its half of it,
// and keeps what it sent ahead for later.
void Session::watch_peer() {
  watching_ = true;
  stream_.socket().async_wait(tcp::socket::wait_read, [self = shared_from_this()](error_code failure) {
    if (!failure && self->watching_) self->peer_is_readable();
  });
}

void Session::peer_is_readable() {
  error_code failure;
  const std::size_t bytes = stream_.socket().read_some(buffer_.prepare(kReadBytes), failure);
  buffer_.commit(bytes);
  if (failure == asio::error::would_block || failure == asio::error::try_again) failure = {};
  if (failure == asio::error::eof) {
    watch_for_reset();
    answer_->knock();
    wake();
  } else if (failure || buffer_.size() > kMaxPipelinedBytes) {
    lose_peer();
  } else {
    watch_peer();
  }
}

// Of a connection whose other half is closed: everything is readable then, and nothing but a reset is news.
void Session::watch_for_reset() {
  stream_.socket().async_wait(tcp::socket::wait_error, [self = shared_from_this()](error_code failure) {
    if (!failure && self->watching_) self->lose_peer();
  });
}

void Session::lose_peer() {
  peer_gone_ = true;
  stream_.cancel();  // ends a write that waits for the client
  wake();
}

// Tells a client that there is no room. It fits the socket's send buffer, so nothing waits.
void refuse_connection(tcp::socket socket) {
  const HttpResponse response = error_response({503, "too many connections; try again", "", "unavailable"});
  error_code ignored;
  socket.non_blocking(true, ignored);
  socket.write_some(asio::buffer(response_head(response, {false, false, response.body.size()}) + response.body),
                    ignored);
  socket.shutdown(tcp::socket::shutdown_both, ignored);
}

}  // namespace

class HttpServer::Impl : public std::enable_shared_from_this<HttpServer::Impl> {
 public:
  Impl() : shared(std::make_shared<Shared>()), signals(shared->io), work(shared->io.get_executor()) {}

  void run() {
    for (tcp::acceptor& acceptor : acceptors) asio::co_spawn(shared->io, accept_all(acceptor), asio::detached);
    thread = std::thread([this] { shared->io.run(); });
  }

  asio::awaitable<void> accept_all(tcp::acceptor& acceptor) {
    while (acceptor.is_open()) {
      auto [failure, socket] = co_await acceptor.async_accept(kAwait);
      if (failure) {
        // Out of file descriptors, or a client that left already: neither may end or spin the loop.
        asio::steady_timer pause(shared->io, std::chrono::milliseconds(50));
        if (acceptor.is_open()) co_await pause.async_wait(kAwait);
      } else if (static_cast<int>(shared->sessions.size()) >= shared->options.max_connections) {
        refuse_connection(std::move(socket));
      } else {
        auto session = std::make_shared<Session>(shared, std::move(socket));
        asio::co_spawn(shared->io, Session::run(std::move(session)), asio::detached);
      }
    }
  }

  void wait_for_signal(std::function<void(int)> callback) {
    signals.async_wait([this, callback = std::move(callback)](error_code failure, int signal) {
      if (failure) return;
      callback(signal);
      wait_for_signal(callback);
    });
  }

  void stop_accepting() {
    error_code ignored;
    for (tcp::acceptor& acceptor : acceptors) acceptor.close(ignored);
    shared->draining = true;
    for (Session* session : std::set<Session*>(shared->sessions)) {
      if (session->idle()) session->abort();
    }
  }

  void close_all() {
    stop_accepting();
    error_code ignored;
    signals.cancel(ignored);
    for (Session* session : std::set<Session*>(shared->sessions)) session->abort();
    work.reset();
  }

  std::shared_ptr<Shared> shared;
  std::vector<tcp::acceptor> acceptors;
  asio::signal_set signals;
  asio::executor_work_guard<asio::io_context::executor_type> work;
  std::thread thread;
  int port = 0;
  bool is_loopback = false;
};

HttpServer::HttpServer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() {
  close();
}

Result<std::unique_ptr<HttpServer>> HttpServer::start(const HttpServerOptions& options, HttpHandler handler,
                                                      std::function<void(const HttpSummary&)> observer) {
  auto impl = std::make_shared<Impl>();
  impl->shared->options = options;
  impl->shared->handler = std::move(handler);
  impl->shared->observer = std::move(observer);
  SLUICE_RETURN_IF_ERROR(listen(impl->shared->io, options, impl->acceptors));
  impl->port = impl->acceptors.front().local_endpoint().port();
  impl->is_loopback = std::ranges::all_of(
      impl->acceptors, [](const tcp::acceptor& a) { return a.local_endpoint().address().is_loopback(); });
  impl->run();
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

int HttpServer::port() const {
  return impl_->port;
}

bool HttpServer::is_loopback() const {
  return impl_->is_loopback;
}

void HttpServer::on_signal(std::function<void(int)> callback) {
  error_code ignored;
  impl_->signals.add(SIGTERM, ignored);
  impl_->signals.add(SIGINT, ignored);
  asio::post(impl_->shared->io, [impl = impl_.get(), callback = std::move(callback)]() mutable {
    impl->wait_for_signal(std::move(callback));
  });
}

bool HttpServer::drain(std::chrono::milliseconds drain_timeout) {
  if (!impl_->thread.joinable()) return true;
  std::promise<void> stopped;
  asio::post(impl_->shared->io, [&] {
    impl_->stop_accepting();
    stopped.set_value();
  });
  stopped.get_future().wait();
  std::unique_lock lock(impl_->shared->mutex);
  Shared& shared = *impl_->shared;
  shared.quiet.wait_for(lock, drain_timeout, [&] { return shared.exchanges == 0 || shared.hurry; });
  return shared.exchanges == 0;
}

void HttpServer::hurry() {
  const std::lock_guard lock(impl_->shared->mutex);
  impl_->shared->hurry = true;
  impl_->shared->quiet.notify_all();
}

void HttpServer::close() {
  if (!impl_->thread.joinable()) return;
  asio::post(impl_->shared->io, [impl = impl_.get()] { impl->close_all(); });
  impl_->thread.join();
}

}  // namespace sluice

// NOLINTEND(bugprone-unused-return-value)
