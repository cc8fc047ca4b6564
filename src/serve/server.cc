// Used by cli/commands/serve_command.cc.
#include "serve/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <future>
#include <utility>

#include "base/log.h"
#include "base/threads/mutex.h"
#include "base/utf8.h"
#include "files/json.h"
#include "serve/api/api_context.h"
#include "serve/api/endpoints.h"
#include "serve/generate/answer_constraint.h"
#include "serve/generate/tool_constraint.h"
#include "serve/guard/access.h"
#include "serve/guard/request_admission.h"
#include "serve/guard/watchdog.h"
#include "serve/http/content_coding.h"
#include "serve/http/http_router.h"
#include "serve/observe/health.h"
#include "serve/observe/request_log.h"
#include "telemetry/traces.h"

namespace sluice {
namespace {

// Cancelled requests end within a step of the engine; their clients get an answer that says so.
constexpr std::chrono::milliseconds kCancelTimeout{2000};

// Clients read the name in answers and give it back in requests, and both are UTF-8.
ServerOptions with_valid_name(ServerOptions options) {
  options.served_model_name = to_valid_utf8(options.served_model_name);
  return options;
}

using Endpoint = void (*)(ApiContext&, const HttpExchangePtr&);

}  // namespace

class Server::Impl {
 public:
  Impl(const ServedModel& model, const ServerOptions& options)
      : options_(with_valid_name(options)),
        context_{model.engine,
                 model.tokenizer,
                 model.chat,
                 MessageStarts(model.tokenizer, model.chat),
                 {model.defaults, options.strict_fields},
                 options_.served_model_name,
                 static_cast<std::int64_t>(std::time(nullptr)),
                 ServerMetrics(model.engine),
                 options.now,
                 {},
                 GrammarCache(trie_maker(model.engine, model.tokenizer)),
                 GrammarCache(trie_maker(model.engine, model.tokenizer, call_markup(model.chat)),
                              kMostGrammarCacheBytes / 2),
                 std::make_shared<Waiting>(options.waiting),
                 std::make_shared<KeyLimits>(options.key_limits),
                 std::make_shared<std::atomic<std::int64_t>>(0),
                 options.request_timeout_seconds,
                 options.log_text,
                 true,
                 options.enable_debug_endpoints,
                 std::make_unique<EngineFeed>(model.engine),
                 TaskQueue(1),
                 TaskQueue(options.workers)},
        access_(options.http.hosts, options.cors_origins),
        decoder_(options.http.max_body_bytes, options.http.max_bodies_bytes),
        health_(model.engine, options.watchdog_seconds) {
    add("POST", "/v1/chat/completions", chat_completions);
    add("POST", "/v1/completions", completions);
    add("POST", "/v1/score", score);
    add("POST", "/v1/responses", responses);
    add("POST", "/v1/responses/input_tokens", count_input_tokens);
    add("POST", "/v1/messages", messages);
    add("POST", "/v1/messages/count_tokens", count_tokens);
    add("POST", "/v1/chat/completions/render", render_prompt);
    add("POST", "/tokenize", tokenize);
    add("POST", "/detokenize", detokenize);
    add("GET", "/tokenizer_info", show_tokenizer);
    add("GET", "/v1/models", list_models);
    add("GET", "/v1/models/*", show_model);
    add("POST", "/v1/weights/reload", reload_weights);
    add("GET", "/metrics", show_metrics);
    add("GET", "/openapi.json", show_openapi);
    add("GET", "/", show_index);
    add("GET", "/page/*", show_page);
    add("GET", "/debug/cache", show_cache);
    add("POST", "/debug/cache/reset", reset_cache);
    add("GET", "/debug/engine/stream", stream_engine);
    add("GET", "/debug/engine/trace", export_trace);
    add("GET", "/debug/engine/perfetto", export_perfetto);
    router_.add("GET", "/health", [this](const HttpExchangePtr& exchange) { health_.answer(exchange); });
    router_.add("GET", "/health/live", [this](const HttpExchangePtr& exchange) { health_.answer_live(exchange); });
    router_.add("GET", "/health/ready", [this](const HttpExchangePtr& exchange) { health_.answer_ready(exchange); });
    router_.add("GET", "/version", [this](const HttpExchangePtr& exchange) { answer_version(exchange); });
    router_.add("GET", "/server_info", [this](const HttpExchangePtr& exchange) { answer_info(exchange); });
  }

  Status start() {
    if (options_.watchdog_seconds > 0) {
      watchdog_ = std::make_unique<Watchdog>(context_.engine, options_.watchdog_seconds);
    }
    SLUICE_RETURN_IF_ERROR(load_keys());
    name_metrics();
    SLUICE_RETURN_IF_ERROR(start_traces());
    HttpServerOptions http = options_.http;
    http.now = options_.now;
    http.check_header = [this](HttpRequest& request) { return check_header(request); };
    SLUICE_ASSIGN_OR_RETURN(http_, HttpServer::start(
                                       http, [this](const HttpExchangePtr& exchange) { answer(exchange); },
                                       [this](const HttpSummary& summary) { observe(summary); }));
    is_loopback_.set_value(http_->is_loopback());
    context_.metrics.watch([this] { return http_->counts(); });
    if (!http_->is_loopback() && !access_.keys()->any_for_users()) {
      log_warning(
          "EVERYBODY WHO CAN REACH THIS ADDRESS CAN USE THE SERVER: it listens on {}, and there are no API keys; see "
          "--api-key, --api-key-file and SLUICE_API_KEY",
          fmt::join(options_.http.hosts, ", "));
    }
    return {};
  }

  // At SIGHUP the values that come from files are read again. A file that cannot be read leaves everything as it was.
  void reload() {
    Status status = load_keys();
    if (status.ok()) status = http_->reload();
    if (!status.ok()) return log_error("not reloaded: {}", status.message());
    log_info("reloaded keys and certificate");
  }

  bool stop(std::chrono::milliseconds drain_timeout) {
    if (stopped_) return true;
    stopped_ = true;
    health_.stop();
    context_.feed->stop();
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
  void learn_address() {
    std::call_once(knows_address_, [this] {
      const bool is_loopback = is_loopback_.get_future().get();
      access_.set_loopback(is_loopback);
      context_.is_loopback = is_loopback;
    });
  }

  std::optional<ApiError> check_header(HttpRequest& request) {
    learn_address();
    if (auto error = access_.check(request)) return error;
    return access_.check_key(request);
  }

  void answer(const HttpExchangePtr& exchange) {
    learn_address();
    HttpRequest& request = exchange->request();
    read_traceparent(request.header("traceparent"), traces_ != nullptr, request.record);
    if (const auto error = access_.check(exchange->request())) return exchange->respond(error_response(*error));
    if (Access::is_preflight(exchange->request())) {
      return exchange->respond(Access::preflight_answer(exchange->request()));
    }
    if (const auto error = access_.check_key(exchange->request())) return exchange->respond(error_response(*error));
    if (const auto error = set_deadline(context_, exchange->request())) {
      return exchange->respond(error_response(*error));
    }
    if (request.body.empty() || !is_coded(request.header("content-encoding"))) return router_.route(exchange);
    context_.workers.run([this, exchange] { decode(exchange); });
  }

  // Decoding takes too long for the network thread, which routes the request afterwards.
  void decode(const HttpExchangePtr& exchange) {
    if (const auto error = decoder_.decode(exchange->request())) {
      HttpResponse response = error_response(*error);
      if (error->status == 415) response.headers = fmt::format("Accept-Encoding: {}\r\n", kKnownCodings);
      return exchange->respond(std::move(response));
    }
    exchange->post([this, exchange] { router_.route(exchange); });
  }

  void add(const char* method, const char* path, Endpoint endpoint) {
    router_.add(method, path, [this, endpoint](const HttpExchangePtr& exchange) { endpoint(context_, exchange); });
  }

  Status start_traces() {
    if (options_.otlp_endpoint.empty()) return {};
    SLUICE_ASSIGN_OR_RETURN(traces_, TraceExporter::start(options_.otlp_endpoint, options_.served_model_name));
    context_.metrics.watch_traces([this] { return traces_->sent(); }, [this] { return traces_->dropped(); });
    return {};
  }

  void name_metrics() {
    const Engine& engine = context_.engine;
    const EngineStats stats = engine.stats();
    context_.metrics.set_naming(options_.metrics_prefix, options_.served_model_name);
    context_.metrics.add_info(
        "sluice_cache_config_info",
        {{"block_size", "128"},
         {"num_gpu_blocks", fmt::format("{}", stats.cache.latent_pages_total)},  // as inference gateways call them
         {"latent_pages", fmt::format("{}", stats.cache.latent_pages_total)},
         {"window_pages", fmt::format("{}", stats.cache.window_pages_total)},
         {"bytes", fmt::format("{}", stats.cache_bytes_total)}});
    context_.metrics.add_info(
        "sluice_build_info",
        {{"version", options_.version}, {"profile", engine.profile_name()}, {"isa", engine.isa_name()}});
    context_.metrics.add_weights_info(engine);
  }

  Status load_keys() {
    SLUICE_ASSIGN_OR_RETURN(ApiKeys keys, ApiKeys::load(options_.keys));
    access_.set_keys(std::move(keys));
    return {};
  }

  void answer_version(const HttpExchangePtr& exchange) const {
    HttpResponse response;
    response.body = R"({"version":)";
    append_json_string(response.body, options_.version);
    response.body += '}';
    exchange->respond(std::move(response));
  }

  void answer_info(const HttpExchangePtr& exchange) const {
    const EngineStats stats = context_.engine.stats();
    std::string out = R"({"version":)";
    append_json_string(out, options_.version);
    out += R"(,"model":)";
    append_json_string(out, context_.model_name);
    out += R"(,"profile":)";
    append_json_string(out, context_.engine.profile_name());
    out += R"(,"isa":)";
    append_json_string(out, context_.engine.isa_name());
    out += fmt::format(
        R"(,"started":{},"max_model_len":{},"vocab_size":{},"cache_bytes":{},"latent_pages":{},"window_pages":{},)"
        R"("api_keys":{},"options":{{)",
        context_.created, context_.engine.max_model_len(), context_.engine.vocab_size(), stats.cache_bytes_total,
        stats.cache.latent_pages_total, stats.cache.window_pages_total, access_.keys()->any());
    for (const auto& [name, value] : options_.configuration) {
      if (out.back() != '{') out += ',';
      append_json_string(out, name);
      out += ':';
      append_json_string(out, value);
    }
    HttpResponse response;
    response.body = out + "}}";
    exchange->respond(std::move(response));
  }

  void observe(const HttpSummary& summary) {
    const std::string_view route = router_.route_of(summary.path);
    context_.metrics.on_exchange(summary, route);
    log_request(summary, route);
    if (traces_ != nullptr) traces_->add(summary);
  }

  const ServerOptions options_;
  ApiContext context_;
  Access access_;
  BodyDecoder decoder_;
  HealthCheck health_;
  Router router_;
  std::promise<bool> is_loopback_;
  std::once_flag knows_address_;
  bool stopped_ = false;
  std::unique_ptr<Watchdog> watchdog_;     // null: none
  std::unique_ptr<TraceExporter> traces_;  // null: none
  std::unique_ptr<HttpServer> http_;       // last: its thread uses all of the above
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
  const HttpServerOptions& http = impl_->options().http;
  const auto is_local = [](const std::string& host) { return host.starts_with("unix:"); };
  const auto found = std::ranges::find_if_not(http.hosts, is_local);
  if (found == http.hosts.end()) return http.hosts.front();
  const bool is_v6 = found->find(':') != std::string::npos;
  return fmt::format("{}://{}{}{}:{}", http.tls_certificate.empty() ? "http" : "https", is_v6 ? "[" : "", *found,
                     is_v6 ? "]" : "", port());
}

void Server::reload() {
  impl_->reload();
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
  const std::string_view invitation = server.url().starts_with("http") ? "Open it in a browser, or try" : "Try";
  const std::string text =
      fmt::format("Serving {} on {}\n{}:\n  curl {}/v1/{} -H 'Content-Type: application/json' \\\n    -d '{}'\n",
                  options.served_model_name, server.url(), invitation, server.url(), path, body);
  std::fputs(to_valid_utf8(text).c_str(), stderr);  // fmt::print would throw where the disk is full
  std::fflush(stderr);
}

}  // namespace

Status serve(const ServedModel& model, const ServerOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<Server> server, Server::start(model, options));
  Mutex mutex;
  Condition signalled;
  int signals = 0;
  server->on_signal([&](int signal) {
    if (signal == SIGHUP) return server->reload();
    const MutexLock lock(mutex);
    if (++signals > 1) server->hurry();
    signalled.notify_all();
  });
  print_welcome(*server, model, options);
  {
    MutexLock lock(mutex);
    signalled.wait(lock, [&]() SLUICE_REQUIRES(mutex) { return signals > 0; });
  }
  log_info("stopping: running requests have {} ms to finish", options.drain_timeout.count());
  server->stop(options.drain_timeout);
  log_info("stopped");
  return {};
}

}  // namespace sluice
