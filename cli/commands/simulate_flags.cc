// simulate.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/commands/engine_flags.h"
#include "cli/commands/simulate_command.h"

namespace sluice {
namespace {

constexpr const char* kTrace = "Trace";

void add_trace_flags(CLI::App& command, SimulateOptions& options) {
  WorkloadOptions& workload = options.workload;
  auto* trace =
      command.add_option("--trace", options.trace, "JSON lines: timestamp, input_length, output_length, hash_ids")
          ->option_text("FILE")
          ->group(kTrace);
  command.add_option("--hash-block-tokens", options.hash_block_tokens, "Tokens that one of its hash_ids stands for")
      ->check(CLI::Range(1, 1 << 20))
      ->option_text("N [512]")
      ->group(kTrace);
  command
      .add_flag("--by-steps", options.by_steps, "Requests arrive at the steps that the trace says, not at its times")
      ->needs(trace)
      ->group(kTrace);
  command.add_option("--workload", workload.name, "A synthetic trace: default, chat, mixed, bulk or behind-long")
      ->check(CLI::IsMember(workload_names()))
      ->excludes(trace)
      ->option_text("NAME [default]")
      ->group(kTrace);
  command.add_option("--requests", workload.requests, "Its length")
      ->excludes(trace)
      ->option_text("N [" + std::to_string(workload.requests) + "]")
      ->group(kTrace);
  command.add_option("--rate", workload.rate, "Requests (in chat: conversations) a second; 0: by --load")
      ->option_text("R [0]")
      ->group(kTrace);
  command.add_option("--load", options.load, "A rate as a part of what the model could bear")
      ->check(CLI::Range(0.001, 1000.0))
      ->option_text("PART [0.8]")
      ->group(kTrace);
  command.add_option("--input", workload.mean_input, "Mean prompt of default and bulk; 0: their own")
      ->option_text("N [0]")
      ->group(kTrace);
  command.add_option("--output", workload.mean_output, "Mean answer of default and bulk; 0: their own")
      ->option_text("N [0]")
      ->group(kTrace);
  command.add_option("--seed", workload.seed, "The same seed gives the same trace")
      ->option_text("N [0]")
      ->group(kTrace);
  command.add_option("--concurrency", options.concurrency, "As many requests in flight, whatever their times; 0: no")
      ->check(CLI::Range(0, 1 << 20))
      ->option_text("N [0]")
      ->group(kTrace);
}

}  // namespace

void add_simulate_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<SimulateOptions>();
  options->workload.rate = 0;
  CLI::App& command =
      *app.add_subcommand("simulate", "Send a trace through scheduler and prefix cache on a virtual clock");
  command.add_option("--out", options->out, "The folder for summary.json and the plots")
      ->required()
      ->option_text("DIR");
  command
      .add_option("--cost", options->cost,
                  "How long a step takes: calibrate (measure the model), a preset (v4-pro-8gpu, dense-attention-8gpu), "
                  "a JSON file, or term=seconds,...")
      ->option_text("COST [calibrate]");
  command
      .add_option("--acceptance", options->acceptance,
                  "With --num-speculative-tokens drafts: the part of them that is right, if those before them were; a "
                  "drafted row also costs the term draft; 0: no speculation")
      ->check(CLI::Range(0.0, 1.0))
      ->option_text("P [0]");
  command
      .add_option("--policies", options->policies,
                  "To compare: fair, fcfs, priority, decode-first, prefill-first; by default the engine's")
      ->delimiter(',')
      ->check(CLI::IsMember({"fair", "fcfs", "priority", "decode-first", "prefill-first"}))
      ->option_text("NAME,...");
  command
      .add_option(
          "--without-retention", options->without_retention,
          "Rules by which window pages stay cached, to switch off: every_64th, before_prompt_end, at_prompt_end, "
          "message_start, finished, preempted, demand; all")
      ->delimiter(',')
      ->option_text("RULE,...");
  add_trace_flags(command, *options);
  add_engine_flags(command, options->engine, invocation.log_level);
  command.callback([&invocation, options] { invocation.run = [options] { return run_simulate(*options); }; });
}

}  // namespace sluice
