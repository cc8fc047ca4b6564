#include <fmt/format.h>

#include <chrono>

#include "cli/exit_code.h"
#include "cli/loaded_model.h"
#include "cli/model_path.h"
#include "cli/text_commands.h"
#include "serve/server.h"

namespace sluice {
namespace {

SamplingDefaults sampling_defaults(const GenerationConfig& generation) {
  SamplingDefaults defaults;
  if (generation.temperature) defaults.temperature = *generation.temperature;
  if (generation.top_p) defaults.top_p = *generation.top_p;
  if (generation.top_k) defaults.top_k = *generation.top_k;
  if (generation.do_sample == false) defaults.temperature = 0.0F;
  return defaults;
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
  if (options.waiting.max_requests < 1 || options.waiting.max_tokens < 1) {
    return invalid_argument("--max-waiting-requests, --max-waiting-tokens: expected at least 1");
  }
  return {};
}

Status serve_model(const ServeOptions& options) {
  SLUICE_RETURN_IF_ERROR(check(options));
  EngineSetup engine = options.engine;
  SLUICE_ASSIGN_OR_RETURN(engine.model.folder, resolve_model_folder(options.engine.model.folder));
  SLUICE_ASSIGN_OR_RETURN(const LoadedModel model, load_model_for_text(engine, options.chat));
  ServerOptions server;
  server.http.host = options.host;
  server.http.port = options.port;
  server.served_model_name = options.served_model_name.empty()
                                 ? model_name(options.engine.model.folder, engine.model.folder)
                                 : options.served_model_name;
  server.enable_debug_endpoints = options.enable_debug_endpoints;
  server.cors_origins = options.cors_origins;
  server.waiting = options.waiting;
  server.strict_fields = options.strict_fields;
  server.drain_timeout = std::chrono::milliseconds(static_cast<std::int64_t>(options.drain_timeout_seconds * 1000));
  return serve({*model.engine, *model.tokenizer, model.chat.get(), sampling_defaults(model.generation)}, server);
}

}  // namespace

int run_serve(const ServeOptions& options) {
  return report(serve_model(options));
}

}  // namespace sluice
