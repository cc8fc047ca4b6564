// bench.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/bench_command.h"
#include "cli/commands.h"
#include "cli/engine_flags.h"

namespace sluice {

void add_bench_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App& command =
      *app.add_subcommand("bench", "Measure how fast a model runs here, beside what the machine allows");
  const auto add_list = [&command](const char* name, std::vector<int>& values, const char* text) {
    command.add_option(name, values, text)
        ->delimiter(',')
        ->option_text("N,N.. [" + std::to_string(values.front()) + "]");
  };
  const auto add_count = [&command](const char* name, int& value, const char* text) {
    command.add_option(name, value, text)->option_text("N [" + std::to_string(value) + "]");
  };
  add_list("--prefill", options->prefill, "Tokens of a prompt; 0: none");
  add_list("--decode", options->decode, "Tokens decoded, one after the other; 0: none");
  add_list("--depth", options->depth, "Tokens that are there already, as a synthetic state");
  add_list("--concurrency", options->concurrency,
           "Requests at a time; above 1 they go through the scheduler, at depth 0");
  add_count("--concurrent-prompt", options->concurrent_prompt, "Tokens of the prompt of each of them");
  add_count("--concurrent-tokens", options->concurrent_tokens, "Tokens that each of them decodes");
  command
      .add_option(
          "--acceptance", options->acceptance,
          "Also decodes with --num-speculative-tokens drafts, of which such a part is right: given ones, and the "
          "model's own if it has a drafter")
      ->delimiter(',')
      ->check(CLI::Range(0.0, 1.0))
      ->option_text("P,P..");
  add_count("--rounds", options->rounds, "Times that each test counts; the medians are reported");
  command
      .add_option("--probe-size", options->probe_size, "Memory that a thread reads to measure the bandwidth; 0: 1 GB")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->option_text("SIZE [0]");
  command.add_option("--json", options->json, "Also write the results here, and a picture beside it (.svg)")
      ->option_text("FILE");
  command.add_flag("--probe-only", options->probe_only, "Print the machine's speed as JSON, without any model");
  add_engine_flags(command, options->engine, invocation.log_level);
  command.callback([&invocation, options] { invocation.run = [options] { return run_bench(*options); }; });
}

}  // namespace sluice
