// check_scheduling_law: random requests under random scheduling options, against each request alone. The other half of
// the proof: check_row_law drives the cache by schedules of its own, this one lets the real scheduler decide.
//
// A workload is two to eight requests (prompt, answer length, priority, choices, seed, salt, arrival and cancellation
// by step) and options (budget, policy, chunking, mixing, thresholds, caching, forced preemption, swap space, threads,
// and how many pages there are). Every token that is sampled, and the logits that it was sampled from, must be those of
// the request alone, bitwise; what a request takes over from the prefix cache must have been computed under its salt;
// after every step the auditor must be content, and in the end no page, place or swap space in use. On a difference
// requests are left out while it still differs. A workload is a function of (seed, its number), but for the choice
// between swapping and computing again, which is the scheduler's by measured costs (verify/law_requests.h). The runner
// must have no open sequences, and room for all of it (max_num_seqs >= 9).
#pragma once

#include "verify/law_check.h"

namespace sluice {

// LawOptions: all but max_step_rows and every_row. Prompts of at least one token.
Result<LawReport> check_scheduling_law(Runner& runner, std::span<const std::vector<TokenId>> prompts,
                                       const LawOptions& options);

}  // namespace sluice
