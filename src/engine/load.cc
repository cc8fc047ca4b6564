// Runner::load and Engine::start, which need a checkpoint on disk. The rest of the layer works on any Model.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/progress.h"
#include "base/storage/mapping_guard.h"
#include "base/threads/cpu_topology.h"
#include "base/threads/shared_cores.h"
#include "config/generation_config.h"
#include "config/model_config.h"
#include "engine/engine_impl.h"
#include "engine/engine_options.h"
#include "engine/runner/profile_advice.h"
#include "engine/runner/runner.h"
#include "engine/runner/thread_choice.h"
#include "engine/step/step_time.h"
#include "files/model_path.h"
#include "kernels/device/cpu_features.h"
#include "kernels/device/device.h"
#include "kernels/device/isa.h"
#include "model/ranked_model.h"

namespace sluice {
namespace {

ModelUse use_of(const ModelOptions& model) {
  return model.load_format == LoadFormat::kDummy ? ModelUse::kDummy : ModelUse::kWeights;
}

void log_load(const LoadReport& report, const Model& model, const std::string& folder, const Exec& exec) {
  const double seconds = std::max(report.seconds, 1e-6);
  log_info("loaded {}: {} in {:.2f} s ({}/s), {} packed{}{}; {}, {} kernels, {} threads", folder,
           format_bytes(static_cast<double>(report.checkpoint_bytes)), report.seconds,
           format_bytes(static_cast<double>(report.checkpoint_bytes) / seconds),
           format_bytes(static_cast<double>(report.packed_bytes)), report.packing.empty() ? "" : ", ", report.packing,
           model.profile().text(), isa_name(*exec.kernels), exec.pool->threads());
  for (const std::string& note : report.notes) log_warning("{}: {}", folder, note);
  if (!report.whole.empty()) {
    log_info("{}: each rank has all of what cannot be dealt evenly: {}", folder, fmt::join(report.whole, ", "));
  }
  const NumericsProfile& profile = model.profile();
  const CpuFeatures& features = features_of(*exec.kernels);
  if (profile.name == "default" && exec.device == &cpu_device() && features.has(CpuFeature::kAmxBf16)) {
    const std::string advice =
        tiles_advice(compare_profiles(report.weights, model.config().moe, thread_peaks(features)));
    if (!advice.empty()) log_info("{}", advice);
  }
}

// Returns whether the MTP layer drafts. A device whose steps never wait for tokens has no use for it.
Result<bool> resolve_mtp(const EngineSetup& options) {
  const Speculative kind = options.speculation.speculative;
  if (kind != Speculative::kAuto) return kind == Speculative::kMtp;
  if (options.scheduler.async_scheduling == AsyncScheduling::kOn) return false;
  return has_mtp(options.model);
}

void measure_drafts(Runner& runner) {
  DraftTimes& times = runner.draft_times();
  times = measure_draft_times(runner);
  if (computes_later(runner.exec())) times.wait = measure_wait(runner);
  std::string steps;
  for (std::size_t rows = 1; rows <= times.rows.size(); rows += rows < 8 ? 1 : rows) {
    steps += fmt::format("{}: {:.3f}, ", rows, 1e3 * times.rows[rows - 1]);
  }
  log_debug("milliseconds of steps by rows: {}of a token that the model drafts {:.3f}, of a wait for tokens {:.3f}",
            steps, 1e3 * times.draft, 1e3 * times.wait);
}

}  // namespace

Result<std::unique_ptr<Runner>> Runner::load(const EngineSetup& given) {
  SLUICE_RETURN_IF_ERROR(validate(given));
  EngineSetup options = given;
  SLUICE_ASSIGN_OR_RETURN(const KernelTable* kernels, select_kernels(options.machine.isa, options.machine.kernels));
  ThreadPool pool(resolve_threads(options));
  SLUICE_ASSIGN_OR_RETURN(DeviceChoice device, choose_device(options.machine, options.numerics));
  if (device.kernels != nullptr) kernels = device.kernels;
  SLUICE_ASSIGN_OR_RETURN(options.mtp, resolve_mtp(given));
  const Exec exec{.pool = &pool, .kernels = kernels, .ops = device.ops, .device = &device.device()};
  LoadReport report;
  std::unique_ptr<Model> model;
  {
    ProgressBar bar("loading");
    const LoadProgress progress = [&bar](std::size_t done, std::size_t total) { bar.update(done, total); };
    auto loaded = device.group != nullptr
                      ? load_ranked_model(exec, *device.group, options.model.folder, options, progress, &report)
                      : load_model(exec, options.model.folder, options, progress, &report);
    if (!loaded.ok()) return loaded.status();
    model = std::move(loaded).value();
  }
  log_load(report, *model, options.model.folder, exec);
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Runner> runner,
                          create(std::move(model), kernels, options, std::move(device)));
  runner->load_report_ = std::move(report);
  runner->name_chains();
  if (options.machine.pin_threads) runner->threads().pin();
  if (options.machine.threads == 0 && !computes_later(runner->exec())) {
    const std::vector<TimedThreads> timed = choose_threads(*runner, options.machine.pin_threads);
    if (!timed.empty()) {
      log_info("{}; {} (--threads)", thread_text(timed, runner->threads().count()),
               cores_text(known_cpu_order(usable_cpus())));
    }
  }
  if (options.scheduler.max_num_batched_tokens == 0 && options.scheduler.enable_chunked_prefill) {
    // The step may fail if the cache is too small for the rows; then there is nothing to bound.
    if (const auto step = measure_step(*runner); step.ok()) {
      runner->set_step_rows(step->rows);
      log_info("a step of {} rows takes about {:.2f} s (--max-num-batched-tokens)", step->rows, step->seconds);
    }
  }
  if (most_drafts(options) > 0 && options.speculation.speculative_adaptive) measure_drafts(*runner);
  return runner;
}

Result<std::unique_ptr<Engine>> Engine::start(const EngineOptions& options) {
  if (options.model.handle_sigbus) guard_mappings();
  SLUICE_ASSIGN_OR_RETURN(const std::string folder, find_model(options.model.folder, use_of(options.model)));
  SLUICE_ASSIGN_OR_RETURN(const GenerationConfig generation, load_generation_config(folder));
  return start_engine(options, generation, {});
}

Result<std::unique_ptr<Engine>> start_engine(const EngineSetup& given, const GenerationConfig& generation,
                                             const std::vector<std::int32_t>& more_ends) {
  EngineSetup options = given;
  SLUICE_ASSIGN_OR_RETURN(options.model.folder, find_model(options.model.folder, use_of(options.model)));
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Runner> runner, Runner::load(options));
  const auto vocab = static_cast<std::int32_t>(runner->limits().vocab_size);
  std::vector<std::int32_t> ends;
  const auto add = [&](const std::vector<std::int32_t>& ids, std::string_view source) {
    for (const std::int32_t id : ids) {
      if (id < 0 || id >= vocab) {
        log_warning("{}: {} names the end token {}, but the model's vocabulary has {} tokens; it is left out",
                    options.model.folder, source, id, vocab);
      } else if (std::ranges::find(ends, id) == ends.end()) {
        ends.push_back(id);
      }
    }
  };
  add(runner->model().config().eos_token_ids, "the configuration");
  add(generation.eos_token_ids, "generation_config.json");
  add(more_ends, "the tokenizer");
  return start_engine(std::move(runner), options, std::move(ends));
}

}  // namespace sluice
