// The flags of bench.
#include <CLI/CLI.hpp>

#include "cli/bench/bench_command.h"
#include "cli/bench/bench_serve_command.h"
#include "cli/flags/add_command.h"
#include "cli/flags/engine_flags.h"
#include "cli/flags/flag_table.h"
#include "sim/workload.h"

namespace sluice {
namespace {

void add_request_flags(CLI::App& command, BenchServeOptions& options) {
  PlainTraceOptions& lengths = options.lengths;
  add_flags(
      command, "Requests",
      {
          {"--requests", &lengths.requests, "N", "Requests of a run; with --conversations: conversations"},
          {"--input", &lengths.input, "N", "Mean tokens of a prompt"},
          {"--output", &lengths.output, "N", "Mean tokens of an answer"},
          {"--spread", &lengths.spread, "PART", "Part of the mean by which lengths vary uniformly; 0: all equal"},
          {"--shared-prefix", &lengths.shared_prefix, "N", "Tokens at the start of a prompt that other prompts share"},
          {"--prefixes", &lengths.prefixes, "N", "Number of different shared prefixes"},
          {"--burst", &lengths.burst, "N", "Requests that arrive at the same time, in an open loop"},
          {"--seed", &lengths.seed, "N", "Seed of the run; the same one sends the same requests at the same times"},
          {"--workload",
           &options.workload,
           "NAME",
           "A synthetic trace of `sluice simulate` instead of requests of these lengths",
           {.choices = workload_names()}},
          {"--trace",
           &options.trace,
           "FILE",
           "A recorded trace: JSON lines of timestamp, input_length, output_length, hash_ids",
           {.excludes = {"--workload"}}},
          {"--hash-block-tokens",
           &options.hash_block_tokens,
           "N",
           "Tokens that one of a trace's hash_ids stands for",
           {.range = {{1, 1 << 20}}}},
          {"--conversations",
           &options.conversations,
           "FILE",
           "JSON lines of messages; each user's message is a request, with the server's answers before it",
           {.excludes = {"--workload", "--trace"}}},
          {"--think-ms",
           &options.think_ms,
           "MS",
           "Time between an answer and the next message of a conversation",
           {.range = {{0, 1e9}}}},
      });
}

void add_report_flags(CLI::App& command, BenchServeOptions& options) {
  add_flags(command, "Reports",
            {
                {"--slo", &options.slo, "NAME:TIME,..",
                 "Limits that goodput counts by, such as ttft:500ms,itl:50ms; also tpot and e2e"},
                {"--json", &options.json, "FILE", "Also write the results to this file"},
                {"--html", &options.html, "FILE", "Also write the results to this file, as one page with plots"},
                {"--record", &options.record, "FILE",
                 "Also write each request to this file, with the times of its events, as JSON lines"},
                {"--baseline", &options.baseline, "FILE", "The --json of an earlier run, to compare with"},
            });
}

void add_client_flags(CLI::App& command, BenchServeOptions& options) {
  add_flags(
      command, kOwnFlags,
      {
          {"url", &options.url, "", "The server's address, such as http://127.0.0.1:8000", {.is_required = true}},
          {"--model", &options.model, "NAME", "The model's name; by default the first that the server lists"},
          {"--endpoint",
           &options.endpoint,
           "NAME",
           "chat, completions, or ids: completions of token ids, exact lengths",
           {.choices = {"chat", "completions", "ids"}}},
          {"--rate",
           &options.rates,
           "R,R..",
           "Open loop: requests a second, whatever the server does; one run each",
           {.range = {{1e-6, 1e6}}}},
          {"--concurrency",
           &options.concurrency,
           "N,N..",
           "Closed loop: requests at a time; one run each",
           {.range = {{1, 100'000}}, .shown_default = "1"}},
          {"--warmup", &options.warmup, "N", "Requests before each run, which do not count", {.range = {{0, 100'000}}}},
          {"--check-determinism", &options.check_determinism, "",
           "Send the same requests alone, together and together again, and count the answers that differ"},
          {"--stream", SwitchTarget{&options.stream}, "", "Ask for streamed answers"},
          {"--ignore-eos", SwitchTarget{&options.ignore_eos}, "", "Ask for answers of full length, beyond end tokens"},
          {"--temperature", &options.temperature, "T", "Temperature of all requests", {.range = {{0, 10}}}},
          {"--extra-body", &options.extra_body, "JSON", "More fields of each request, as a JSON object"},
          {"--api-key-env", &options.api_key_env, "NAME", "The variable that holds the API key"},
          {"--cacert",
           &options.authorities,
           "FILE",
           "Certificates in PEM that may sign an https server's",
           {.shown_default = "the system's", .is_file = true}},
          {"--insecure", &options.insecure, "", "Accept any certificate of an https server"},
          {"--timeout", &options.timeout, "SECONDS", "Most seconds until an answer's end", {.range = {{0.001, 1e6}}}},
      });
}

void add_bench_serve_command(CLI::App& bench, Invocation& invocation) {
  const auto [command, options] =
      add_command(bench, invocation, "serve", "Measure any OpenAI-compatible server under load", run_bench_serve);
  add_client_flags(command, options);
  add_request_flags(command, options);
  add_report_flags(command, options);
}

void add_own_flags(CLI::App& command, BenchOptions& options) {
  add_flags(
      command, kOwnFlags,
      {
          {"--prefill", &options.prefill, "N,N..", "Lengths of prompts to measure, in tokens; 0: none"},
          {"--decode", &options.decode, "N,N..", "Numbers of tokens to decode, one after the other; 0: none"},
          {"--depth", &options.depth, "N,N..", "Tokens that are cached before a test, as a synthetic state"},
          {"--concurrency", &options.concurrency, "N,N..",
           "Requests at a time; above 1 they go through the scheduler, at depth 0"},
          {"--concurrent-prompt", &options.concurrent_prompt, "N",
           "With --concurrency above 1: prompt tokens of each request"},
          {"--concurrent-tokens", &options.concurrent_tokens, "N",
           "With --concurrency above 1: tokens that each request decodes"},
          {"--acceptance",
           &options.acceptance,
           "P,P..",
           "Also decode with --num-speculative-tokens drafts, of which this part is right: given ones, and the "
           "model's own if it has a drafter",
           {.range = {{0, 1}}}},
          {"--rounds", &options.rounds, "N", "Measurements of each test; their medians are reported"},
          {"--probe-size", ByteTarget{&options.probe_size}, "SIZE",
           "Memory that a thread reads to measure the bandwidth; 0: 1 GB"},
          {"--json", &options.json, "FILE", "Also write the results to this file, and a picture next to it (.svg)"},
          {"--probe-only", &options.probe_only, "", "Print the machine's speed as JSON, without any model"},
          {"--stages", &options.stages, "",
           "Also show the time of each stage of a step, the wait at the end of forks and the work of one thread alone"},
          {"--kernel-times", &options.kernel_times, "",
           "Also show where a step's time goes on a GPU, kernel by kernel, by the library CUPTI"},
      });
}

}  // namespace

void add_bench_command(CLI::App& app, Invocation& invocation) {
  const auto [command, options] = add_command(
      app, invocation, "bench", "Measure how fast a model runs here, and what the machine allows", run_bench);
  add_own_flags(command, options);
  add_engine_flags(command, options.engine, invocation.log_level);
  command.remove_option(command.get_option("--threads"));
  add_flags(command, kOwnFlags,
            {{"--threads",
              &options.threads,
              "N,N..",
              "Numbers of threads to measure in turn; 0, which stands alone: the number that serve takes",
              {.shown_default = "0"}}});
  add_bench_serve_command(command, invocation);
}

}  // namespace sluice
