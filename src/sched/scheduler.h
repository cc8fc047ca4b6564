// Scheduler: decides which rows of which sequences the next step computes. A pure component: it sees counts, never
// token values, tensors, clocks or I/O, so the same code runs in the server, under tests and in simulations. Its
// decisions depend on the order of the calls only.
//
// Rules, in this order:
//   1. Every decoding sequence (all but its newest token computed) gets its row. When there are as many of them as the
//   budget has
//      rows, or more, they take turns, and the oldest prompt takes part as one more sequence with one row. So each
//      decoding sequence is served within ceil(decoding / budget) steps, ceil((decoding + 1) / budget) while a prompt
//      waits, and prompts advance however many sequences decode.
//   2. What is left of the budget goes to the running sequences that still have prompt to compute, first come first,
//   each as
//      much as it can take. A span is shorter where the window pool is short of pages.
//   3. Waiting sequences are admitted in order of arrival, while there is a free place, budget left, and memory for the
//   whole
//      of prompt and answer: nothing that runs is ever interrupted. The first one that does not fit holds up the
//      others.
// Progress: a running sequence always has the pages for one row, so an idle plan means that nothing is running or
// waiting.
//
// Call order: add / end at any time between steps, then plan(), then completed() before the next plan.
// Thread safety: one thread at a time; check() is const over values fixed at construction and may be called from any.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "base/index_types.h"
#include "cache/page_geometry.h"
#include "sched/step_plan.h"
#include "sluice/status.h"

namespace sluice {

struct SchedulerLimits {
  int max_batched_tokens = 512;  // rows of one step, >= 1
  int max_seqs = 64;             // running at once, >= 1
  int max_model_len = 0;         // prompt + answer
  int latent_pages = 0, window_pages = 0;
  PageGeometry geometry;
};

// The newest token of an answer is never computed, so a sequence computes one row less than its tokens.
struct SequenceCounts {
  int prompt_tokens = 0;  // >= 1
  int max_tokens = 0;     // of the answer, >= 1
  int rows() const { return prompt_tokens + max_tokens - 1; }
};

class Scheduler {
 public:
  explicit Scheduler(const SchedulerLimits& limits);

  // Whether such a sequence can ever run; the error has the numbers.
  Status check(const SequenceCounts& counts) const;

  // `id` is any number >= 0 that no live sequence has; small ones keep the table small. The counts must pass check().
  void add(SequenceId id, const SequenceCounts& counts);
  // Ends a sequence, waiting or running: finished, cancelled or failed. Its memory counts as free at once.
  void end(SequenceId id);

  // Valid until the next call.
  const StepPlan& plan();
  // The step was computed: positions advance, and every sampled sequence that was not ended has one more token.
  void completed();

  int running() const { return decoding() + static_cast<int>(prefilling_.size()); }
  int waiting() const { return static_cast<int>(waiting_.size()); }
  const SchedulerLimits& limits() const { return limits_; }

 private:
  struct Entry {
    SequenceCounts counts;
    Position computed = 0;  // rows done
    int known = 0;          // tokens known: the prompt and what was sampled
    bool alive = false, admitted = false;
  };

  static constexpr SequenceId kPrompts{};

  int decoding() const { return static_cast<int>(turns_.size()) - 1; }
  Entry& entry(SequenceId id) { return entries_[static_cast<std::size_t>(id.value)]; }
  void take_turns();
  bool prompt_can_advance();
  void plan_decodes();
  void plan_prefills();
  void admit_waiting();
  bool fits(const Entry& e) const;
  void admit(SequenceId id);
  void plan_span(SequenceId id, int most_rows);
  int budget_left() const { return limits_.max_batched_tokens - plan_.rows; }

  SchedulerLimits limits_;
  std::vector<Entry> entries_;  // by SequenceId
  // The one that waited longest first. One element is kPrompts: the turn of the prompts.
  std::vector<SequenceId> turns_ = {kPrompts};
  std::vector<SequenceId> prefilling_;                                  // in order of arrival
  std::deque<SequenceId> waiting_;                                      // in order of arrival
  std::int64_t latent_pages_promised_ = 0, window_pages_promised_ = 0;  // to running sequences, for their whole life
  int window_pages_spare_ = 0;                                          // of this step, beyond the promised ones
  StepPlan plan_;
};

}  // namespace sluice
