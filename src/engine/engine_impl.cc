#include "engine/engine_impl.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/philox.h"
#include "engine/engine_options.h"

namespace sluice {

std::uint64_t choice_seed(std::uint64_t seed, int choice) {
  if (choice == 0) return seed;
  const auto low = static_cast<std::uint32_t>(seed), high = static_cast<std::uint32_t>(seed >> 32);
  constexpr std::uint32_t kPurpose = 0x63686F69;  // "choi": apart from the draws of the sampler
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
      audit_(options.audit),
      end_token_ids_(std::move(end_token_ids)),
      last_token_(Clock::now()) {
  publish_stats();
  thread_ = std::thread([this] { run(); });
}

EngineImpl::~EngineImpl() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  task_done_.notify_all();
  thread_.join();
}

Status EngineImpl::check_ids(const char* field, const std::vector<std::int32_t>& ids) const {
  const auto vocab = static_cast<std::int32_t>(runner_->vocab_size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocab) continue;
    return invalid_argument(
        fmt::format("{}: expected token ids in [0, {}), found {} at index {}", field, vocab, ids[i], i));
  }
  return {};
}

Status EngineImpl::check_rules(const TokenRules& rules) const {
  SLUICE_RETURN_IF_ERROR(validate(rules, vocab_size()));
  const Device* device = runner_->exec().device;
  if (!rules.changes_logits() || device == nullptr || device == &cpu_device()) return {};
  return invalid_argument(
      "presence_penalty, frequency_penalty, repetition_penalty, logit_bias: not supported on this device; use --device "
      "cpu, or leave them out");
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
  if (request.rules != nullptr) SLUICE_RETURN_IF_ERROR(check_rules(*request.rules));
  if (request.prompt.size() > static_cast<std::size_t>(runner_->max_model_len())) {
    return invalid_argument(fmt::format("prompt: expected at most {} tokens (--max-model-len), found {}",
                                        runner_->max_model_len(), request.prompt.size()));
  }
  return stepper_.check(static_cast<int>(request.prompt.size()), std::max(1, request.max_tokens));
}

Result<RequestId> EngineImpl::submit(Request request) {
  SLUICE_RETURN_IF_ERROR(check(request));
  RequestId id = 0;
  {
    std::lock_guard lock(mutex_);
    if (stop_) return unavailable("the engine is shutting down");
    if (!broken_.ok()) return broken_;
    id = ++last_request_id_;
    arrivals_.push_back({id, std::move(request)});
  }
  wake_.notify_one();
  return id;
}

void EngineImpl::cancel(RequestId id, int choice) {
  {
    std::lock_guard lock(mutex_);
    cancels_.push_back({id, choice});
  }
  wake_.notify_one();
}

EngineStats EngineImpl::stats() const {
  constexpr double kNever = 1e9;
  std::lock_guard lock(mutex_);
  EngineStats stats = stats_;
  stats.waiting += static_cast<int>(arrivals_.size());
  stats.seconds_since_last_token =
      any_token_ ? std::chrono::duration<double>(Clock::now() - last_token_).count() : kNever;
  return stats;
}

bool EngineImpl::self_test(double seconds) {
  return run_task([this] { run_self_test(); }, seconds);
}

bool EngineImpl::reset_prefix_cache(double seconds) {
  return run_task([this] { stepper_.reset_prefix_cache(); }, seconds);
}

bool EngineImpl::run_task(std::function<void()> work, double seconds) {
  constexpr double kLongest = 3600;
  const std::chrono::duration<double> patience(seconds > 0 ? std::min(seconds, kLongest) : 0);
  const auto task = std::make_shared<Task>();
  task->work = std::move(work);
  std::unique_lock lock(mutex_);
  tasks_.push_back(task);
  wake_.notify_one();
  task_done_.wait_for(lock, patience, [&] { return task->done || stop_; });
  return task->done;
}

// Only the engine thread waits on wake_.
bool EngineImpl::take_inbox() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [&] {
    return stop_ || !arrivals_.empty() || !cancels_.empty() || !tasks_.empty() || !stepper_.idle() ||
           stepper_.outstanding();
  });
  if (stop_) return false;
  taken_arrivals_.swap(arrivals_);
  taken_cancels_.swap(cancels_);
  taken_tasks_.swap(tasks_);
  return true;
}

void EngineImpl::run_tasks() {
  for (const auto& task : taken_tasks_) {
    task->work();
    publish_stats();
    std::lock_guard lock(mutex_);
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
  std::lock_guard lock(mutex_);
  stats_ = stats;
  if (!std::exchange(made_token_, false)) return;
  last_token_ = Clock::now();
  any_token_ = true;
}

}  // namespace sluice
