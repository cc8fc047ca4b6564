// The flags of serve: where it listens, who may use it and how much, and what it reports of itself.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/commands/text_commands.h"
#include "cli/flags/flag_table.h"

namespace sluice {
namespace {

void add_address_flags(CLI::App& command, ServeOptions& options) {
  add_flags(command, kOwnFlags,
            {
                {"--host",
                 &options.hosts,
                 "HOST",
                 "Address to listen on; :: for all of both versions, unix:PATH for a local socket. May be repeated",
                 {.shown_default = "127.0.0.1"}},
                {"--port", &options.port, "PORT", "Port to listen on; 0: any free one"},
                {"--served-model-name", &options.served_model_name, "NAME",
                 "The name that requests may give; by default the folder's name"},
                {"--drain-timeout", &options.drain_timeout_seconds, "SECONDS",
                 "Time that running requests have to finish after SIGTERM"},
                {"--enable-debug-endpoints", &options.enable_debug_endpoints, "",
                 "Answer /debug/* to other machines, too; on a loopback address it is always answered"},
                {"--cors-origin", &options.cors_origins, "ORIGIN",
                 "An origin whose pages may use the server, https://chat.example; * for all. May be repeated"},
                {"--max-waiting-requests", &options.waiting.max_requests, "N",
                 "Most requests that wait for their first token; further ones are answered 429"},
                {"--max-waiting-tokens", &options.waiting.max_tokens, "N",
                 "Most tokens of the prompts that wait, else requests are answered 429; a request alone may have more"},
                {"--strict-fields", &options.strict_fields, "",
                 "Refuse requests with unknown fields, instead of ignoring and naming those"},
            });
}

void add_key_flags(CLI::App& command, ServeOptions& options) {
  add_flags(
      command, "Keys",
      {
          {"--api-key", &options.keys.keys, "KEY",
           "A key that requests must have, SECRET or NAME:SECRET; may be repeated. Others see it in the list of "
           "processes: better a file, or SLUICE_API_KEY"},
          {"--api-key-file", &options.keys.file, "FILE",
           "Keys that requests must have, one a line; read again at SIGHUP"},
          {"--admin-key", &options.keys.admin_keys, "KEY",
           "A key that also opens /debug, which then needs one; may be repeated; or SLUICE_ADMIN_KEY"},
          {"--admin-key-file", &options.keys.admin_file, "FILE", "Admin keys, one a line; read again at SIGHUP"},
          {"--tls-certificate", &options.tls_certificate, "FILE", "Certificate chain in PEM; read again at SIGHUP"},
          {"--tls-key", &options.tls_key, "FILE", "The certificate's private key in PEM; read again at SIGHUP"},
      });
}

void add_limit_flags(CLI::App& command, ServeOptions& options) {
  KeyLimitOptions& limits = options.key_limits;
  add_flags(
      command, "Limits",
      {
          {"--network-threads", &options.network_threads, "N",
           "Threads for the network; more than one pays above some 20,000 tokens a second"},
          {"--max-connections", &options.max_connections, "N", "Most connections; further ones are answered 503"},
          {"--max-body-size",
           ByteTarget{&options.max_body_bytes},
           "SIZE",
           "Longest body of a request; larger ones are answered 413",
           {.shown_default = "16MiB"}},
          {"--max-running-per-key", &limits.max_running, "N",
           "Most generating requests of an API key at once; further ones are answered 429; 0: no limit"},
          {"--requests-per-minute", &limits.requests_per_minute, "N",
           "Most generating requests of an API key in a minute; 0: no limit"},
          {"--tokens-per-minute", &limits.tokens_per_minute, "N",
           "Most tokens of prompts and answers of an API key in a minute; 0: no limit"},
          {"--request-timeout", &options.request_timeout_seconds, "SECONDS",
           "Seconds after which a request without the header X-Request-Timeout ends with 503; 0: never"},
          {"--unread-timeout", &options.unread_timeout_seconds, "SECONDS",
           "Seconds after which a client is cut off that leaves over 1 MiB of its answer unread; the answer pauses "
           "meanwhile"},
          {"--watchdog", &options.watchdog_seconds, "SECONDS",
           "Seconds after which a step of the engine that has not ended is logged and makes /health/live fail; 0: "
           "never"},
      });
}

void add_log_flags(CLI::App& command, ServeOptions& options) {
  add_flags(command, "Log",
            {
                {"--log-format", choice(&options.log_format), "NAME", "Form of the log: text or json"},
                {"--metrics-prefix", &options.metrics_prefix, "TEXT",
                 "Beginning of the names in /metrics; vllm: for dashboards and gateways that know those"},
                {"--otlp-endpoint", &options.otlp_endpoint, "http://HOST:4318",
                 "Send a trace of each generating request to this OpenTelemetry collector (OTLP over HTTP, JSON)"},
                {"--log-text", &options.log_text, "", "Write prompts and answers into the log"},
            });
}

}  // namespace

void add_serve_flags(CLI::App& command, ServeOptions& options) {
  add_address_flags(command, options);
  add_key_flags(command, options);
  add_limit_flags(command, options);
  add_log_flags(command, options);
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
