// Used by cli, engine, sim and verify.
#include "engine/engine_options.h"

#include <fmt/format.h>

#include <cstdint>

#include "base/threads/machine.h"
#include "cache/fault.h"
#include "engine/option_words.h"
#include "model/weights/dummy_checkpoint.h"

namespace sluice {
namespace {

Status in_range(const char* flag, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value >= low && value <= high) return {};
  return invalid_argument(fmt::format("{}: expected {} to {}, found {}", flag, low, high, value));
}

bool asks_for_drafts(const SpeculationOptions& options) {
  return options.speculative == Speculative::kMtp || options.speculative == Speculative::kNgram;
}

Status validate(const SpeculationOptions& options, const SchedulerOptions& scheduler) {
  SLUICE_RETURN_IF_ERROR(in_range("--num-speculative-tokens", options.num_speculative_tokens, 1, kMostDrafts));
  if (!asks_for_drafts(options) || scheduler.async_scheduling != AsyncScheduling::kOn) return {};
  return invalid_argument(
      fmt::format("--speculative {}: drafts are made from tokens that --async-scheduling on does not wait for; leave "
                  "out one of them",
                  word_of(options.speculative)));
}

}  // namespace

Status validate(const EngineSetup& options) {
  constexpr int kMaxThreads = 1024, kMaxSeqs = 1 << 16, kMaxRows = 1 << 20;
  SLUICE_RETURN_IF_ERROR(
      in_range("--tensor-parallel-size", options.machine.tensor_parallel_size, 1, kMostTensorParallel));
  SLUICE_RETURN_IF_ERROR(in_range("--collective-timeout", options.machine.collective_timeout, 1, 3600));
  SLUICE_RETURN_IF_ERROR(in_range("--threads", options.machine.threads, 0, kMaxThreads));
  SLUICE_RETURN_IF_ERROR(in_range("--max-num-seqs", options.scheduler.max_num_seqs, 1, kMaxSeqs));
  SLUICE_RETURN_IF_ERROR(in_range("--max-num-batched-tokens", options.scheduler.max_num_batched_tokens, 0, kMaxRows));
  SLUICE_RETURN_IF_ERROR(in_range("--max-model-len", options.model.max_model_len, 0, INT32_MAX));
  SLUICE_RETURN_IF_ERROR(in_range("--dummy-experts", options.model.dummy_experts, 0, INT32_MAX));
  if (options.model.balanced_experts && !is_dummy(options.model)) {
    return invalid_argument(fmt::format("--balanced-experts: expected --load-format dummy beside it, found {}",
                                        word_of(options.model.load_format)));
  }
  if (options.model.dummy_experts > 0 && !is_dummy(options.model)) {
    return invalid_argument(fmt::format("--dummy-experts {}: expected --load-format dummy beside it, found {}",
                                        options.model.dummy_experts, word_of(options.model.load_format)));
  }
  SLUICE_RETURN_IF_ERROR(in_range("--kv-cache-memory", options.cache.kv_cache_memory, 0, INT64_MAX));
  SLUICE_RETURN_IF_ERROR(
      in_range("--long-prefill-token-threshold", options.scheduler.long_prefill_token_threshold, 0, INT32_MAX));
  SLUICE_RETURN_IF_ERROR(in_range("--swap-space", options.cache.swap_space, 0, INT64_MAX));
  SLUICE_RETURN_IF_ERROR(in_range("--force-preempt-every", options.testing.force_preempt_every, 0, INT32_MAX));
  SLUICE_RETURN_IF_ERROR(in_range("hidden_latent_pages", options.testing.hidden_latent_pages, 0, INT32_MAX / 2));
  if (!options.cache.swap_dir.empty() && options.cache.swap_space == 0) {
    return invalid_argument(
        fmt::format("--swap-dir {}: expected --swap-space SIZE beside it, how much may be kept there, found none",
                    options.cache.swap_dir));
  }
  if (!options.scheduler.enable_chunked_prefill && options.scheduler.long_prefill_token_threshold > 0) {
    return invalid_argument(
        fmt::format("--long-prefill-token-threshold {}: cuts prompts into chunks, which --no-enable-chunked-prefill "
                    "forbids; leave out one of them",
                    options.scheduler.long_prefill_token_threshold));
  }
  SLUICE_RETURN_IF_ERROR(validate(options.speculation, options.scheduler));
  return parse_fault(options.testing.inject_fault).status();
}

bool resolve_async_scheduling(const EngineSetup& options, bool device_computes_later) {
  const AsyncScheduling asked = options.scheduler.async_scheduling;
  const bool fixed = asks_for_drafts(options.speculation) && !options.speculation.speculative_adaptive;
  return asked == AsyncScheduling::kOn || (asked == AsyncScheduling::kAuto && device_computes_later && !fixed);
}

bool waits_where_drafts_pay(const EngineSetup& options, bool device_computes_later) {
  return most_drafts(options) > 0 && options.scheduler.async_scheduling == AsyncScheduling::kAuto &&
         resolve_async_scheduling(options, device_computes_later);
}

int most_drafts(const EngineSetup& options) {
  return options.speculation.speculative == Speculative::kOff ? 0 : options.speculation.num_speculative_tokens;
}

Status check_unchunked(const EngineSetup& options, int max_model_len, const PageGeometry& geometry,
                       const MemoryPlan& plan) {
  if (options.scheduler.enable_chunked_prefill) return {};
  if (resolve_step_rows(options) < max_model_len) {
    return invalid_argument(
        fmt::format("--no-enable-chunked-prefill computes a prompt in one step, so it needs --max-num-batched-tokens "
                    "of at least --max-model-len, found {} and {}: raise the first, lower the second, or allow chunks",
                    resolve_step_rows(options), max_model_len));
  }
  const int needed = plan.sequences * geometry.steady_window_pages() + geometry.extra_window_pages(max_model_len) + 1;
  if (!geometry.has_windows || plan.window_pages >= needed) return {};
  return invalid_argument(fmt::format(
      "--no-enable-chunked-prefill: a prompt of --max-model-len {} tokens in one step needs {} window pages, "
      "but --kv-cache-memory has {}: give it more memory, lower --max-model-len or allow chunks",
      max_model_len, needed, plan.window_pages));
}

int resolve_step_rows(const EngineSetup& options, int unset) {
  return options.scheduler.max_num_batched_tokens > 0 ? options.scheduler.max_num_batched_tokens : unset;
}

int resolve_threads(const EngineSetup& options) {
  return options.machine.threads > 0 ? options.machine.threads : usable_cores();
}

std::size_t resolve_kv_cache_memory(const EngineSetup& options) {
  return options.cache.kv_cache_memory > 0 ? static_cast<std::size_t>(options.cache.kv_cache_memory)
                                           : usable_memory() / 4;
}

}  // namespace sluice
