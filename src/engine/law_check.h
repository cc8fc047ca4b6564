// check_row_law: tries random schedules on a Runner and compares, bit by bit, every row's logits with those of its
// prompt run alone in one piece. The row law says that there is no difference.
//
// A schedule is a list of steps; a step runs pieces of some sequences with some number of threads. Sequences take
// prompts from a fixed set (several may take the same one), are cut at random places, run in random company and order,
// resume at blocks that others (or they themselves, before) left in the prefix cache, are preempted and computed again
// or swapped out and in, truncated, forked, aborted, and sometimes made to compute wrong tokens that are then
// forgotten, as a rejected speculation is. The conservation law is audited after every step. On a difference the
// schedule is shrunk to a small one that still differs, and the first value inside the model that differs is named. A
// schedule is a function of (seed, its number). Thread safety: the runner is used by the calling thread only; it must
// have no open sequences.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/index_types.h"
#include "engine/runner.h"
#include "sluice/status.h"

namespace sluice {

struct LawOptions {
  std::uint64_t seed = 0;
  int first_schedule = 0, schedules = 100;
  int max_sequences = 8;     // at least two
  int min_rows = 1500;       // of all sequences of a schedule together
  int max_step_rows = 1024;  // of one step
  int compare_every = 1;     // the logits of every n-th position are compared (a large vocabulary is slow)
  std::vector<int> thread_counts = {1, 2, 4};
  std::function<void(int done)> progress;  // may be null
};

struct LawDifference {
  int schedule = 0;  // run it alone: first_schedule = this, schedules = 1
  int prompt = 0;
  Position position = 0;
  std::string first_value;  // e.g. "layers.3.attn_o"; "logits" when nothing before them differs; "audit"
  std::string text;         // what differs, and the smallest schedule found
};

struct LawReport {
  int schedules = 0;
  std::int64_t comparisons = 0;     // rows whose logits were compared
  std::int64_t resumed_tokens = 0;  // that came from the prefix cache
  int preemptions = 0, swaps = 0, truncations = 0, forks = 0, aborts = 0, forgotten = 0;
  std::optional<LawDifference> difference;  // the first one; nothing runs after it
};

// What the auditor finds counts as a difference. Fails when a step cannot run.
Result<LawReport> check_row_law(Runner& runner, std::span<const std::vector<TokenId>> prompts,
                                const LawOptions& options);

}  // namespace sluice
