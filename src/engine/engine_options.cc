#include "engine/engine_options.h"

#include <fmt/format.h>

#include <cstdint>

#include "base/machine.h"

namespace sluice {
namespace {

Status in_range(const char* flag, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value >= low && value <= high) return {};
  return invalid_argument(fmt::format("{}: expected {} to {}, found {}", flag, low, high, value));
}

}  // namespace

Status validate(const EngineOptions& options) {
  constexpr int kMaxThreads = 1024, kMaxSeqs = 1 << 16, kMaxRows = 1 << 20;
  SLUICE_RETURN_IF_ERROR(in_range("--threads", options.threads, 0, kMaxThreads));
  SLUICE_RETURN_IF_ERROR(in_range("--max-num-seqs", options.max_num_seqs, 1, kMaxSeqs));
  SLUICE_RETURN_IF_ERROR(in_range("--max-num-batched-tokens", options.max_num_batched_tokens, 1, kMaxRows));
  SLUICE_RETURN_IF_ERROR(in_range("--max-model-len", options.max_model_len, 0, INT32_MAX));
  return in_range("--kv-cache-memory", options.kv_cache_memory, 0, INT64_MAX);
}

int resolve_threads(const EngineOptions& options) {
  return options.threads > 0 ? options.threads : usable_cores();
}

std::size_t resolve_kv_cache_memory(const EngineOptions& options) {
  return options.kv_cache_memory > 0 ? static_cast<std::size_t>(options.kv_cache_memory) : usable_memory() / 4;
}

}  // namespace sluice
