// This and its http_*.cc are all that sees the network library, which takes long to compile.
// Used by serve, serve/http and serve/observe.
#define BOOST_ASIO_SEPARATE_COMPILATION
#define BOOST_BEAST_SEPARATE_COMPILATION

#include "serve/http/http_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <exception>
#include <future>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/threads/mutex.h"
#include "serve/http/http_listen.h"
#include "serve/http/http_session.h"

// Calls with an error_code to fill return it too.
// NOLINTBEGIN(bugprone-unused-return-value)

namespace sluice {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// Tells a client that there is no room. It fits the socket's send buffer, so nothing waits.
void refuse_connection(HttpSocket::Stream socket, bool is_tls) {
  error_code ignored;
  if (!is_tls) {
    const HttpResponse response = error_response({503, "too many connections; try again", "", "unavailable"});
    const HttpFraming framing{.keep_alive = false, .content_length = response.body.size()};
    socket.non_blocking(true, ignored);
    socket.write_some(asio::buffer(response_head(response, framing) + response.body), ignored);
  }
  socket.shutdown(HttpSocket::Stream::shutdown_both, ignored);
}

std::string peer_of(const asio::ip::tcp::socket& socket) {
  error_code failure;
  const auto peer = socket.remote_endpoint(failure);
  return failure ? "" : fmt::format("{}:{}", peer.address().to_string(), peer.port());
}
std::string peer_of(const asio::local::stream_protocol::socket& /*socket*/) {
  return "unix";
}

}  // namespace

class HttpServer::Impl {
 public:
  explicit Impl(const HttpServerOptions& options) : shared(std::make_shared<HttpShared>()) {
    shared->options = options;
    for (int i = 0; i < std::max(1, options.network_threads); ++i) loops.push_back(std::make_shared<HttpLoop>(shared));
    signals = std::make_unique<asio::signal_set>(first().io);
  }

  HttpLoop& first() { return *loops.front(); }

  Status load_tls() {
    const HttpServerOptions& options = shared->options;
    if (options.tls_certificate.empty()) return {};
    SLUICE_ASSIGN_OR_RETURN(auto tls, TlsConfig::load(options.tls_certificate, options.tls_key));
    shared->tls = std::move(tls);
    return {};
  }

  void run() {
    for (auto& acceptor : listeners.tcp) asio::co_spawn(first().io, accept_all(acceptor), asio::detached);
    for (auto& acceptor : listeners.local) asio::co_spawn(first().io, accept_all(acceptor), asio::detached);
    for (const auto& loop : loops) loop->thread = std::thread([&io = loop->io] { run_loop(io); });
  }

  // An exception from a handler ends what the handler was doing, and nothing else.
  static void run_loop(asio::io_context& io) {
    for (;;) {
      try {
        io.run();
        return;
      } catch (const std::exception& failure) {
        log_error("the network thread: {}", failure.what());
      }
    }
  }

  template <class Acceptor>
  asio::awaitable<void> accept_all(Acceptor& acceptor) {
    while (acceptor.is_open()) {
      const std::shared_ptr<HttpLoop> loop = loops[next_loop++ % loops.size()];
      const asio::any_io_executor executor = loop->io.get_executor();
      auto [failure, socket] = co_await acceptor.async_accept(executor, HttpSocket::kAwait);
      if (failure) {
        // Out of file descriptors, or a client that left already: neither may end or spin the loop.
        asio::steady_timer pause(first().io, std::chrono::milliseconds(50));
        if (acceptor.is_open()) co_await pause.async_wait(HttpSocket::kAwait);
        continue;
      }
      const std::string peer = peer_of(socket);
      HttpSocket::Stream stream(std::move(socket));
      if (shared->connections >= shared->options.max_connections) {
        ++shared->refused_connections;
        refuse_connection(std::move(stream), shared->tls.load() != nullptr);
      } else {
        asio::dispatch(loop->io, [loop, peer, moved = std::move(stream)]() mutable {
          if (loop->shared->draining) return;  // the connection came while the others were closed
          auto session = std::make_shared<HttpSession>(loop, std::move(moved), peer);
          asio::co_spawn(loop->io, HttpSession::run(std::move(session)), asio::detached);
        });
      }
    }
  }

  void wait_for_signal(std::function<void(int)> callback) {
    signals->async_wait([this, callback = std::move(callback)](error_code failure, int signal) {
      if (failure) return;
      callback(signal);
      wait_for_signal(callback);
    });
  }

  // `task` with each loop, on its thread; returns when all are done.
  void on_every_loop(const std::function<void(HttpLoop&)>& task) {
    for (const auto& loop : loops) {
      std::promise<void> done;
      asio::post(loop->io, [&] {
        task(*loop);
        done.set_value();
      });
      done.get_future().wait();
    }
  }

  void stop_accepting() {
    on_every_loop([this](HttpLoop& loop) {
      if (&loop == loops.front().get()) listeners.close();
      shared->draining = true;
      for (HttpSession* session : std::set<HttpSession*>(loop.sessions)) {
        if (session->idle()) session->abort();
      }
    });
  }

  void close_all() {
    stop_accepting();
    on_every_loop([this](HttpLoop& loop) {
      error_code ignored;
      if (&loop == loops.front().get()) signals->cancel(ignored);
      for (HttpSession* session : std::set<HttpSession*>(loop.sessions)) session->abort();
    });
    for (const auto& loop : loops) {
      loop->work.reset();
      loop->thread.join();
    }
  }

  std::shared_ptr<HttpShared> shared;
  std::vector<std::shared_ptr<HttpLoop>> loops;  // the first loop accepts connections
  std::size_t next_loop = 0;
  HttpListeners listeners;
  std::unique_ptr<asio::signal_set> signals;
  int port = 0;
  bool is_loopback = false, running = false;
};

HttpServer::HttpServer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() {
  close();
}

Result<std::unique_ptr<HttpServer>> HttpServer::start(const HttpServerOptions& options, HttpHandler handler,
                                                      std::function<void(const HttpSummary&)> observer) {
  auto impl = std::make_shared<Impl>(options);
  impl->shared->handler = std::move(handler);
  impl->shared->observer = std::move(observer);
  SLUICE_RETURN_IF_ERROR(impl->load_tls());
  SLUICE_RETURN_IF_ERROR(listen(impl->first().io, options, /*only_bind=*/false, impl->listeners));
  impl->port = impl->listeners.port();
  impl->is_loopback = impl->listeners.is_loopback();
  impl->running = true;
  impl->run();
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

Status HttpServer::check(const HttpServerOptions& options) {
  if (!options.tls_certificate.empty()) {
    SLUICE_RETURN_IF_ERROR(TlsConfig::load(options.tls_certificate, options.tls_key).status());
  }
  asio::io_context io;
  HttpListeners listeners;
  const Status found = listen(io, options, /*only_bind=*/true, listeners);
  listeners.close();
  return found;
}

int HttpServer::port() const {
  return impl_->port;
}

bool HttpServer::is_loopback() const {
  return impl_->is_loopback;
}

Status HttpServer::reload() {
  return impl_->load_tls();
}

HttpServer::Counts HttpServer::counts() const {
  const HttpShared& shared = *impl_->shared;
  return {shared.connections, shared.bodies_bytes, shared.refused_connections, shared.refused_bodies,
          shared.cut_unread};
}

void HttpServer::on_signal(std::function<void(int)> callback) {
  error_code ignored;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) impl_->signals->add(signal, ignored);
  asio::post(impl_->first().io, [impl = impl_.get(), callback = std::move(callback)]() mutable {
    impl->wait_for_signal(std::move(callback));
  });
}

bool HttpServer::drain(std::chrono::milliseconds drain_timeout) {
  if (!impl_->running) return true;
  impl_->stop_accepting();
  HttpShared& shared = *impl_->shared;
  MutexLock lock(shared.mutex);
  shared.quiet.wait_for(lock, drain_timeout,
                        [&]() SLUICE_REQUIRES(shared.mutex) { return shared.exchanges == 0 || shared.hurry; });
  return shared.exchanges == 0;
}

void HttpServer::hurry() {
  const MutexLock lock(impl_->shared->mutex);
  impl_->shared->hurry = true;
  impl_->shared->quiet.notify_all();
}

void HttpServer::close() {
  if (!std::exchange(impl_->running, false)) return;
  impl_->close_all();
}

}  // namespace sluice

// NOLINTEND(bugprone-unused-return-value)
