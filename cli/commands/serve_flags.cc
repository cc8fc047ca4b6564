// The flags of serve that say who may use the server and how much, and what it tells of itself.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/commands/text_commands.h"

namespace sluice {
namespace {

constexpr const char* kKeys = "Keys";
constexpr const char* kLimits = "Limits";
constexpr const char* kLog = "Log";

void add_key_flags(CLI::App& command, ServeOptions& options) {
  command
      .add_option("--api-key", options.keys.keys,
                  "A key that requests must have, SECRET or NAME:SECRET; may be repeated. Others see it in the list of "
                  "processes: better a file, or SLUICE_API_KEY")
      ->option_text("KEY")
      ->group(kKeys);
  command.add_option("--api-key-file", options.keys.file, "Keys, one a line; read again at SIGHUP")
      ->option_text("FILE")
      ->group(kKeys);
  command
      .add_option("--admin-key", options.keys.admin_keys,
                  "A key that also opens /debug, to whoever has it and nobody else; or SLUICE_ADMIN_KEY")
      ->option_text("KEY")
      ->group(kKeys);
  command.add_option("--admin-key-file", options.keys.admin_file, "The same in a file")
      ->option_text("FILE")
      ->group(kKeys);
}

}  // namespace

void add_guard_flags(CLI::App& command, ServeOptions& options) {
  add_key_flags(command, options);
  command.add_option("--tls-certificate", options.tls_certificate, "Certificate chain in PEM; read again at SIGHUP")
      ->option_text("FILE")
      ->group(kKeys);
  command.add_option("--tls-key", options.tls_key, "Its private key")->option_text("FILE")->group(kKeys);
  command
      .add_option("--network-threads", options.network_threads, "More than one pays above some 20,000 tokens a second")
      ->option_text("N [1]")
      ->group(kLimits);
  command.add_option("--max-connections", options.max_connections, "Further ones are answered 503")
      ->option_text(fmt::format("N [{}]", options.max_connections))
      ->group(kLimits);
  command.add_option("--max-body-size", options.max_body_bytes, "Of a request; larger ones are answered 413")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->option_text("SIZE [16MiB]")
      ->group(kLimits);
  command
      .add_option("--max-running-per-key", options.key_limits.max_running,
                  "Generating requests of an API key at once, beyond which they are answered 429; 0: no limit")
      ->option_text("N [0]")
      ->group(kLimits);
  command
      .add_option("--requests-per-minute", options.key_limits.requests_per_minute,
                  "Generating requests of an API key in a minute; 0: no limit")
      ->option_text("N [0]")
      ->group(kLimits);
  command
      .add_option("--tokens-per-minute", options.key_limits.tokens_per_minute,
                  "Tokens of prompts and answers of an API key in a minute; 0: no limit")
      ->option_text("N [0]")
      ->group(kLimits);
  command
      .add_option("--request-timeout", options.request_timeout_seconds,
                  "After so long a request ends with 503, if it has no header X-Request-Timeout; 0: never")
      ->option_text("SECONDS [0]")
      ->group(kLimits);
  command
      .add_option("--unread-timeout", options.unread_timeout_seconds,
                  "A client with over 1 MiB of its answer left to read pauses it, and is cut off after so long")
      ->option_text("SECONDS [60]")
      ->group(kLimits);
  command
      .add_option(
          "--watchdog", options.watchdog_seconds,
          "When a step of the engine takes longer than so long, say so in the log and let /health/live fail; 0: "
          "never")
      ->option_text("SECONDS [30]")
      ->group(kLimits);
  command.add_option("--log-format", options.log_format, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->option_text("NAME [text]")
      ->group(kLog);
  command
      .add_option("--metrics-prefix", options.metrics_prefix,
                  "How names in /metrics begin; vllm: for dashboards and gateways that know those")
      ->option_text("TEXT [sluice_]")
      ->group(kLog);
  command
      .add_option("--otlp-endpoint", options.otlp_endpoint,
                  "Send a trace of each generating request to this OpenTelemetry collector (OTLP over HTTP, JSON)")
      ->option_text("http://HOST:4318")
      ->group(kLog);
  command.add_flag("--log-text", options.log_text, "Write prompts and answers into the log")->group(kLog);
}

std::vector<std::pair<std::string, std::string>> given_flags(const CLI::App& command) {
  std::vector<std::pair<std::string, std::string>> flags;
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name(/*positional=*/false);
    if (option->count() == 0 || name == "--api-key" || name == "--admin-key") continue;
    flags.emplace_back(name, fmt::format("{}", fmt::join(option->results(), " ")));
  }
  return flags;
}

}  // namespace sluice
