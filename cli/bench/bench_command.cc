#include "cli/bench/bench_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/log.h"
#include "base/progress.h"
#include "bench/machine_probe.h"
#include "bench/rounds.h"
#include "cli/exit_code.h"
#include "cli/model_path.h"
#include "cli/version.h"
#include "engine/engine_options.h"
#include "engine/option_words.h"
#include "files/json.h"
#include "kernels/device/bare_loops.h"
#include "kernels/device/isa.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

Status check_range(const char* flag, int value, int low, int high) {
  if (value >= low && value <= high) return {};
  return invalid_argument(fmt::format("{}: expected {} to {}, found {}", flag, low, high, value));
}

Status check_all(const char* flag, const std::vector<int>& values, int low, int high) {
  for (const int value : values) SLUICE_RETURN_IF_ERROR(check_range(flag, value, low, high));
  return {};
}

// Checks the numbers of threads to compare: each occurs once, and each is known before anything is measured.
Status check_threads(const BenchOptions& options) {
  const std::vector<int>& threads = options.threads;
  EngineSetup engine = options.engine;
  for (const int number : threads) {
    engine.machine.threads = number;
    SLUICE_RETURN_IF_ERROR(validate(engine));
  }
  const std::set<int> known(threads.begin(), threads.end());
  if (known.size() == threads.size() && (threads.size() < 2 || !known.contains(0))) return {};
  return invalid_argument(
      fmt::format("--threads: expected 0 alone, or other numbers, each once, found {}", fmt::join(threads, ",")));
}

Status check(const BenchOptions& options) {
  constexpr int kMostTokens = 1 << 24, kMostSequences = 4096;
  SLUICE_RETURN_IF_ERROR(check_all("--prefill", options.prefill, 0, kMostTokens));
  SLUICE_RETURN_IF_ERROR(check_all("--decode", options.decode, 0, kMostTokens));
  SLUICE_RETURN_IF_ERROR(check_all("--depth", options.depth, 0, kMostTokens));
  SLUICE_RETURN_IF_ERROR(check_all("--concurrency", options.concurrency, 1, kMostSequences));
  SLUICE_RETURN_IF_ERROR(check_range("--concurrent-prompt", options.concurrent_prompt, 1, kMostTokens));
  SLUICE_RETURN_IF_ERROR(check_range("--concurrent-tokens", options.concurrent_tokens, 1, kMostTokens));
  SLUICE_RETURN_IF_ERROR(check_range("--rounds", options.rounds, 1, 1000));
  SLUICE_RETURN_IF_ERROR(check_threads(options));
  if (options.probe_size >= 0) return {};
  return invalid_argument(fmt::format("--probe-size: expected at least 0, found {}", options.probe_size));
}

// Returns the tests that the options name, each once.
std::vector<SpeedCase> tests_of(const BenchOptions& options, bool model_drafts) {
  std::vector<SpeedCase> tests;
  for (const auto& [kind, counts] :
       {std::pair(SpeedCase::Kind::kPrefill, options.prefill), std::pair(SpeedCase::Kind::kDecode, options.decode)}) {
    for (const int depth : options.depth) {
      for (const int tokens : counts) {
        if (tokens > 0) tests.push_back({.kind = kind, .tokens = tokens, .depth = depth});
      }
    }
  }
  for (const int depth : options.depth) {
    for (const double acceptance : options.acceptance) {
      for (const bool by_model : {false, true}) {
        if (by_model && !model_drafts) continue;
        tests.push_back({.kind = SpeedCase::Kind::kSpeculative,
                         .tokens = options.decode.front(),
                         .depth = depth,
                         .drafts = options.engine.speculation.num_speculative_tokens,
                         .acceptance = acceptance,
                         .by_model = by_model});
      }
    }
  }
  for (const int concurrency : options.concurrency) {
    if (concurrency > 1) {
      tests.push_back({.kind = SpeedCase::Kind::kConcurrent,
                       .tokens = options.concurrent_tokens,
                       .concurrency = concurrency,
                       .prompt = options.concurrent_prompt});
    }
  }
  return tests;
}

Status check_lengths(const std::vector<SpeedCase>& tests, const Runner& runner) {
  if (tests.empty()) return invalid_argument("nothing to measure: give --prefill, --decode or --concurrency above 1");
  for (const SpeedCase& test : tests) {
    if (test.context() <= runner.limits().max_model_len) continue;
    return invalid_argument(fmt::format("{} needs {} tokens of one sequence, and the longest has {}", test.text(),
                                        test.context(), runner.limits().max_model_len));
  }
  return {};
}

// Turns prefix caching off, so that no test reuses an earlier one, and lets all concurrent requests run.
EngineSetup engine_options(const BenchOptions& options) {
  EngineSetup engine = options.engine;
  engine.cache.enable_prefix_caching = false;
  if (options.acceptance.empty() && options.engine.speculation.speculative == Speculative::kAuto)
    engine.speculation.speculative = Speculative::kOff;
  engine.speculation.speculative_adaptive = false;  // without adapting, no costs are measured at the start
  for (const int concurrency : options.concurrency)
    engine.scheduler.max_num_seqs = std::max(engine.scheduler.max_num_seqs, concurrency);
  return engine;
}

boost::json::object flags_json(const EngineSetup& engine, const Runner& runner, int threads) {
  return {{"compute_dtype", engine.numerics.compute_dtype},
          {"expert_dtype", engine.numerics.expert_dtype},
          {"kv_cache_dtype", engine.numerics.kv_cache_dtype},
          {"index_cache_dtype", engine.numerics.index_cache_dtype},
          {"mla_prefill", word_of(engine.numerics.mla_prefill)},
          {"profile", engine.numerics.profile},
          {"isa", isa_name(runner.exec())},
          {"threads", threads},
          {"max_num_batched_tokens", runner.limits().step_rows},
          {"scheduling_policy", word_of(engine.scheduler.scheduling_policy)}};
}

Status write_file(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file ? Status() : invalid_argument(fmt::format("--json: {} cannot be written", path.string()));
}

// Writes the JSON and, next to it, a picture of the results of the first number of threads.
Status write_results(const BenchOptions& options, const EngineSetup& engine, const std::string& model,
                     const Runner& runner, const std::vector<ThreadsResult>& results) {
  const RoundsResult& result = results.front().result;
  const Fingerprint fingerprint = take_fingerprint();
  boost::json::object json{{"program", "sluice"},
                           {"version", program_version()},
                           {"commit", program_commit()},
                           {"date", fingerprint.date},
                           {"model", model},
                           {"numerics", runner.model().profile().text()},
                           {"machine", to_json(fingerprint)},
                           {"flags", flags_json(engine, runner, results.front().threads)},
                           {"load",
                            {{"seconds", runner.load_report().seconds},
                             {"checkpoint_bytes", runner.load_report().checkpoint_bytes},
                             {"packed_bytes", runner.load_report().packed_bytes}}},
                           {"rounds", options.rounds}};
  for (auto& [key, value] : to_json(result)) json[key] = std::move(value);
  boost::json::array others;
  for (std::size_t i = 1; i < results.size(); ++i) {
    boost::json::object other{{"threads", results[i].threads}};
    for (auto& [key, value] : to_json(results[i].result)) other[key] = std::move(value);
    others.push_back(std::move(other));
  }
  if (!others.empty()) json["other_threads"] = std::move(others);
  SLUICE_RETURN_IF_ERROR(write_file(options.json, dump_json(json) + "\n"));
  return write_file(fs::path(options.json).replace_extension(".svg"),
                    to_svg(result, fmt::format("{} on {}", model, fingerprint.cpu)));
}

std::size_t probe_bytes(const BenchOptions& options, int threads) {
  return options.probe_size > 0 ? static_cast<std::size_t>(options.probe_size) : probe_bytes_per_thread(threads);
}

Status print_probe(const BenchOptions& options) {
  EngineSetup engine = options.engine;
  if (!options.threads.empty()) engine.machine.threads = options.threads.front();
  ThreadPool pool(resolve_threads(engine));
  SLUICE_ASSIGN_OR_RETURN(const KernelTable* kernels, select_kernels(engine.machine.isa, engine.machine.kernels));
  const MachineProbe probe(&pool, probe_bytes(options, pool.threads()), features_of(*kernels));
  fmt::print("{}\n", dump_json(to_json(probe.measure())));
  return {};
}

using Probe = std::function<MachineSpeed()>;

// Returns the probe of the device that the model runs on.
Result<Probe> probe_of(const BenchOptions& options, const Runner& runner) {
  Device* device = runner.exec().device;
  if (device == nullptr || device->free_bytes() == 0) {  // the host's memory
    const Exec& exec = runner.exec();
    auto probe = std::make_shared<MachineProbe>(exec.pool, probe_bytes(options, exec.pool->threads()),
                                                features_of(*exec.kernels));
    return Probe([probe] { return probe->measure(); });
  }
  SLUICE_ASSIGN_OR_RETURN(DeviceProbe made, DeviceProbe::make(device));
  return Probe([probe = std::make_shared<DeviceProbe>(std::move(made))] { return probe->measure(); });
}

void set_threads(EngineSetup& engine, int threads, Runner& runner) {
  engine.machine.threads = threads;
  runner.threads().set(resolve_threads(engine));
  if (engine.machine.pin_threads) runner.threads().pin();
  runner.threads().pin_caller();
}

Result<RoundsResult> measure(const BenchOptions& options, SpeedCases& speed_cases, const std::vector<SpeedCase>& tests,
                             const Runner& runner) {
  SLUICE_ASSIGN_OR_RETURN(const Probe probe, probe_of(options, runner));
  ProgressBar bar("runs", ProgressBar::Unit::kItems);
  return run_rounds(speed_cases, tests,
                    {.rounds = options.rounds,
                     .stages = options.stages,
                     .kernel_times = options.kernel_times,
                     .probe = probe,
                     .progress = [&bar](int done, int total) {
                       bar.update(static_cast<std::size_t>(done), static_cast<std::size_t>(total));
                     }});
}

Status bench(const BenchOptions& options) {
  SLUICE_RETURN_IF_ERROR(check(options));
  if (options.probe_only) return print_probe(options);
  EngineSetup engine = engine_options(options);
  SLUICE_ASSIGN_OR_RETURN(engine.model.folder, resolve_model(options.engine.model));
  if (!options.threads.empty()) engine.machine.threads = options.threads.front();
  if (!options.json.empty())
    SLUICE_RETURN_IF_ERROR(write_file(options.json, ""));  // fails now if it cannot be written, not after an hour
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<Runner> runner, Runner::load(engine));
  runner->threads().pin_caller();
  const std::vector<SpeedCase> tests = tests_of(options, runner->model().drafts());
  SLUICE_RETURN_IF_ERROR(check_lengths(tests, *runner));

  const std::string model = model_name(options.engine.model.folder, engine.model.folder);
  SpeedCases speed_cases(runner.get(), engine);
  std::vector<ThreadsResult> results;
  for (std::size_t i = 0; i < std::max<std::size_t>(options.threads.size(), 1); ++i) {
    if (i > 0) set_threads(engine, options.threads[i], *runner);
    SLUICE_ASSIGN_OR_RETURN(RoundsResult result, measure(options, speed_cases, tests, *runner));
    fmt::print("{}: {}, {} kernels, {} thread{}, steps of {} rows\n{}", model, runner->model().profile().text(),
               isa_name(runner->exec()), runner->threads().count(), runner->threads().count() == 1 ? "" : "s",
               runner->limits().step_rows, to_text(result));
    results.push_back({runner->threads().count(), std::move(result)});
  }
  fmt::print("{}", threads_text(results));
  return options.json.empty() ? Status() : write_results(options, engine, model, *runner, results);
}

}  // namespace

int run_bench(const BenchOptions& options) {
  return report(bench(options));
}

}  // namespace sluice
