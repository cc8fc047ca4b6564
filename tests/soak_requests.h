// Requests of random shape for the soak (soak_test.cc): many with common beginnings, some repeated, some of one token,
// some too large, some to be cancelled in whatever state they are in by then.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "sluice/engine.h"

namespace sluice {

struct SoakRequest {
  std::vector<std::int32_t> prompt;
  int max_tokens = 1, n = 1, priority = 0;
  std::string salt;
  std::vector<std::int32_t> message_starts, stops;
  SamplingParams sampling;
  bool too_large = false;

  // When it is cancelled, if at all, and which choice; -1: all of them.
  enum class Abort { kNever, kAtOnce, kAfterSteps, kAfterTokens };
  Abort abort = Abort::kNever;
  int abort_after = 0, aborted_choice = -1;
};

class SoakRequests {
 public:
  // Ids below `vocab`; no prompt and answer longer than max_model_len, but for those that are too large.
  SoakRequests(std::uint64_t seed, int vocab, int max_model_len)
      : random_(seed), vocab_(vocab), max_model_len_(max_model_len) {}

  SoakRequest next();

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  bool one_in(int n) { return below(n) == 0; }
  void add_tokens(std::vector<std::int32_t>* prompt, int count, std::uint64_t seed) const;
  void choose_abort(SoakRequest* r);

  std::mt19937_64 random_;
  int vocab_, max_model_len_;
};

}  // namespace sluice
