#include "cli/bench/bench_serve_command.h"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <cstdlib>
#include <fstream>
#include <optional>

#include "base/log.h"
#include "base/progress.h"
#include "bench/machine_probe.h"
#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "cli/version.h"
#include "files/json.h"
#include "loadgen/determinism.h"
#include "loadgen/load_run.h"
#include "loadgen/traffic_report.h"
#include "loadgen/word_scale.h"
#include "sim/workload.h"

namespace sluice {
namespace {

namespace json = boost::json;

// One run of a sweep.
struct Load {
  std::string name;
  int concurrency = 0;  // 0: open loop
  double rate = 0;      // 0: the trace's own times
  double number() const { return concurrency > 0 ? concurrency : rate; }
};

// The values that do not change between the runs.
struct Bench {
  Bench(const BenchServeOptions& options, ServerUrl url)
      : options(options),
        client(
            std::move(url),
            {.timeout_seconds = options.timeout, .authorities = options.authorities, .trust_all = options.insecure}) {}

  const BenchServeOptions& options;
  HttpClient client;
  BodyOptions body;
  WordScale scale;
  LoadRunOptions run;
  ServiceLevel slo;
  std::vector<TrafficReport> baseline;
};

Status write_report(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file ? Status() : invalid_argument(fmt::format("{}: cannot be written", path));
}

Result<json::object> parse_extra(const std::string& text) {
  if (text.empty()) return json::object();
  SLUICE_ASSIGN_OR_RETURN(json::value value, parse_json(text, "--extra-body"));
  if (!value.is_object()) return invalid_argument("--extra-body: expected a JSON object");
  return std::move(value.get_object());
}

// Returns the first model that GET /v1/models lists.
Result<std::string> served_model(HttpClient& client, const std::string& authorization) {
  std::string body, reason;
  int status = 0;
  CallEnd ended = CallEnd::kConnect;
  client.send({.method = "GET", .path = "/v1/models", .body = "", .authorization = authorization},
              {.on_head = [&](int code, bool) { status = code; },
               .on_body = [&](std::string_view bytes) { body += bytes; },
               .on_end =
                   [&](CallEnd end, const std::string& why) {
                     ended = end;
                     reason = why;
                   }});
  client.run();
  if (ended != CallEnd::kWhole) return unavailable(fmt::format("GET /v1/models: {}", reason));
  if (status != 200) return unavailable(fmt::format("GET /v1/models: status {}: {}", status, body.substr(0, 200)));
  SLUICE_ASSIGN_OR_RETURN(const json::value value, parse_json(body, "GET /v1/models"));
  boost::system::error_code error;
  const json::value* id = value.find_pointer("/data/0/id", error);
  if (id == nullptr || !id->is_string()) return unavailable("GET /v1/models lists no model: give --model");
  return std::string(id->get_string());
}

std::vector<Load> loads_of(const BenchServeOptions& options) {
  std::vector<Load> loads;
  for (const double rate : options.rates)
    loads.push_back({.name = fmt::format("{:g} a second", rate), .concurrency = 0, .rate = rate});
  for (const int concurrency : options.concurrency)
    loads.push_back({.name = fmt::format("{} at a time", concurrency), .concurrency = concurrency, .rate = 0});
  if (!loads.empty()) return loads;
  if (!options.trace.empty()) return {{.name = "at the trace's times", .concurrency = 0, .rate = 0}};
  return {{.name = "1 at a time", .concurrency = 1, .rate = 0}};
}

Result<LoadPlan> make_plan(const Bench& bench, const Load& load, std::uint64_t seed) {
  const BenchServeOptions& options = bench.options;
  if (!options.conversations.empty()) {
    return plan_of_conversations(options.conversations, {.output = options.lengths.output,
                                                         .think_ms = options.think_ms,
                                                         .rate = load.rate,
                                                         .most = options.lengths.requests,
                                                         .seed = seed});
  }
  Trace trace;
  if (!options.trace.empty()) {
    SLUICE_ASSIGN_OR_RETURN(trace, read_trace(options.trace, options.hash_block_tokens));
  } else if (!options.workload.empty()) {
    SLUICE_ASSIGN_OR_RETURN(trace, make_workload({.name = options.workload,
                                                  .requests = options.lengths.requests,
                                                  .rate = load.rate > 0 ? load.rate : 1,
                                                  .mean_input = 0,
                                                  .mean_output = 0,
                                                  .seed = seed}));
  } else {
    PlainTraceOptions lengths = options.lengths;
    lengths.seed = seed;
    if (load.rate > 0) lengths.rate = load.rate;
    SLUICE_ASSIGN_OR_RETURN(trace, make_plain_trace(lengths));
  }
  return plan_of_trace(std::move(trace), bench.body.endpoint, bench.scale, seed);
}

// Sends requests before a run, so that connections and what a server does at first are not measured.
Status warm_up(Bench& bench, std::uint64_t seed) {
  if (bench.options.warmup == 0) return {};
  PlainTraceOptions lengths = bench.options.lengths;
  lengths.requests = bench.options.warmup;
  lengths.seed = ~seed;
  lengths.shared_prefix = 0;
  SLUICE_ASSIGN_OR_RETURN(Trace trace, make_plain_trace(lengths));
  LoadPlan plan = plan_of_trace(std::move(trace), bench.body.endpoint, bench.scale, lengths.seed);
  LoadRunOptions run = bench.run;
  run.concurrency = bench.options.warmup;
  const LoadRun ran = run_load(bench.client, plan, bench.body, run);
  if (ran.interrupted) return {StatusCode::kCancelled, "interrupted"};
  for (const SentRequest& sent : ran.requests) {
    if (sent.answer.failure == Failure::kNone) return {};
  }
  if (ran.requests.empty()) return {};
  const AnswerRecord& first = ran.requests.front().answer;
  return unavailable(fmt::format("none of {} requests to warm up was answered: {}: {}", ran.requests.size(),
                                 failure_name(first.failure), first.reason));
}

double seconds_of(LoadClock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

// Writes one line a request. Times are those of the system's monotonic clock.
std::string record_lines(const std::string& name, const LoadRun& run) {
  std::string lines;
  for (const SentRequest& sent : run.requests) {
    json::array tokens;
    for (const LoadClock::time_point time : sent.answer.token_times) tokens.push_back(seconds_of(time));
    lines += dump_json(json::object{{"run", name},
                                    {"request", sent.request},
                                    {"due", seconds_of(sent.due)},
                                    {"sent", seconds_of(sent.sent)},
                                    {"end", seconds_of(sent.answer.end)},
                                    {"token_times", std::move(tokens)},
                                    {"status", sent.answer.status},
                                    {"failure", failure_name(sent.answer.failure)},
                                    {"reason", sent.answer.reason},
                                    {"prompt_tokens", sent.answer.prompt_tokens},
                                    {"cached_tokens", sent.answer.cached_tokens},
                                    {"completion_tokens", sent.answer.completion_tokens},
                                    {"finish_reason", sent.answer.finish_reason}}) +
             "\n";
  }
  return lines;
}

std::vector<std::pair<std::string, std::string>> facts_of(const Bench& bench) {
  const BenchServeOptions& options = bench.options;
  const Fingerprint machine = take_fingerprint();
  std::string requests = fmt::format("{} requests of {} + {} tokens", options.lengths.requests, options.lengths.input,
                                     options.lengths.output);
  if (options.lengths.spread > 0) requests += fmt::format(" +- {:.0f} %", 100 * options.lengths.spread);
  if (options.lengths.shared_prefix > 0)
    requests +=
        fmt::format(", {} of them from {} shared beginnings", options.lengths.shared_prefix, options.lengths.prefixes);
  if (!options.workload.empty()) requests = "workload " + options.workload;
  if (!options.trace.empty()) requests = "trace " + options.trace;
  if (!options.conversations.empty()) requests = "conversations of " + options.conversations;
  return {
      {"server", options.url},
      {"model", bench.body.model},
      {"endpoint", fmt::format("{}, {}", endpoint_path(bench.body.endpoint), options.stream ? "streamed" : "whole")},
      {"requests", requests},
      {"temperature", fmt::format("{:g}", options.temperature)},
      {"client", fmt::format("sluice {}, {}, {} cores", program_version(), machine.cpu, machine.cores)},
      {"date", machine.date}};
}

Status write_reports(const Bench& bench, const std::vector<TrafficReport>& reports,
                     const std::optional<DeterminismReport>& determinism) {
  const BenchServeOptions& options = bench.options;
  const auto facts = facts_of(bench);
  if (!options.json.empty()) {
    json::object object{{"program", "sluice bench serve"}, {"version", program_version()}};
    for (const auto& [name, value] : facts) object[name] = value;
    json::array runs;
    for (const TrafficReport& report : reports) runs.push_back(to_json(report));
    object["runs"] = std::move(runs);
    if (determinism) object["determinism"] = to_json(*determinism);
    SLUICE_RETURN_IF_ERROR(write_report(options.json, dump_json(object) + "\n").with_context("--json"));
  }
  if (options.html.empty()) return {};
  const std::string title = fmt::format("{} at {}", bench.body.model, options.url);
  return write_report(options.html, to_html(title, facts, reports, bench.baseline)).with_context("--html");
}

Result<std::vector<TrafficReport>> run_loads(Bench& bench, bool* interrupted) {
  const BenchServeOptions& options = bench.options;
  std::vector<TrafficReport> reports;
  std::string records;
  std::uint64_t seed = options.lengths.seed;  // each run has another seed, so that no run's prompts are cached
  for (const Load& load : loads_of(options)) {
    SLUICE_RETURN_IF_ERROR(warm_up(bench, seed));
    SLUICE_ASSIGN_OR_RETURN(LoadPlan plan, make_plan(bench, load, seed++));
    LoadRunOptions run = bench.run;
    run.concurrency = load.concurrency;
    ProgressBar bar(load.name, ProgressBar::Unit::kItems);
    run.on_progress = [&bar](std::size_t done, std::size_t total) { bar.update(done, total); };
    const LoadRun ran = run_load(bench.client, plan, bench.body, run);
    reports.push_back(make_traffic_report(load.name, load.number(), ran, bench.slo));
    if (!options.record.empty()) records += record_lines(load.name, ran);
    *interrupted = ran.interrupted;
    if (ran.interrupted) break;
  }
  if (!options.record.empty()) SLUICE_RETURN_IF_ERROR(write_report(options.record, records).with_context("--record"));
  return reports;
}

Result<std::unique_ptr<Bench>> prepare(const BenchServeOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(ServerUrl url, parse_server_url(options.url));
  auto bench = std::make_unique<Bench>(options, std::move(url));
  if (const char* key = std::getenv(options.api_key_env.c_str()); key != nullptr && *key != '\0')
    bench->run.authorization = std::string("Bearer ") + key;
  bench->run.interrupted = take_interrupt;
  Result<LoadEndpoint> endpoint = parse_load_endpoint(options.endpoint);
  SLUICE_RETURN_IF_ERROR(endpoint.status().with_context("--endpoint"));
  if (!options.conversations.empty() && *endpoint != LoadEndpoint::kChat)
    return invalid_argument("--conversations: expected --endpoint chat, found " + options.endpoint);
  Result<ServiceLevel> slo = parse_service_level(options.slo);
  SLUICE_RETURN_IF_ERROR(slo.status().with_context("--slo"));
  bench->slo = *slo;
  if (!options.baseline.empty()) {
    SLUICE_ASSIGN_OR_RETURN(bench->baseline, read_traffic_reports(options.baseline));
  }
  SLUICE_ASSIGN_OR_RETURN(json::object extra, parse_extra(options.extra_body));
  bench->body = {.endpoint = *endpoint,
                 .model = options.model,
                 .stream = options.stream,
                 .logprobs = false,
                 .ignore_eos = options.ignore_eos && !options.check_determinism,
                 .temperature = options.temperature,
                 .seed = options.lengths.seed,
                 .extra = std::move(extra)};
  SLUICE_RETURN_IF_ERROR(bench->client.resolve());
  if (bench->body.model.empty()) {
    SLUICE_ASSIGN_OR_RETURN(bench->body.model, served_model(bench->client, bench->run.authorization));
  }
  if (*endpoint != LoadEndpoint::kIds) {
    SLUICE_ASSIGN_OR_RETURN(bench->scale, measure_word_scale(bench->client, bench->body, bench->run));
  }
  return bench;
}

Status run_all(const BenchServeOptions& options) {
  const InterruptScope interrupts;
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<Bench> bench, prepare(options));
  std::optional<DeterminismReport> determinism;
  std::vector<TrafficReport> reports;
  bool interrupted = false;
  if (options.check_determinism) {
    const Load load = loads_of(options).front();
    SLUICE_ASSIGN_OR_RETURN(LoadPlan plan, make_plan(*bench, load, options.lengths.seed));
    const int together = load.concurrency > 1 ? load.concurrency : static_cast<int>(plan.trace.requests.size());
    LoadRunOptions run = bench->run;
    ProgressBar bar("asking", ProgressBar::Unit::kItems);
    run.on_progress = [&bar](std::size_t done, std::size_t total) { bar.update(done, total); };
    determinism = check_determinism(bench->client, plan, bench->body, run, together);
    fmt::print("{}", to_text(*determinism));
  } else {
    SLUICE_ASSIGN_OR_RETURN(reports, run_loads(*bench, &interrupted));
    fmt::print("{}{}", to_text(reports), comparison_text(reports, bench->baseline));
  }
  SLUICE_RETURN_IF_ERROR(write_reports(*bench, reports, determinism));
  if (interrupted || (determinism && determinism->interrupted)) return {StatusCode::kCancelled, "interrupted"};
  if (determinism && !determinism->same()) return internal_error("answers depend on what else the server does");
  for (const TrafficReport& report : reports) {
    if (report.failed() > 0) return internal_error(fmt::format("{}: {} requests failed", report.name, report.failed()));
  }
  return {};
}

}  // namespace

int run_bench_serve(const BenchServeOptions& options) {
  return report(run_all(options));
}

}  // namespace sluice
