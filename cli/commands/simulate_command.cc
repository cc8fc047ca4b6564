#include "cli/commands/simulate_command.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "base/progress.h"
#include "base/utf8.h"
#include "cli/exit_code.h"
#include "cli/model_path.h"
#include "config/model_config.h"
#include "engine/engine_options.h"
#include "engine/option_words.h"
#include "engine/runner/runner.h"
#include "files/json.h"
#include "files/model_path.h"
#include "model/model_plan.h"
#include "sim/cost_model.h"
#include "sim/load_estimate.h"
#include "sim/null_model.h"
#include "sim/report.h"
#include "sim/simulation.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr double kCalibrationSeconds = 3;

struct NamedRetention {
  const char* name;
  bool RetentionRules::* rule;
};
constexpr NamedRetention kRetentionRules[] = {
    {"every_64th", &RetentionRules::every_64th},
    {"before_prompt_end", &RetentionRules::before_prompt_end},
    {"at_prompt_end", &RetentionRules::at_prompt_end},
    {"message_start", &RetentionRules::message_start},
    {"finished", &RetentionRules::finished},
    {"preempted", &RetentionRules::preempted},
    {"demand", &RetentionRules::demand},
};

Result<RetentionRules> retention_without(const std::vector<std::string>& names) {
  RetentionRules rules;
  for (const std::string& name : names) {
    bool found = name == "all";
    for (const NamedRetention& rule : kRetentionRules) {
      if (name != "all" && name != rule.name) continue;
      rules.*rule.rule = false;
      found = true;
    }
    if (!found) return invalid_argument(fmt::format("--without-retention: there is no rule '{}'", name));
  }
  return rules;
}

Result<CostModel> calibrate(EngineSetup engine, const std::string& path) {
  if (is_config_path(path)) {
    return invalid_argument("--cost calibrate measures a checkpoint, and a config.json has no weights: give --cost");
  }
  engine.model.folder = path;
  engine.scheduler.max_num_batched_tokens = resolve_step_rows(engine);  // as in the simulation
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<Runner> runner, Runner::load(engine));
  SLUICE_ASSIGN_OR_RETURN(const std::vector<CostSample> samples,
                          measure_steps(runner.get(), engine.scheduler.max_num_batched_tokens, kCalibrationSeconds));
  const CostModel cost = fit_cost(samples);
  log_info("calibrated on {} steps, typical error {:.0f} %", samples.size(), 100 * cost_error(cost, samples));
  return cost;
}

Result<CostModel> cost_of(const SimulateOptions& options, const std::string& path) {
  return options.cost == "calibrate" ? calibrate(options.engine, path) : parse_cost(options.cost);
}

Result<Trace> trace_of(const SimulateOptions& options, const CostModel& cost, double* rate) {
  if (!options.trace.empty()) return read_trace(options.trace, options.hash_block_tokens);
  WorkloadOptions workload = options.workload;
  if (workload.rate == 0) {
    workload.rate = 1;
    workload.requests = std::min(workload.requests, 10'000);
    SLUICE_ASSIGN_OR_RETURN(const Trace sample, make_workload(workload));
    workload.rate = options.load * bearable_rate(sample, cost, options.engine);
    workload.requests = options.workload.requests;
  }
  *rate = workload.rate;
  return make_workload(workload);
}

json::object describe(const SimulateOptions& options, const SimulatedModel& model, const CostModel& cost, double rate) {
  const EngineSetup& engine = options.engine;
  json::object trace;
  if (options.trace.empty()) {
    trace = {{"workload", options.workload.name}, {"seed", options.workload.seed}, {"rate", rate}};
  } else {
    trace = {{"file", options.trace}};
  }
  return {{"trace", std::move(trace)},
          {"concurrency", options.concurrency},
          {"cost", cost.text()},
          {"latent_page_bytes", model.cache_layout.latent_page_bytes()},
          {"window_page_bytes", model.cache_layout.window_page_bytes()},
          {"max_num_batched_tokens", resolve_step_rows(engine)},
          {"max_num_seqs", engine.scheduler.max_num_seqs},
          {"long_prefill_token_threshold", engine.scheduler.long_prefill_token_threshold},
          {"prefix_caching", engine.cache.enable_prefix_caching}};
}

Result<SimulationOptions> simulation_options(const SimulateOptions& options, const std::string& policy,
                                             const CostModel& cost) {
  SimulationOptions simulation;
  simulation.engine = options.engine;
  simulation.engine.scheduler.scheduling_policy =
      option_of<SchedulingPolicy>(policy).value_or(SchedulingPolicy::kFcfs);  // decode-first is fcfs by another name
  simulation.cost = cost;
  simulation.acceptance = options.acceptance;
  simulation.concurrency = options.concurrency;
  simulation.by_steps = options.by_steps;
  simulation.audit_at_end = true;
  SLUICE_ASSIGN_OR_RETURN(simulation.retention, retention_without(options.without_retention));
  return simulation;
}

Result<RunReport> run_policy(const std::string& policy, SimulationOptions simulation, const Trace& trace,
                             const SimulatedModel& model) {
  ProgressBar bar(policy, ProgressBar::Unit::kItems);
  simulation.on_progress = [&bar](std::size_t done, std::size_t total) { bar.update(done, total); };
  SLUICE_ASSIGN_OR_RETURN(const SimulationResult result, simulate(trace, model, simulation));
  return make_report(policy, result);
}

Status write_report_file(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file ? Status() : internal_error(fmt::format("{}: cannot be written", path.string()));
}

Status write_report(const std::string& out, json::object summary, const std::vector<RunReport>& reports) {
  json::array runs;
  for (const RunReport& report : reports) runs.push_back(to_json(report));
  summary["runs"] = std::move(runs);
  SLUICE_RETURN_IF_ERROR(write_report_file(fs::path(out) / "summary.json", dump_json(summary) + "\n"));
  for (const ReportPlot& plot : make_plots(reports))
    SLUICE_RETURN_IF_ERROR(write_report_file(fs::path(out) / plot.file, plot.svg));
  return {};
}

// Returns the simulations that the options ask for. All errors in the options are found here, before any runs.
struct Job {
  SimulatedModel model;
  CostModel cost;
  std::vector<std::string> policies;
  std::vector<SimulationOptions> simulations;  // one for each policy
  Trace trace;
  double rate = 0;
};

Result<Job> prepare(const SimulateOptions& options) {
  Job job;
  std::error_code error;
  fs::create_directories(options.out, error);
  if (error) return invalid_argument(fmt::format("--out {}: cannot be made: {}", options.out, error.message()));
  SLUICE_ASSIGN_OR_RETURN(const std::string path, resolve_model_or_config(options.engine.model.folder));
  SLUICE_ASSIGN_OR_RETURN(ModelConfig config, load_model_config(path));
  SLUICE_ASSIGN_OR_RETURN(ModelPlan plan, plan_model(std::move(config), options.engine));
  job.model = {std::move(plan.cache_layout), plan.config.max_position_embeddings};
  SLUICE_ASSIGN_OR_RETURN(job.cost, cost_of(options, path));
  job.policies = options.policies;
  if (job.policies.empty()) job.policies.emplace_back(word_of(options.engine.scheduler.scheduling_policy));
  for (const std::string& policy : job.policies) {
    SLUICE_ASSIGN_OR_RETURN(SimulationOptions simulation, simulation_options(options, policy, job.cost));
    SLUICE_RETURN_IF_ERROR(
        null_model_options(job.model.cache_layout, job.model.max_position_embeddings, simulation.engine).status());
    job.simulations.push_back(std::move(simulation));
  }
  SLUICE_ASSIGN_OR_RETURN(job.trace, trace_of(options, job.cost, &job.rate));
  return job;
}

std::string arrivals_text(const SimulateOptions& options, double rate) {
  if (options.concurrency > 0) return fmt::format("{} at a time", options.concurrency);
  return rate > 0 ? fmt::format("{:.4g} a second arriving", rate) : "at the times of the trace";
}

Status run_all(const SimulateOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const Job job, prepare(options));
  fmt::print("{} requests, {}\n", job.trace.requests.size(), arrivals_text(options, job.rate));
  fmt::print("cost of a step: {}\n", job.cost.text());
  std::fflush(stdout);

  std::vector<RunReport> reports;
  double simulated = 0;
  const auto began = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < job.policies.size(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(RunReport report, run_policy(job.policies[i], job.simulations[i], job.trace, job.model));
    simulated += report.seconds;
    reports.push_back(std::move(report));
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  SLUICE_RETURN_IF_ERROR(write_report(options.out, describe(options, job.model, job.cost, job.rate), reports));
  fmt::print("{}{:.0f} s simulated in {:.1f} s; {}/summary.json, latency.svg, load.svg, summary.svg\n",
             to_text(reports), simulated, seconds, to_valid_utf8(options.out));
  for (const RunReport& report : reports) {
    if (report.refused > 0) fmt::print("{}: {} requests can never run and were refused\n", report.name, report.refused);
  }
  return {};
}

}  // namespace

int run_simulate(const SimulateOptions& options) {
  return report(run_all(options));
}

}  // namespace sluice
