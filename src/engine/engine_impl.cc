#include "engine/engine_impl.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace sluice {
namespace {

// The pools without the pages that are kept back for the health probe (cache/memory_plan.h).
SchedulerLimits limits_of(const Runner& runner, const EngineOptions& options) {
  const CachePools& pools = runner.pools();
  return {.max_batched_tokens = options.max_num_batched_tokens,
          .max_seqs = pools.plan().sequences,
          .max_model_len = runner.max_model_len(),
          .latent_pages = std::max(0, pools.latents().total() - 1),
          .window_pages = std::max(0, pools.windows().total() - 1),
          .geometry = pools.geometry()};
}

}  // namespace

Engine::Impl::Impl(std::unique_ptr<Runner> runner, const EngineOptions& options,
                   std::vector<std::int32_t> end_token_ids)
    : runner_(std::move(runner)),
      scheduler_(limits_of(*runner_, options)),
      end_token_ids_(std::move(end_token_ids)),
      last_token_(Clock::now()),
      samplers_(static_cast<std::size_t>(runner_->threads())) {
  publish_stats();
  thread_ = std::thread([this] { run(); });
}

Engine::Impl::~Impl() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  probed_.notify_all();
  thread_.join();
}

Status Engine::Impl::check(const Request& request) const {
  if (request.prompt.empty()) return invalid_argument("prompt: expected at least one token, found none");
  const auto vocab = static_cast<std::int32_t>(runner_->vocab_size());
  for (std::size_t i = 0; i < request.prompt.size(); ++i) {
    if (request.prompt[i] < 0 || request.prompt[i] >= vocab) {
      return invalid_argument(
          fmt::format("prompt: expected token ids in [0, {}), found {} at index {}", vocab, request.prompt[i], i));
    }
  }
  if (request.max_tokens < 0)
    return invalid_argument(fmt::format("max_tokens: expected at least 0, found {}", request.max_tokens));
  SLUICE_RETURN_IF_ERROR(validate(request.sampling));
  if (request.prompt.size() > static_cast<std::size_t>(runner_->max_model_len())) {
    return invalid_argument(fmt::format("prompt: expected at most {} tokens (--max-model-len), found {}",
                                        runner_->max_model_len(), request.prompt.size()));
  }
  return scheduler_.check({static_cast<int>(request.prompt.size()), request.max_tokens});
}

Result<RequestId> Engine::Impl::submit(Request request) {
  SLUICE_RETURN_IF_ERROR(check(request));
  RequestId id = 0;
  {
    std::lock_guard lock(mutex_);
    if (stop_) return unavailable("the engine is shutting down");
    id = ++last_request_id_;
    arrivals_.push_back({id, std::move(request)});
  }
  wake_.notify_one();
  return id;
}

void Engine::Impl::cancel(RequestId id) {
  {
    std::lock_guard lock(mutex_);
    cancels_.push_back(id);
  }
  wake_.notify_one();
}

EngineStats Engine::Impl::stats() const {
  constexpr double kNever = 1e9;
  std::lock_guard lock(mutex_);
  EngineStats stats = stats_;
  stats.waiting += static_cast<int>(arrivals_.size());
  stats.seconds_since_last_token =
      any_token_ ? std::chrono::duration<double>(Clock::now() - last_token_).count() : kNever;
  return stats;
}

bool Engine::Impl::probe(double seconds) {
  constexpr double kLongest = 3600;
  const std::chrono::duration<double> patience(seconds > 0 ? std::min(seconds, kLongest) : 0);
  std::unique_lock lock(mutex_);
  const std::uint64_t mine = ++probes_wanted_;
  wake_.notify_one();
  probed_.wait_for(lock, patience, [&] { return probes_done_ >= mine || stop_; });
  return probes_done_ >= mine;
}

// Only the engine thread waits on wake_.
bool Engine::Impl::take_inbox() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [&] {
    return stop_ || !arrivals_.empty() || !cancels_.empty() || probes_wanted_ > probes_done_ ||
           scheduler_.running() > 0 || scheduler_.waiting() > 0;
  });
  if (stop_) return false;
  taken_arrivals_.swap(arrivals_);
  taken_cancels_.swap(cancels_);
  taken_probes_ = probes_wanted_ > probes_done_ ? probes_wanted_ : 0;
  return true;
}

void Engine::Impl::publish_stats() {
  counters_.running = scheduler_.running();
  counters_.waiting = scheduler_.waiting();
  counters_.cache_bytes_total = static_cast<std::int64_t>(runner_->pools().bytes_total());
  counters_.cache_bytes_used = static_cast<std::int64_t>(runner_->pools().bytes_used());
  std::lock_guard lock(mutex_);
  stats_ = counters_;
  if (!std::exchange(made_token_, false)) return;
  last_token_ = Clock::now();
  any_token_ = true;
}

}  // namespace sluice
