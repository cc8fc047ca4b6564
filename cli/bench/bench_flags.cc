// bench.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/bench/bench_command.h"
#include "cli/bench/bench_serve_command.h"
#include "cli/commands/commands.h"
#include "cli/commands/engine_flags.h"
#include "sim/workload.h"

namespace sluice {
namespace {

constexpr const char* kRequests = "Requests";
constexpr const char* kReports = "Reports";

void add_request_flags(CLI::App& command, BenchServeOptions& options) {
  PlainTraceOptions& lengths = options.lengths;
  const auto number = [&](const char* name, auto& value, const char* text) {
    return command.add_option(name, value, text)->capture_default_str()->group(kRequests);
  };
  number("--requests", lengths.requests, "Requests (of --conversations: conversations) of a run");
  number("--input", lengths.input, "Mean tokens of a prompt");
  number("--output", lengths.output, "Mean tokens of an answer");
  number("--spread", lengths.spread, "Lengths are uniform within this part of the mean; 0: all equal");
  number("--shared-prefix", lengths.shared_prefix, "Tokens of a prompt that others begin with, too");
  number("--prefixes", lengths.prefixes, "How many different ones");
  number("--burst", lengths.burst, "Requests that arrive at the same time, in an open loop");
  number("--seed", lengths.seed, "The same seed sends the same requests at the same times");
  auto* workload = command.add_option("--workload", options.workload, "A synthetic trace instead, as of `simulate`")
                       ->check(CLI::IsMember(workload_names()))
                       ->option_text("NAME")
                       ->group(kRequests);
  auto* trace = command
                    .add_option("--trace", options.trace,
                                "A recorded one: JSON lines of timestamp, input_length, output_length, hash_ids")
                    ->option_text("FILE")
                    ->excludes(workload)
                    ->group(kRequests);
  number("--hash-block-tokens", options.hash_block_tokens, "Tokens that one of its hash_ids stands for")
      ->check(CLI::Range(1, 1 << 20));
  command
      .add_option("--conversations", options.conversations,
                  "JSON lines of messages; each user's message is a request, with the server's answers before it")
      ->option_text("FILE")
      ->excludes(workload)
      ->excludes(trace)
      ->group(kRequests);
  number("--think-ms", options.think_ms, "Between an answer and the next message of a conversation")
      ->check(CLI::Range(0.0, 1e9));
}

void add_report_flags(CLI::App& command, BenchServeOptions& options) {
  const auto file = [&](const char* name, std::string& value, const char* text) {
    command.add_option(name, value, text)->option_text("FILE")->group(kReports);
  };
  command
      .add_option("--slo", options.slo, "Limits that goodput counts by, such as ttft:500ms,itl:50ms; also tpot and e2e")
      ->option_text("NAME:TIME,..")
      ->group(kReports);
  file("--json", options.json, "Also write the results here");
  file("--html", options.html, "Also write them as one page with plots");
  file("--record", options.record, "Also write each request with the times of its events, as JSON lines");
  file("--baseline", options.baseline, "The --json of an earlier run, to compare with");
}

void add_bench_serve_command(CLI::App& bench, Invocation& invocation) {
  auto options = std::make_shared<BenchServeOptions>();
  CLI::App& command = *bench.add_subcommand("serve", "Measure any OpenAI-compatible server under load");
  command.add_option("url", options->url, "Where it is: http://127.0.0.1:8000")->required()->option_text("URL");
  command.add_option("--model", options->model, "The model's name; by default the first that the server lists");
  command
      .add_option("--endpoint", options->endpoint, "chat, completions, or ids: completions of token ids, exact lengths")
      ->check(CLI::IsMember({"chat", "completions", "ids"}))
      ->capture_default_str();
  command.add_option("--rate", options->rates, "Open loop: requests a second, whatever the server does; one run each")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->option_text("R,R..");
  command.add_option("--concurrency", options->concurrency, "Closed loop: requests at a time; one run each")
      ->delimiter(',')
      ->check(CLI::Range(1, 100'000))
      ->option_text("N,N.. [1]");
  command.add_option("--warmup", options->warmup, "Requests before each run, which do not count")
      ->check(CLI::Range(0, 100'000))
      ->capture_default_str();
  command.add_flag("--check-determinism", options->check_determinism,
                   "Ask the same alone, together and again, and count the answers that differ");
  command.add_flag("--stream,!--no-stream", options->stream, "Streamed answers")->option_text("[on]");
  command.add_flag("--ignore-eos,!--no-ignore-eos", options->ignore_eos, "Answers as long as asked for")
      ->option_text("[on]");
  command.add_option("--temperature", options->temperature, "Of all requests")
      ->check(CLI::Range(0.0, 10.0))
      ->capture_default_str();
  command.add_option("--extra-body", options->extra_body, "More fields of each request, as a JSON object")
      ->option_text("JSON");
  command.add_option("--api-key-env", options->api_key_env, "The variable that holds the key")->capture_default_str();
  command.add_option("--cacert", options->authorities, "Certificates in PEM that an https server's may be signed by")
      ->check(CLI::ExistingFile)
      ->option_text("FILE [the system's]");
  command.add_flag("--insecure", options->insecure, "Take any certificate of an https server");
  command.add_option("--timeout", options->timeout, "Seconds until an answer's end")
      ->check(CLI::Range(0.001, 1e6))
      ->capture_default_str();
  add_request_flags(command, *options);
  add_report_flags(command, *options);
  command.callback([&invocation, options] { invocation.run = [options] { return run_bench_serve(*options); }; });
}

}  // namespace

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
  command.add_flag(
      "--stages", options->stages,
      "Also the time of each stage of a step, the wait at the end of forks and the work of one thread alone");
  command.add_flag("--kernel-times", options->kernel_times,
                   "Also where a step's time goes on a GPU, kernel by kernel, with the library CUPTI");
  add_engine_flags(command, options->engine, invocation.log_level);
  command.remove_option(command.get_option("--threads"));
  command
      .add_option("--threads", options->threads,
                  "Each of these numbers of threads in turn; 0 stands alone: as serve has it")
      ->delimiter(',')
      ->option_text("N,N.. [0]");
  add_bench_serve_command(command, invocation);
  command.callback([&invocation, &command, options] {
    if (command.get_subcommands().empty()) invocation.run = [options] { return run_bench(*options); };
  });
}

}  // namespace sluice
