// Commands that answer in text, run, chat and serve: the options of each, and what runs it. The result is the exit
// code.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "config/generation_config.h"
#include "model/engine_setup.h"
#include "serve/guard/api_keys.h"
#include "serve/guard/key_limits.h"
#include "serve/guard/waiting.h"
#include "sluice/sampling.h"
#include "sluice/status.h"
#include "text/chat/chat.h"

namespace CLI {
class App;
}

namespace sluice {

// Options that `run` and `chat` share: how an answer is sampled.

struct TextOptions {
  float temperature = 0.0F;    // 0: greedy
  std::optional<float> top_p;  // nullopt: the model's default, also below
  std::optional<int> top_k;
  std::optional<float> min_p;
  std::optional<float> presence_penalty, frequency_penalty, repetition_penalty;
  std::optional<std::uint64_t> seed;  // none: drawn anew
  int max_tokens = 512;
};

// Takes what the flags leave open from generation_config.json.
void apply_defaults(const GenerationConfig& generation, TextOptions& options);

// Checked; the message of an error names the flag's meaning, its range and the value.
Result<SamplingParams> sampling_params(const TextOptions& options);
// Null: none. The engine refuses values outside the ranges.
std::shared_ptr<const TokenRules> token_rules(const TextOptions& options);

// sluice run: one answer to stdout.

struct RunOptions {
  EngineSetup engine;  // model.folder as given; "": the embedded model
  TextOptions text;
  ChatEncodingOptions chat;
  std::string prompt;  // "-": standard input
  std::string system;
  bool raw = false;  // no chat encoding
  bool thinking = false;
  bool pull = false;  // fetch the model if the cache lacks it
};

int run_run(const RunOptions& options);

// sluice chat: a conversation in the terminal, or read from a pipe, one line a turn.

struct ChatOptions {
  EngineSetup engine;  // model.folder as given; "": the embedded model
  TextOptions text;
  ChatEncodingOptions chat;
  std::string system;
  bool thinking = false;
  bool pull = false;  // fetch the model if the cache lacks it
};

int run_chat(const ChatOptions& options);

// sluice serve: the OpenAI API over HTTP.

struct ServeOptions {
  EngineSetup engine;  // model.folder as given; "": the embedded model
  ChatEncodingOptions chat;
  std::vector<std::string> hosts = {};  // none: 127.0.0.1
  int port = 8000;
  std::string served_model_name;  // "": the folder's name
  double drain_timeout_seconds = 10;
  bool enable_debug_endpoints = false;
  std::vector<std::string> cors_origins = {};
  WaitingLimits waiting;
  bool strict_fields = false;
  bool pull = false;  // fetch the model if the cache lacks it
  ApiKeys::Sources keys = {};
  KeyLimitOptions key_limits = {};
  double request_timeout_seconds = 0;
  double unread_timeout_seconds = 60;
  double watchdog_seconds = 30;
  std::string tls_certificate = {}, tls_key = {};
  int network_threads = 1;
  int max_connections = 1024;
  std::int64_t max_body_bytes = 16 << 20;
  LogFormat log_format = LogFormat::kText;
  std::string metrics_prefix = "sluice_", otlp_endpoint = {};
  bool log_text = false;
  // The flags as they were given, but for secrets.
  std::vector<std::pair<std::string, std::string>> flags = {};
};

// Adds all flags that are serve's alone.
void add_serve_flags(CLI::App& command, ServeOptions& options);
std::vector<std::pair<std::string, std::string>> given_flags(const CLI::App& command);

int run_serve(const ServeOptions& options);

}  // namespace sluice
