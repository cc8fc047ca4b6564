// Used by cli and engine.
#include "engine/engine_impl.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/philox.h"
#include "engine/engine_options.h"

namespace sluice {
namespace {

bool has_indexers(const ModelConfig& config) {
  const auto* v4 = std::get_if<DeepSeekV4Config>(&config.family);
  const auto* mla = std::get_if<DeepSeekMlaConfig>(&config.family);
  return (v4 != nullptr && std::ranges::any_of(v4->layers, [](const auto& l) { return l.compress_ratio == 4; })) ||
         (mla != nullptr && mla->index_n_heads > 0);
}

}  // namespace

std::uint64_t choice_seed(std::uint64_t seed, int choice) {
  if (choice == 0) return seed;
  const auto low = static_cast<std::uint32_t>(seed), high = static_cast<std::uint32_t>(seed >> 32);
  constexpr std::uint32_t kPurpose = 0x63686F69;  // "choi": keeps these draws apart from the sampler's
  const PhiloxCounter words = philox4x32({static_cast<std::uint32_t>(choice), 0, 0, kPurpose}, {low, high});
  return (std::uint64_t{words[1]} << 32) | words[0];
}

Result<std::unique_ptr<Engine>> start_engine(std::unique_ptr<Runner> runner, const EngineSetup& options,
                                             std::vector<std::int32_t> end_token_ids) {
  SLUICE_RETURN_IF_ERROR(validate(options));
  return std::unique_ptr<Engine>(std::make_unique<EngineImpl>(std::move(runner), options, std::move(end_token_ids)));
}

EngineImpl::EngineImpl(std::unique_ptr<Runner> runner, const EngineSetup& options,
                       std::vector<std::int32_t> end_token_ids)
    : runner_(std::move(runner)),
      stepper_(runner_.get(), options),
      asynchronous_(resolve_async_scheduling(options, computes_later(runner_->exec()))),
      audit_(options.audit),
      end_token_ids_(std::move(end_token_ids)),
      profile_(runner_->model().profile().text()),
      has_experts_(runner_->model().config().moe.n_routed_experts > 0),
      has_indexers_(has_indexers(runner_->model().config())),
      version_(std::make_shared<std::string>(runner_->load_report().weights_version)),
      last_token_(Clock::now()) {
  stepper_.record_in(&recorder_);
  publish_stats();
  files_ = runner_->files();
  thread_ = std::thread([this] { run(); });
  if (files_ != nullptr) watcher_ = std::thread([this] { watch_files(); });
}

EngineImpl::~EngineImpl() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  task_done_.notify_all();
  watch_.notify_all();
  thread_.join();
  if (watcher_.joinable()) watcher_.join();
}

Status EngineImpl::check_ids(const char* field, const std::vector<std::int32_t>& ids) const {
  const auto vocab = static_cast<std::int32_t>(runner_->limits().vocab_size);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocab) continue;
    return invalid_argument(
        fmt::format("{}: expected token ids in [0, {}), found {} at index {}", field, vocab, ids[i], i));
  }
  return {};
}

bool EngineImpl::takes_penalties() const {
  const Device* device = runner_->exec().device;
  return device == nullptr || device == &cpu_device();
}

Status EngineImpl::check_rules(const TokenRules& rules) const {
  SLUICE_RETURN_IF_ERROR(validate(rules, vocab_size()));
  if (!rules.changes_logits() || takes_penalties()) return {};
  return invalid_argument(
      "presence_penalty, frequency_penalty, repetition_penalty, logit_bias: not supported on this device; use --device "
      "cpu, or leave them out");
}

Status EngineImpl::check_exports(const RequestOptions& options) const {
  if (options.return_routed_experts && !has_experts_) {
    return invalid_argument("return_routed_experts: this model has no routed experts");
  }
  if (!options.return_sparse_indices || has_indexers_) return {};
  return invalid_argument("return_sparse_indices: this model has no indexers");
}

Status EngineImpl::check(const Request& request) const {
  if (request.prompt.empty()) return invalid_argument("prompt: expected at least one token, found none");
  SLUICE_RETURN_IF_ERROR(check_ids("prompt", request.prompt));
  SLUICE_RETURN_IF_ERROR(check_ids("prediction", request.prediction));
  if (request.max_tokens < 0)
    return invalid_argument(fmt::format("max_tokens: expected at least 0, found {}", request.max_tokens));
  if (request.n < 1 || request.n > kMaxChoices) {
    return invalid_argument(fmt::format("n: expected 1 to {}, found {}", kMaxChoices, request.n));
  }
  SLUICE_RETURN_IF_ERROR(validate(request.sampling));
  for (const TokenId id : request.sampling.logprob_ids) {
    if (id >= 0 && id < vocab_size()) continue;
    return invalid_argument(fmt::format("logprob_ids: expected token ids below {}, found {}", vocab_size(), id));
  }
  if (request.prompt_logprobs < -1 || request.prompt_logprobs > kMaxTopLogprobs) {
    return invalid_argument(
        fmt::format("prompt_logprobs: expected -1 (off) to {}, found {}", kMaxTopLogprobs, request.prompt_logprobs));
  }
  if (request.prompt_distributions) {
    const auto from = static_cast<std::size_t>(std::max(1, request.prompt_logprobs_start));
    const std::size_t rows = request.prompt.size() - std::min(request.prompt.size(), from);
    const auto bytes = static_cast<std::int64_t>(rows * static_cast<std::size_t>(vocab_size()) * sizeof(float));
    if (bytes > kMaxDistributionBytes) {
      return invalid_argument(
          fmt::format("distributions: those of {} tokens take {} bytes, more than {}: ask for fewer positions at a "
                      "time",
                      rows, bytes, kMaxDistributionBytes));
    }
  }
  SLUICE_RETURN_IF_ERROR(check_exports(request));
  if (request.prompt_logprobs_start < 0) {
    return invalid_argument(
        fmt::format("prompt_logprobs_start: expected a position, found {}", request.prompt_logprobs_start));
  }
  if (request.rules != nullptr) SLUICE_RETURN_IF_ERROR(check_rules(*request.rules));
  if (request.prompt.size() > static_cast<std::size_t>(runner_->limits().max_model_len)) {
    return invalid_argument(fmt::format("prompt: expected at most {} tokens (--max-model-len), found {}",
                                        runner_->limits().max_model_len, request.prompt.size()));
  }
  return stepper_.check(static_cast<int>(request.prompt.size()), request.max_tokens);
}

Result<RequestId> EngineImpl::submit(Request request) {
  SLUICE_RETURN_IF_ERROR(check(request));
  Arrival arrival;
  arrival.prompt = std::move(request.prompt);
  arrival.on_output = std::move(request.on_output);
  arrival.options = share(std::move(request));  // the request is constant from here on
  RequestId id = 0;
  {
    const MutexLock lock(mutex_);
    if (stop_) return unavailable("the engine is shutting down");
    if (!changed_.ok()) return changed_;
    if (!broken_.ok()) return broken_;
    id = ++last_request_id_;
    arrival.id = id;
    arrivals_.push_back(std::move(arrival));
  }
  wake_.notify_one();
  return id;
}

void EngineImpl::cancel(RequestId id, int choice) {
  {
    const MutexLock lock(mutex_);
    cancels_.push_back({id, choice});
  }
  wake_.notify_one();
}

void EngineImpl::set_paused(RequestId id, bool paused) {
  {
    const MutexLock lock(mutex_);
    pauses_.push_back({id, paused});
  }
  wake_.notify_one();
}

EngineStats EngineImpl::stats() const {
  constexpr double kNever = 1e9;
  const MutexLock lock(mutex_);
  EngineStats stats = stats_;
  stats.waiting += static_cast<int>(arrivals_.size());
  stats.waiting_for[static_cast<std::size_t>(WaitReason::kQueue)] += static_cast<int>(arrivals_.size());
  if (const Clock::rep began = turn_began_; began != 0) {
    const Clock::duration turn = Clock::now().time_since_epoch() - Clock::duration(began);
    stats.turn_seconds = std::max(0.0, std::chrono::duration<double>(turn).count());
  }
  stats.failed = !changed_.ok() || !broken_.ok();
  stats.seconds_since_last_token =
      any_token_ ? std::chrono::duration<double>(Clock::now() - last_token_).count() : kNever;
  return stats;
}

Status EngineImpl::health() const {
  const MutexLock lock(mutex_);
  return changed_.ok() ? broken_ : changed_;
}

bool EngineImpl::is_broken() const {
  return !health().ok();
}

bool EngineImpl::self_test(double seconds) {
  return !is_broken() && run_task([this] { run_self_test(); }, seconds) && !is_broken();
}

bool EngineImpl::ping(double seconds) {
  return run_task([] {}, seconds) && !is_broken();
}

bool EngineImpl::reset_prefix_cache(double seconds) {
  return run_task([this] { runner_->cache().prefix_cache().reset(); }, seconds);
}

bool EngineImpl::snapshot(double seconds, EngineSnapshot* snapshot) {
  const auto found = std::make_shared<EngineSnapshot>();  // shared: the task may run after the caller stopped waiting
  if (!run_task([this, found] { *found = stepper_.snapshot(); }, seconds)) return false;
  *snapshot = std::move(*found);
  return true;
}

bool EngineImpl::run_task(std::function<void()> work, double seconds) {
  constexpr double kLongest = 3600;
  const std::chrono::duration<double> patience(seconds > 0 ? std::min(seconds, kLongest) : 0);
  const auto task = std::make_shared<Task>();
  task->work = std::move(work);
  MutexLock lock(mutex_);
  tasks_.push_back(task);
  wake_.notify_one();
  task_done_.wait_for(lock, patience, [&]() SLUICE_REQUIRES(mutex_) { return task->done || stop_; });
  return task->done;
}

// Only the engine thread waits on wake_.
bool EngineImpl::take_inbox() {
  // Used when all work waits for paused sequences, which a caller will let go on, or end.
  constexpr std::chrono::milliseconds kLooksAgain{5};
  turn_began_ = 0;
  MutexLock lock(mutex_);
  const auto is_told = [&]() SLUICE_REQUIRES(mutex_) {
    return stop_ || !arrivals_.empty() || !cancels_.empty() || !pauses_.empty() || !tasks_.empty() ||
           stepper_.outstanding() || (broken_.ok() && !changed_.ok());
  };
  const bool blocked = stepper_.idle() ? stepper_.counts().paused > 0 && swap_ != nullptr : stepper_.counts().blocked;
  if (blocked) {
    wake_.wait_for(lock, kLooksAgain, is_told);
  } else {
    wake_.wait(lock, [&]() SLUICE_REQUIRES(mutex_) { return is_told() || !stepper_.idle() || swap_ != nullptr; });
  }
  if (stop_) return false;
  turn_began_ = Clock::now().time_since_epoch().count();
  taken_arrivals_.swap(arrivals_);
  taken_cancels_.swap(cancels_);
  taken_pauses_.swap(pauses_);
  taken_tasks_.swap(tasks_);
  return true;
}

void EngineImpl::run_tasks() {
  for (const auto& task : taken_tasks_) {
    task->work();
    publish_stats();
    const MutexLock lock(mutex_);
    task->done = true;
  }
  if (!taken_tasks_.empty()) task_done_.notify_all();
  taken_tasks_.clear();
}

void EngineImpl::publish_stats() {
  EngineStats stats;
  stepper_.fill(&stats);
  stats.generated_tokens = generated_tokens_;
  stats.finished_requests = finished_requests_;
  stats.cancelled_requests = cancelled_requests_;
  stats.step_counts = step_counts_;
  const MutexLock lock(mutex_);
  stats_ = stats;
  if (!std::exchange(made_token_, false)) return;
  last_token_ = Clock::now();
  any_token_ = true;
}

}  // namespace sluice
