// check_row_law: tries random schedules on a Runner and compares, bit by bit, every row's logits with those of its
// prompt run alone in one piece. By the row law there is no difference.
//
// A schedule is a list of steps; a step runs pieces of some sequences with some number of threads. Sequences take
// prompts from a fixed set (several may take the same one), are cut at random places, and run in random company and
// order. They resume at blocks that others (or they themselves, before) left in the prefix cache, and are preempted and
// computed again or swapped out and in. They are truncated, forked, aborted, and sometimes made to compute wrong tokens
// that are then forgotten, as a rejected speculation is. The conservation law is audited after every step. On a
// difference the schedule is shrunk to a small one that still differs, and the first value inside the model that
// differs is named. A schedule is a function of (seed, its number). Every kLawSituations schedules have all of this by
// construction (verify/law_schedule.h). Thread safety: the runner is used by the calling thread only; it must have no
// open sequences.
// Used by verify.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "base/index_types.h"
#include "engine/runner/runner.h"
#include "sluice/status.h"
#include "verify/law_report.h"

namespace sluice {

// Any kLawSituations consecutive schedules have every kind of event and situation, in either half of the proof.
inline constexpr int kLawSituations = 4;
inline constexpr int kLongPromptEvery = 8;  // schedules; the first that has one is number 3

struct LawOptions {
  std::uint64_t seed = 0;
  int first_schedule = 0, schedules = 100;
  double seconds = 0;                 // > 0: no new schedule after this time, but at least kLawSituations of them
  int max_sequences = 8;              // most sequences of a schedule, at least two
  int min_rows = 1500;                // in all sequences of a schedule together
  int blocks_to_evict = 8;            // in prompts of strangers, more than there are pages for
  int max_step_rows = 1024;           // in one step
  bool few_long_answers = false;      // one in 12 requests of any kind goes on for a block, not every other one
  bool every_row = true;              // off: four of every 32 rows are compared (compared_row())
  int long_prompts = 0;               // the last ones, used by every kLongPromptEvery-th schedule only
  Position chooses_from = INT32_MAX;  // from this row on attention chooses among its compressed entries
  std::vector<std::pair<Position, Position>> border_rows = {};  // [first, end): compared, whatever every_row says
  bool shrink = true;                                           // off: a schedule that differs is reported as it is
  std::vector<int> thread_counts = {1, 2, 4};
  std::function<void(int done)> progress;  // may be null
};

// The rows compared if the vocabulary is so large that comparing all would take longer than computing them: rows that
// close a compressed entry (3 mod 4, among them 127 mod 128), and rows that begin one.
inline bool compared_row(const LawOptions& options, Position p) {
  const int at = p % 32;
  for (const auto& [first, end] : options.border_rows) {
    if (p >= first && p < end) return true;
  }
  return options.every_row || at == 0 || at == 3 || at == 19 || at == 31;
}

// Decides which schedules run, by number or by time.
class LawClock {
 public:
  explicit LawClock(const LawOptions& options) : options_(options) {}
  bool goes_on(int done) const {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
    return done < options_.schedules &&
           (options_.seconds <= 0 || done < kLawSituations || passed.count() < options_.seconds);
  }

 private:
  const LawOptions& options_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Checks the row law. A fault that the auditor finds counts as a difference. Fails if a step cannot run.
Result<LawReport> check_row_law(Runner& runner, std::span<const std::vector<TokenId>> prompts,
                                const LawOptions& options);

// check_moves: sequences that continue on another device. Two runners have the same model, one of them on the CPU. The
// sequences of a schedule are cut at random and moved between the two as images of the swap space, most of them several
// times. Every row's logits must be those of its prompt alone, on the CPU in one piece, bit by bit: so the devices give
// the same bits, and each can use the other's cached state. Thread safety: as check_row_law's, for both runners.

// It uses these `options`: seed, first_schedule, schedules, seconds, min_rows, max_sequences, every_row,
// max_step_rows, chooses_from, progress. A
// schedule that differs is reported as it is. Fails if a step cannot run.
Result<LawReport> check_moves(Runner& runner, Runner& cpu, std::span<const std::vector<TokenId>> prompts,
                              const LawOptions& options);

// check_scheduling_law: random requests under random scheduling options, against each request alone. The other half of
// the proof: check_row_law drives the cache by schedules of its own, this one lets the real scheduler decide.
//
// A workload is two to eight requests, further ones with structured outputs (verify/law_requests.h), and options. A
// request has a prompt, answer length, priority, choices, seed, salt, and steps of arrival and cancellation. The
// options are budget, policy, chunking, mixing, thresholds, caching, forced preemption, swap space, threads and the
// pages. Every token that is sampled, and the logits that it was sampled from, must be those of the request alone,
// bitwise. Tokens that a request takes over from the prefix cache must have been computed under its salt. After every
// step, or every fourth with asynchronous steps, the audit must pass, and in the end no page, place or swap space may
// be in use. On a difference requests are left out while it still differs. A workload is a function of (seed, its
// number), except for the choice between swapping and computing again, which the scheduler makes by measured costs
// (verify/law_requests.h). The runner must have no open sequences, and room for the whole workload (max_num_seqs >= 9).

// Uses all LawOptions except max_step_rows; every_row decides only which log-probabilities are compared. Prompts have
// at least one token.
Result<LawReport> check_scheduling_law(Runner& runner, std::span<const std::vector<TokenId>> prompts,
                                       const LawOptions& options);

}  // namespace sluice
