#include "serve/server.h"

#include <fmt/format.h>

#include <condition_variable>
#include <cstdio>
#include <ctime>
#include <future>
#include <mutex>
#include <utility>

#include "base/log.h"
#include "serve/access.h"
#include "serve/answer_constraint.h"
#include "serve/api_context.h"
#include "serve/endpoints.h"
#include "serve/health.h"
#include "serve/router.h"

namespace sluice {
namespace {

// Cancelled requests end within a step of the engine; their clients are told so.
constexpr std::chrono::milliseconds kCancelTimeout{2000};

using Endpoint = void (*)(ApiContext&, const HttpExchangePtr&);

}  // namespace

class Server::Impl {
 public:
  Impl(const ServedModel& model, const ServerOptions& options)
      : options_(options),
        context_{model.engine,
                 model.tokenizer,
                 model.chat,
                 MessageStarts(model.tokenizer, model.chat),
                 {model.defaults, options.strict_fields},
                 options.served_model_name,
                 static_cast<std::int64_t>(std::time(nullptr)),
                 ServerMetrics(model.engine),
                 options.now,
                 {},
                 GrammarCache(trie_maker(model.engine, model.tokenizer)),
                 std::make_shared<Waiting>(options.waiting),
                 true,
                 options.enable_debug_endpoints,
                 TaskQueue(1),
                 TaskQueue(options.workers)},
        access_(options.http.host, options.cors_origins),
        health_(model.engine) {
    add("POST", "/v1/chat/completions", chat_completions);
    add("POST", "/v1/completions", completions);
    add("GET", "/v1/models", list_models);
    add("GET", "/v1/models/*", show_model);
    add("GET", "/metrics", show_metrics);
    add("GET", "/openapi.json", show_openapi);
    add("GET", "/", show_index);
    add("GET", "/debug/cache", show_cache);
    add("POST", "/debug/cache/reset", reset_cache);
    router_.add("GET", "/health", [this](const HttpExchangePtr& exchange) { health_.answer(exchange); });
  }

  Status start() {
    HttpServerOptions http = options_.http;
    http.now = options_.now;
    SLUICE_ASSIGN_OR_RETURN(http_, HttpServer::start(
                                       http, [this](const HttpExchangePtr& exchange) { answer(exchange); },
                                       [this](const HttpSummary& summary) { observe(summary); }));
    is_loopback_.set_value(http_->is_loopback());
    return {};
  }

  bool stop(std::chrono::milliseconds drain_timeout) {
    if (stopped_) return true;
    stopped_ = true;
    const bool drained = http_->drain(drain_timeout);
    if (!drained) log_warning("requests were still running after the drain timeout and are cancelled");
    context_.jobs.cancel_all();
    if (!drained) http_->drain(kCancelTimeout);
    http_->close();
    return drained;
  }

  HttpServer& http() { return *http_; }
  const ServerOptions& options() const { return options_; }

 private:
  // Requests may come before start() knows on what it listens.
  void answer(const HttpExchangePtr& exchange) {
    if (!knows_address_) {
      const bool is_loopback = is_loopback_.get_future().get();
      access_.set_loopback(is_loopback);
      context_.is_loopback = is_loopback;
      knows_address_ = true;
    }
    if (const auto error = access_.check(exchange->request())) return exchange->respond(error_response(*error));
    if (Access::is_preflight(exchange->request())) {
      return exchange->respond(Access::preflight_answer(exchange->request()));
    }
    router_.route(exchange);
  }

  void add(const char* method, const char* path, Endpoint endpoint) {
    router_.add(method, path, [this, endpoint](const HttpExchangePtr& exchange) { endpoint(context_, exchange); });
  }

  void observe(const HttpSummary& summary) {
    const std::string_view route = router_.route_of(summary.path);
    context_.metrics.on_exchange(summary, route);
    // Health checks and scrapers come every few seconds.
    const bool routine = summary.status == 200 && (route == "/health" || route == "/metrics");
    log_at(routine ? LogLevel::kDebug : LogLevel::kInfo, "{} {} {} {} {:.3f} s, {} bytes in, {} out{}", summary.peer,
           summary.method.empty() ? "-" : summary.method, summary.path.empty() ? "-" : summary.path, summary.status,
           summary.seconds, summary.request_bytes, summary.response_bytes, summary.disconnected ? ", client left" : "");
  }

  const ServerOptions options_;
  ApiContext context_;
  Access access_;
  HealthCheck health_;
  Router router_;
  std::promise<bool> is_loopback_;
  bool knows_address_ = false;  // the network thread's
  bool stopped_ = false;
  std::unique_ptr<HttpServer> http_;  // last: its thread uses all of the above
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() {
  impl_->stop(std::chrono::milliseconds(0));
}

Result<std::unique_ptr<Server>> Server::start(const ServedModel& model, const ServerOptions& options) {
  auto impl = std::make_unique<Impl>(model, options);
  SLUICE_RETURN_IF_ERROR(impl->start());
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

int Server::port() const {
  return impl_->http().port();
}

std::string Server::url() const {
  const std::string& host = impl_->options().http.host;
  const bool is_v6 = host.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}", is_v6 ? "[" : "", host, is_v6 ? "]" : "", port());
}

void Server::on_signal(std::function<void(int)> callback) {
  impl_->http().on_signal(std::move(callback));
}

bool Server::stop(std::chrono::milliseconds drain_timeout) {
  return impl_->stop(drain_timeout);
}

void Server::hurry() {
  impl_->http().hurry();
}

namespace {

void print_welcome(const Server& server, const ServedModel& model, const ServerOptions& options) {
  const std::string_view path = model.chat != nullptr ? "chat/completions" : "completions";
  const std::string_view body = model.chat != nullptr
                                    ? R"({"messages": [{"role": "user", "content": "What is 17 + 25?"}]})"
                                    : R"({"prompt": "Once upon a time", "max_tokens": 32})";
  fmt::print(stderr, "Serving {} on {}\nTry:\n  curl {}/v1/{} -H 'Content-Type: application/json' \\\n    -d '{}'\n",
             options.served_model_name, server.url(), server.url(), path, body);
  std::fflush(stderr);
}

}  // namespace

Status serve(const ServedModel& model, const ServerOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<Server> server, Server::start(model, options));
  std::mutex mutex;
  std::condition_variable signalled;
  int signals = 0;
  server->on_signal([&](int) {
    const std::lock_guard lock(mutex);
    if (++signals > 1) server->hurry();
    signalled.notify_all();
  });
  print_welcome(*server, model, options);
  {
    std::unique_lock lock(mutex);
    signalled.wait(lock, [&] { return signals > 0; });
  }
  log_info("stopping: running requests have {} ms to finish", options.drain_timeout.count());
  server->stop(options.drain_timeout);
  log_info("stopped");
  return {};
}

}  // namespace sluice
