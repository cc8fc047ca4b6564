#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdlib>

#include "base/log.h"
#include "cli/commands/text_commands.h"
#include "cli/exit_code.h"
#include "cli/loaded_model.h"
#include "cli/model_path.h"
#include "cli/version.h"
#include "serve/server.h"

namespace sluice {
namespace {

SamplingDefaults sampling_defaults(const GenerationConfig& generation) {
  SamplingDefaults defaults;
  if (generation.temperature) defaults.temperature = *generation.temperature;
  if (generation.top_p) defaults.top_p = *generation.top_p;
  if (generation.top_k) defaults.top_k = *generation.top_k;
  if (generation.min_p) defaults.min_p = *generation.min_p;
  if (generation.presence_penalty) defaults.presence_penalty = *generation.presence_penalty;
  if (generation.frequency_penalty) defaults.frequency_penalty = *generation.frequency_penalty;
  if (generation.repetition_penalty) defaults.repetition_penalty = *generation.repetition_penalty;
  if (generation.do_sample == false) defaults.temperature = 0.0F;
  return defaults;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Status check(const ServeOptions& options) {
  constexpr double kMaxDrainSeconds = 24 * 3600;
  if (!(options.drain_timeout_seconds >= 0 && options.drain_timeout_seconds <= kMaxDrainSeconds)) {
    return invalid_argument(fmt::format("--drain-timeout: expected 0 to {} seconds, found {}", kMaxDrainSeconds,
                                        options.drain_timeout_seconds));
  }
  if (options.port < 0 || options.port > 65535) {
    return invalid_argument(fmt::format("--port: expected 0 to 65535 (0: any free one), found {}", options.port));
  }
  for (const std::string& origin : options.cors_origins) {
    const std::size_t host = origin.find("://");
    if (origin == "*" || (host != std::string::npos && origin.find('/', host + 3) == std::string::npos)) continue;
    return invalid_argument(
        fmt::format("--cors-origin: expected * or an origin like https://chat.example:8080, found {}", origin));
  }
  if (options.key_limits.max_running < 0 || options.key_limits.requests_per_minute < 0 ||
      options.key_limits.tokens_per_minute < 0) {
    return invalid_argument(
        "--max-running-per-key, --requests-per-minute, --tokens-per-minute: expected 0 (no limit) or more");
  }
  if (!(options.watchdog_seconds >= 0)) return invalid_argument("--watchdog: expected 0 (none) or more seconds");
  constexpr double kMostUnreadSeconds = 86'400;
  if (!(options.unread_timeout_seconds >= 1 && options.unread_timeout_seconds <= kMostUnreadSeconds)) {
    return invalid_argument(fmt::format("--unread-timeout: expected 1 to {} seconds, found {}", kMostUnreadSeconds,
                                        options.unread_timeout_seconds));
  }
  if (!(options.request_timeout_seconds >= 0)) {
    return invalid_argument("--request-timeout: expected 0 (none) or more seconds");
  }
  if (options.tls_certificate.empty() != options.tls_key.empty()) {
    return invalid_argument("--tls-certificate, --tls-key: expected both or none");
  }
  const auto is_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == ':'; };
  if (!std::ranges::all_of(options.metrics_prefix, is_name) ||
      (!options.metrics_prefix.empty() && std::isdigit(static_cast<unsigned char>(options.metrics_prefix[0])) != 0)) {
    return invalid_argument(
        fmt::format("--metrics-prefix: expected letters, digits, _ and :, found {}", options.metrics_prefix));
  }
  if (options.network_threads < 1 || options.network_threads > 64) {
    return invalid_argument(fmt::format("--network-threads: expected 1 to 64, found {}", options.network_threads));
  }
  if (options.max_connections < 1 || options.max_body_bytes < 1) {
    return invalid_argument("--max-connections, --max-body-size: expected at least 1");
  }
  if (options.waiting.max_requests < 1 || options.waiting.max_tokens < 1) {
    return invalid_argument("--max-waiting-requests, --max-waiting-tokens: expected at least 1");
  }
  return {};
}

ServerOptions server_options(const ServeOptions& options) {
  ServerOptions server;
  if (!options.hosts.empty()) server.http.hosts = options.hosts;
  server.http.tls_certificate = options.tls_certificate;
  server.http.tls_key = options.tls_key;
  server.http.network_threads = options.network_threads;
  server.http.port = options.port;
  server.http.write_timeout =
      std::chrono::milliseconds(static_cast<std::int64_t>(options.unread_timeout_seconds * 1000));
  server.http.max_connections = options.max_connections;
  server.http.max_body_bytes = static_cast<std::size_t>(options.max_body_bytes);
  server.http.max_bodies_bytes = std::max(server.http.max_bodies_bytes, 2 * server.http.max_body_bytes);
  server.enable_debug_endpoints = options.enable_debug_endpoints;
  server.cors_origins = options.cors_origins;
  server.waiting = options.waiting;
  server.strict_fields = options.strict_fields;
  server.keys = options.keys;
  server.keys.environment = environment("SLUICE_API_KEY");
  server.keys.admin_environment = environment("SLUICE_ADMIN_KEY");
  server.key_limits = options.key_limits;
  server.request_timeout_seconds = options.request_timeout_seconds;
  server.watchdog_seconds = options.watchdog_seconds;
  server.otlp_endpoint = options.otlp_endpoint;
  server.metrics_prefix = options.metrics_prefix;
  server.log_text = options.log_text;
  server.version = program_version();
  server.configuration = options.flags;
  server.drain_timeout = std::chrono::milliseconds(static_cast<std::int64_t>(options.drain_timeout_seconds * 1000));
  return server;
}

Status serve_model(const ServeOptions& options) {
  SLUICE_RETURN_IF_ERROR(check(options));
  set_log_format(options.log_format);
  ServerOptions server = server_options(options);
  // Checks these before loading, which may take minutes.
  if (const Result<ApiKeys> keys = ApiKeys::load(server.keys); !keys.ok()) return keys.status();
  SLUICE_RETURN_IF_ERROR(HttpServer::check(server.http));
  EngineSetup engine = options.engine;
  SLUICE_ASSIGN_OR_RETURN(engine.model.folder,
                          resolve_model(options.engine.model, options.pull ? Fetch::kAlways : Fetch::kAtTerminal));
  SLUICE_ASSIGN_OR_RETURN(const LoadedModel model, load_model_for_text(engine, options.chat));
  server.served_model_name = options.served_model_name.empty()
                                 ? model_name(options.engine.model.folder, engine.model.folder)
                                 : options.served_model_name;
  return serve({*model.engine, *model.tokenizer, model.chat.get(), sampling_defaults(model.generation)}, server);
}

}  // namespace

int run_serve(const ServeOptions& options) {
  return report(serve_model(options));
}

}  // namespace sluice
