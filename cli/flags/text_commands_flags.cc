// The flags that serve, run and chat share.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <random>
#include <utility>

#include "cli/commands/text_commands.h"
#include "cli/flags/add_command.h"
#include "cli/flags/engine_flags.h"
#include "cli/flags/flag_table.h"

namespace sluice {

namespace {

constexpr const char* kPullHelp =
    "Fetch the model ORG/MODEL if the cache lacks it, as `sluice pull` does; at a terminal this needs no flag";

void add_text_flags(CLI::App& command, TextOptions& options) {
  add_flags(
      command, "Sampling",
      {
          {"--temperature", &options.temperature, "T", "Randomness of the choice; 0: always the likeliest token"},
          {"--top-p", &options.top_p, "P", "Keep the likeliest tokens up to this sum of probabilities"},
          {"--top-k", &options.top_k, "K", "Keep this many of the likeliest tokens; 0: all"},
          {"--min-p", &options.min_p, "P", "Drop tokens below this part of the best one's probability"},
          {"--repetition-penalty", &options.repetition_penalty, "X",
           "Divide the logits of tokens that prompt or answer have; by default the model's, as for top-p, top-k, min-p "
           "and the next two"},
          {"--presence-penalty", &options.presence_penalty, "X",
           "Number taken from the logit of each token that the answer has"},
          {"--frequency-penalty", &options.frequency_penalty, "X",
           "Number taken from the logit of a token as often as the answer has it"},
          {"--seed", &options.seed, "N", "Seed of the draws; the same one gives the same answer; by default a new one"},
          {"--max-tokens", &options.max_tokens, "N", "Most tokens of an answer"},
      });
}

void add_serve(CLI::App& app, Invocation& invocation) {
  const auto [command, options] = add_command(app, invocation, "serve", "Serve the OpenAI API over HTTP", run_serve);
  add_engine_flags(command, options.engine, invocation.log_level);
  add_chat_flags(command, options.chat);
  add_serve_flags(command, options);
  add_flags(command, kOwnFlags, {{"--pull", &options.pull, "", kPullHelp}});
  command.parse_complete_callback([&command = command, &options = options] { options.flags = given_flags(command); });
}

void add_run(CLI::App& app, Invocation& invocation) {
  const auto [command, options] = add_command(app, invocation, "run", "Write one answer to standard output", run_run);
  add_flags(command, kOwnFlags,
            {
                {"-p,--prompt", &options.prompt, "TEXT", "The question; - reads standard input", {.is_required = true}},
                {"--system", &options.system, "TEXT", "The system message"},
                {"--thinking", &options.thinking, "", "Let the model reason before the answer"},
                {"--raw", &options.raw, "", "Continue the text as it is, without the chat encoding"},
                {"--pull", &options.pull, "", kPullHelp},
            });
  add_engine_flags(command, options.engine, invocation.log_level);
  add_chat_flags(command, options.chat);
  add_text_flags(command, options.text);
}

void add_chat(CLI::App& app, Invocation& invocation) {
  const auto [command, options] = add_command(app, invocation, "chat", "Talk in the terminal", run_chat);
  add_flags(command, kOwnFlags,
            {
                {"--system", &options.system, "TEXT", "The system message"},
                {"--thinking", &options.thinking, "", "Let the model reason before the answers"},
                {"--pull", &options.pull, "", kPullHelp},
            });
  add_engine_flags(command, options.engine, invocation.log_level);
  add_chat_flags(command, options.chat);
  add_text_flags(command, options.text);
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
