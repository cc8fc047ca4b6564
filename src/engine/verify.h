// verify: the laws, tried on a model and a machine. Half of the schedules drive the cache directly (check_row_law),
// half let the real scheduler decide (check_scheduling_law). docs/laws.md says what they are and why they hold. Thread
// safety: none needed; it owns what it works with.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/law_check.h"
#include "model/cache_layout.h"
#include "sluice/engine.h"
#include "sluice/status.h"

namespace sluice {

struct VerifyOptions {
  EngineOptions engine;  // of which the model, the numerics, the threads and the fault count
  std::uint64_t seed = 0;
  int schedules = 100;
  std::function<void(int done, int total)> progress;  // may be null
};

struct VerifyReport {
  LawReport laws;  // of both halves together; differences: at most one, nothing runs after it
  std::string profile, isa;
  int threads = 0;
  double seconds = 0;
  bool sound() const { return !laws.difference.has_value(); }
};

// A failed audit is a difference too. Fails when the model cannot be loaded or run, or the options give up the laws.
Result<VerifyReport> verify(const VerifyOptions& options);

// Prompts around the boundaries of everything that has one: 4 tokens (CSA), 128 (blocks, HCA), 256 (attention's
// splits), up to several blocks; two of them begin alike. Random ids below `vocab`, always the same.
std::vector<std::vector<TokenId>> law_prompts(std::size_t vocab);

// `options` with the memory, places and limits that schedules over law_prompts() need, and the audit on.
Result<EngineOptions> law_options(EngineOptions options, const CacheLayout& layout);

}  // namespace sluice
