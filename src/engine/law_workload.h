// check_scheduling_law: random requests under random scheduling options, against each request alone. The other half of
// the proof: check_row_law drives the cache by schedules of its own, this one lets the real scheduler decide.
//
// A workload is two to eight requests (prompt, answer length, priority, choices, seed, salt, arrival and cancellation
// by step) and options (budget, policy, chunking, mixing, thresholds, caching, forced preemption, threads, and how many
// pages are missing from the pool). Every token that is sampled, and the logits that it was sampled from, must be those
// of the request alone, bitwise; after every step the auditor must be content, and in the end the memory empty. On a
// difference requests are left out while it still differs. A workload is a function of (seed, its number). The runner
// must have no open sequences, and room for all of it (max_num_seqs >= 9).
#pragma once

#include "engine/law_check.h"

namespace sluice {

// LawOptions: seed, first_schedule, schedules, thread_counts, progress. Prompts of at least one token.
Result<LawReport> check_scheduling_law(Runner& runner, std::span<const std::vector<TokenId>> prompts,
                                       const LawOptions& options);

}  // namespace sluice
