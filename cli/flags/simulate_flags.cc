// The flags of simulate.
#include <CLI/CLI.hpp>

#include "cli/commands/simulate_command.h"
#include "cli/flags/add_command.h"
#include "cli/flags/engine_flags.h"
#include "cli/flags/flag_table.h"

namespace sluice {
namespace {

void add_trace_flags(CLI::App& command, SimulateOptions& options) {
  WorkloadOptions& workload = options.workload;
  add_flags(command, "Trace",
            {
                {"--trace", &options.trace, "FILE", "JSON lines: timestamp, input_length, output_length, hash_ids"},
                {"--hash-block-tokens",
                 &options.hash_block_tokens,
                 "N",
                 "Tokens that one of a trace's hash_ids stands for",
                 {.range = {{1, 1 << 20}}}},
                {"--by-steps",
                 &options.by_steps,
                 "",
                 "Let requests arrive at the trace's steps, not at its times",
                 {.needs = {"--trace"}}},
                {"--workload",
                 &workload.name,
                 "NAME",
                 "A synthetic trace: default, chat, mixed, bulk or behind-long",
                 {.choices = workload_names(), .excludes = {"--trace"}}},
                {"--requests", &workload.requests, "N", "Requests of a synthetic trace", {.excludes = {"--trace"}}},
                {"--rate", &workload.rate, "R", "Requests (in chat: conversations) a second; 0: by --load"},
                {"--load",
                 &options.load,
                 "PART",
                 "With --rate 0: the rate as a part of what the model can bear",
                 {.range = {{0.001, 1000}}}},
                {"--input", &workload.mean_input, "N",
                 "Mean tokens of a prompt in the workloads default and bulk; 0: their own"},
                {"--output", &workload.mean_output, "N",
                 "Mean tokens of an answer in the workloads default and bulk; 0: their own"},
                {"--seed", &workload.seed, "N", "Seed of a synthetic trace; the same one gives the same trace"},
                {"--concurrency",
                 &options.concurrency,
                 "N",
                 "Keep N requests in flight, whatever their times; 0: no",
                 {.range = {{0, 1 << 20}}}},
            });
}

}  // namespace

void add_simulate_command(CLI::App& app, Invocation& invocation) {
  const auto [command, options] = add_command(
      app, invocation, "simulate", "Send a trace through scheduler and prefix cache on a virtual clock", run_simulate);
  options.workload.rate = 0;
  add_flags(
      command, kOwnFlags,
      {
          {"--out", &options.out, "DIR", "The folder for summary.json and the plots", {.is_required = true}},
          {"--cost", &options.cost, "COST",
           "Time of a step: calibrate (measure the model), a preset (v4-pro-8gpu, dense-attention-8gpu), a JSON "
           "file, or term=seconds,..."},
          {"--acceptance",
           &options.acceptance,
           "P",
           "With --num-speculative-tokens drafts: the part of them that is right, if those before them were; a drafted "
           "row also costs the term draft; 0: no speculation",
           {.range = {{0, 1}}}},
          {"--policies",
           &options.policies,
           "NAME,...",
           "Policies to compare: fair, fcfs, priority, decode-first, prefill-first; by default the engine's",
           {.choices = {"fair", "fcfs", "priority", "decode-first", "prefill-first"}, .is_split = true}},
          {"--without-retention",
           &options.without_retention,
           "RULE,...",
           "Rules by which window pages stay cached, to switch off: every_64th, before_prompt_end, at_prompt_end, "
           "message_start, finished, preempted, demand; all",
           {.is_split = true}},
      });
  add_trace_flags(command, options);
  add_engine_flags(command, options.engine, invocation.log_level);
}

}  // namespace sluice
