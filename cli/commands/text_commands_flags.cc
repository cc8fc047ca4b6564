// serve, run and chat.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <random>
#include <utility>

#include "cli/commands/commands.h"
#include "cli/commands/engine_flags.h"
#include "cli/commands/text_commands.h"

namespace sluice {

namespace {

void add_text_flags(CLI::App& command, TextOptions& options) {
  constexpr const char* kGroup = "Sampling";
  command.add_option("--temperature", options.temperature, "0: always the likeliest token")->group(kGroup);
  command.add_option("--top-p", options.top_p, "Keep the likeliest tokens up to this probability")->group(kGroup);
  command.add_option("--top-k", options.top_k, "Keep this many of the likeliest tokens; 0: all")->group(kGroup);
  command.add_option("--min-p", options.min_p, "Drop tokens below this part of the best one's probability")
      ->group(kGroup);
  command
      .add_option(
          "--repetition-penalty", options.repetition_penalty,
          "Divide the logits of tokens that prompt or answer have; by default the model's, as for top-p, top-k, "
          "min-p and the next two")
      ->group(kGroup);
  command
      .add_option("--presence-penalty", options.presence_penalty, "Taken from the logit of tokens that the answer has")
      ->group(kGroup);
  command.add_option("--frequency-penalty", options.frequency_penalty, "The same, times how often the answer has it")
      ->group(kGroup);
  command.add_option("--seed", options.seed, "The same seed gives the same answer; by default a new one")
      ->group(kGroup);
  command.add_option("--max-tokens", options.max_tokens, "Longest answer")
      ->option_text("N [" + std::to_string(options.max_tokens) + "]")
      ->group(kGroup);
}

void add_serve(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App& command = *app.add_subcommand("serve", "Serve the OpenAI API over HTTP");
  add_engine_flags(command, options->engine, invocation.log_level);
  add_chat_flags(command, options->chat);
  command
      .add_option("--host", options->hosts,
                  "Address to listen on; :: for all of both versions, unix:PATH for a local socket. May be repeated")
      ->option_text("HOST [127.0.0.1]");
  command.add_option("--port", options->port, "0: any free one")
      ->option_text("PORT [" + std::to_string(options->port) + "]");
  command.add_option("--served-model-name", options->served_model_name,
                     "The name that requests may give; by default the folder's name");
  command
      .add_option("--drain-timeout", options->drain_timeout_seconds,
                  "After SIGTERM running requests have so long to finish")
      ->option_text("SECONDS [10]");
  command.add_flag("--enable-debug-endpoints", options->enable_debug_endpoints,
                   "/debug/* for other machines too; on a loopback address it is always there");
  command
      .add_option("--cors-origin", options->cors_origins,
                  "An origin whose pages may use the server, https://chat.example; * for all. May be repeated")
      ->option_text("ORIGIN");
  command
      .add_option("--max-waiting-requests", options->waiting.max_requests,
                  "Answer 429 when so many requests wait for their first token")
      ->option_text("N [" + std::to_string(options->waiting.max_requests) + "]");
  command
      .add_option("--max-waiting-tokens", options->waiting.max_tokens,
                  "The same for the tokens of their prompts; a request alone may have more")
      ->option_text("N [" + std::to_string(options->waiting.max_tokens) + "]");
  command.add_flag("--strict-fields", options->strict_fields,
                   "Refuse requests with fields that nobody knows, instead of ignoring and naming those");
  add_guard_flags(command, *options);
  command.callback([&invocation, &command, options] {
    options->flags = given_flags(command);
    invocation.run = [options] { return run_serve(*options); };
  });
}

void add_run(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<RunOptions>();
  CLI::App& command = *app.add_subcommand("run", "Write one answer to standard output");
  command.add_option("-p,--prompt", options->prompt, "The question; - reads standard input")
      ->required()
      ->option_text("TEXT");
  command.add_option("--system", options->system, "System message")->option_text("TEXT");
  command.add_flag("--thinking", options->thinking, "Reason before the answer");
  command.add_flag("--raw", options->raw, "Continue the text as it is, without the chat encoding");
  add_engine_flags(command, options->engine, invocation.log_level);
  add_chat_flags(command, options->chat);
  add_text_flags(command, options->text);
  command.callback([&invocation, options] { invocation.run = [options] { return run_run(*options); }; });
}

void add_chat(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<ChatOptions>();
  CLI::App& command = *app.add_subcommand("chat", "Talk in the terminal");
  command.add_option("--system", options->system, "System message")->option_text("TEXT");
  command.add_flag("--thinking", options->thinking, "Reason before the answers");
  add_engine_flags(command, options->engine, invocation.log_level);
  add_chat_flags(command, options->chat);
  add_text_flags(command, options->text);
  command.callback([&invocation, options] { invocation.run = [options] { return run_chat(*options); }; });
}

}  // namespace

void add_text_commands(CLI::App& app, Invocation& invocation) {
  add_serve(app, invocation);
  add_run(app, invocation);
  add_chat(app, invocation);
}

void apply_defaults(const GenerationConfig& generation, TextOptions& options) {
  const auto fill = [](auto& option, const auto& value) {
    if (!option) option = value;
  };
  fill(options.top_p, generation.top_p);
  fill(options.top_k, generation.top_k);
  fill(options.min_p, generation.min_p);
  fill(options.presence_penalty, generation.presence_penalty);
  fill(options.frequency_penalty, generation.frequency_penalty);
  fill(options.repetition_penalty, generation.repetition_penalty);
}

std::shared_ptr<const TokenRules> token_rules(const TextOptions& options) {
  TokenRules rules;
  rules.presence_penalty = options.presence_penalty.value_or(rules.presence_penalty);
  rules.frequency_penalty = options.frequency_penalty.value_or(rules.frequency_penalty);
  rules.repetition_penalty = options.repetition_penalty.value_or(rules.repetition_penalty);
  return rules.any() ? std::make_shared<const TokenRules>(std::move(rules)) : nullptr;
}

Result<SamplingParams> sampling_params(const TextOptions& options) {
  SamplingParams params;
  params.temperature = options.temperature;
  params.top_p = options.top_p.value_or(params.top_p);
  params.top_k = options.top_k.value_or(params.top_k);
  params.min_p = options.min_p.value_or(params.min_p);
  if (options.seed) {
    params.seed = *options.seed;
  } else {
    std::random_device random;
    params.seed = std::uint64_t{random()} << 32 | random();
  }
  if (options.max_tokens < 1) {
    return invalid_argument(fmt::format("--max-tokens: expected at least 1, found {}", options.max_tokens));
  }
  SLUICE_RETURN_IF_ERROR(validate(params));
  return params;
}

}  // namespace sluice
