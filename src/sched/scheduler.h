// Scheduler: decides which rows of which sequences the next step computes, and who enters and leaves the memory for it.
// A pure component: it sees counts, never token values, tensors, clocks or I/O, so the same code runs in the server,
// under tests and in simulations. Its decisions depend on the order of the calls and the answers of the SchedulerMemory
// only.
//
// A sequence waits, or it runs: it holds memory. A running one either has known tokens to compute before its next token
// can be sampled (a prompt, or what a preemption dropped: called a prompt here), or it decodes: all but its newest
// token are computed.
//
// Rows of a step (B = max_batched_tokens):
//   1. Every decoding sequence gets its row. More than B of them take turns, each within ceil(decoding / B) steps;
//      turns that are not due may be passed over for prompts (decode_turns.h has the rule and its proof). While exactly
//      B decode, that bound leaves no row to prompts.
//   2. The rest, b rows, goes to prompts, running and waiting ones alike, by policy; a waiting one is admitted when it
//      gets rows. A span that does not end its prompt ends at a block boundary if others use the rows that this costs,
//      and these are less than a quarter. The last of several prompts gets no sliver: none rather than less than
//      min(64, b / 8) rows, unless they end it.
//   3. Without chunked_prefill, a prompt is computed in one span; when that does not fit beside the decodes, the next
//      step has none. Without mixed, steps of prompts and steps of decodes alternate. In both cases no two steps
//      without decodes follow each other while there are any, so a turn takes at most 2 ceil(decoding / B) steps.
//
// Fair shares (kFair). Let h = ceil(b / 2), g = floor(b / 2) with the smallest b of the time, both at most the
// threshold, and less what alignment costs, which is less than a quarter:
//   - None starves: while memory and places suffice, the first token of a prompt takes at most as many steps as the sum
//     of ceil(rows / h) over it and all older ones. For each step gives h rows to the oldest, or ends it. Waiting for a
//     shared prefix adds at most kMaxShareWaits, and one step for each 32 other sequences that begin to wait for one.
//   - A short one does not wait for a long one: beside one older prompt, whatever its length, one of r rows takes
//     ceil(r / g) steps.
//
// Memory:
//   - Windows are a promise: steady_window_pages() for each running sequence, and what a longer span needs beyond that
//     for the step, from the unpromised ones; the span is shorter where these are short.
//   - Latents are those that are free now. The pages for all known tokens of a running prompt are promised to it. A
//     waiting sequence is admitted if the unpromised free pages are enough for all its known tokens, beside the
//     watermark; the watermark is ignored when nothing runs.
//   - The first that finds no room holds up the others; under kFair at most kMaxBypasses others pass it. It then waits
//     at most for the ends of those that run.
//   - A decode that grows into a new page, when none is unpromised, preempts the lowest-ranked running sequence, at
//     last itself. The best running sequence is never preempted for memory: it could have all pages, and check()
//     refuses what does not fit in these. No sequence with a span in the plan is preempted.
//   - A preempted sequence keeps its rank, so it comes back first, and its tokens: it is computed anew, from what the
//     prefix cache still has, or swapped: its state is kept elsewhere and restored. Swapping is chosen if both costs
//     are set, computed rows * recompute_cost_per_row > 2 * pages * swap_cost_per_page, and can_swap(); can_swap() is
//     asked last, so a true answer means a swap.
//   - A plan that preempts for memory admits nobody; in one that preempts otherwise, every page of a prefix hit counts
//     as taken from the free ones, since its holder may be the one that leaves.
// Progress: if anything lives, the plan has a span, but for the plan in which force_preemption() takes the last running
// sequence away. For what runs can always compute a row, and when nothing runs the first that waits fits. The best
// running sequence gets nearer to its end, so by induction every sequence ends (under kPriority: while better ones stop
// coming).
//
// Call order: add / fork / end / force_preemption at any time between steps, then plan(), then completed() before the
// next plan; end and lost also between these two. A plan of 1,000 decodes takes some 10 us; all else is O(log waiting)
// each. Thread safety: one thread at a time; check() is const over values fixed at construction and may be called from
// any.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "base/index_types.h"
#include "cache/page_geometry.h"
#include "sched/decode_turns.h"
#include "sched/prompt_order.h"
#include "sched/scheduler_memory.h"
#include "sched/step_plan.h"
#include "sluice/status.h"

namespace sluice {

enum class SchedulingPolicy {
  kFair,  // half of the rows to the oldest prompt, the others to those with the fewest rows to compute; what one half
          // leaves the other takes
  kFcfs,  // in order of arrival, each as much as it can take
  kPriority,  // the same by (priority, arrival); and the best waiting sequence preempts running ones of strictly worse
              // priority, the worst and latest first, when that gives it the memory or the place it lacks
  kPrefillFirst,  // kFcfs without rule 1: while any prompt can advance, a step has no decodes, so they starve. What
                  // engines do whose steps are of one kind; to be compared with, in simulations
};

struct SchedulerLimits {
  int max_batched_tokens = 512;  // rows of one step, >= 1
  int max_seqs = 64;             // running at once, >= 1
  int max_model_len = 0;         // prompt + answer
  int latent_pages = 0, window_pages = 0;
  PageGeometry geometry;
  int long_prefill_token_threshold = 0;  // most rows of a prompt in one step; 0: no limit
  bool chunked_prefill = true;           // off needs max_batched_tokens >= max_model_len, and has no threshold
  bool mixed = true;                     // prompts and decodes in one step
  SchedulingPolicy policy = SchedulingPolicy::kFair;
  int watermark_pages = -1;           // free latent pages that an admission leaves; -1: 1% of them, at least one
  double recompute_cost_per_row = 0;  // in any unit
  double swap_cost_per_page = 0;      // one way, in the same unit; 0: never swap
};

// The newest token of an answer is never computed, so a sequence computes one row less than its tokens.
struct SequenceCounts {
  int prompt_tokens = 0;  // >= 1
  int max_tokens = 0;     // of the answer, >= 1
  int priority = 0;       // lower goes first, with kPriority
  int rows() const { return prompt_tokens + max_tokens - 1; }
};

class Scheduler {
 public:
  static constexpr int kMaxShareWaits = 64;  // plans that a sequence waits in all for others to compute its prefix
  static constexpr int kMaxBypasses = 16;    // sequences admitted before an older one that finds no room

  // `memory` must outlive the scheduler.
  Scheduler(const SchedulerLimits& limits, SchedulerMemory* memory);

  // Whether such a sequence can ever run; the error has the numbers.
  Status check(const SequenceCounts& counts) const;

  // `id` is any number >= 0 that no live sequence has; small ones keep the table small. The counts must pass check().
  void add(SequenceId id, const SequenceCounts& counts);
  // `child` runs from where the running `parent` is, with the same tokens known and computed and the same counts.
  // False, and nothing happened, when there is no place or memory for it now: it can be add()ed. Ranks as if it arrived
  // now.
  bool fork(SequenceId parent, SequenceId child);
  // Ends a sequence, waiting, swapped or running: finished, cancelled or failed. Its memory counts as free at once.
  // A sequence is ended at the latest when its answer has max_tokens.
  void end(SequenceId id);

  // The state of a swapped sequence could not be kept, or not be brought back: it is computed anew. Also between plan()
  // and completed(), where its span of this plan becomes void.
  void lost(SequenceId id);

  // For tests: the next plan preempts a running sequence, by turns in the order of ranks, every second time by swapping
  // if can_swap(). Only one that came further than at its last preemption, so that all progress; the request stands
  // until there is one.
  void force_preemption() { preemption_forced_ = true; }

  // Valid until the next call.
  const StepPlan& plan();
  // The step was computed: positions advance, and every sampled sequence that was not ended has one more token.
  void completed();

  int running() const { return static_cast<int>(running_.size()); }
  int waiting() const { return waiting_.size() + static_cast<int>(parked_.size()); }
  const SchedulerLimits& limits() const { return limits_; }

 private:
  static constexpr int kDecodeRows = 1;  // of a decoding sequence in a step

  enum class State { kNone, kWaiting, kParked, kPrompt, kDecoding };

  struct Entry {
    SequenceCounts counts;
    Rank rank;
    State state = State::kNone;
    Position computed = 0;   // rows done, or in the swap space
    int known = 0;           // tokens known: the prompt and what was sampled
    int held = 0;            // latent pages, those of the plan included
    int promised = 0;        // latent pages that it will need without being asked again
    bool owes_copy = false;  // forked, so its next row may have to copy the page that it shares
    bool swapped = false;
    Position preempted_at = -1;       // computed, at its last preemption
    std::int64_t preempted_plan = 0;  // numbers of plans: its last preemption,
    std::int64_t wait_until = 0;      // the end of its waits for others to compute its prefix,
    std::int64_t probed_plan = 0;     // the one of `hit`,
    std::int64_t span_plan = 0;       // its last span, spans[span_index]
    std::size_t span_index = 0;
    PrefixHit hit;
    int bypassed = 0;  // by sequences admitted while it found no room

    int rows_left() const { return known - computed; }
    bool runs() const { return state == State::kPrompt || state == State::kDecoding; }
  };

  // What a sequence holds from its admission on.
  struct Intake {
    Position first_position;
    int held, taken;  // latent pages; of them, those that were free before
  };

  enum class Verdict {
    kAllotted,   // it has a span
    kParked,     // it waits for a running sequence to compute its prefix
    kNoRoom,     // of places or memory
    kTooFewRows  // are left in this step
  };

  // scheduler.cc
  Entry& entry(SequenceId id) { return entries_[static_cast<std::size_t>(id.value)]; }
  Entry& new_entry(SequenceId id, const SequenceCounts& counts);
  void begin_plan();
  void plan_with_decodes();
  bool has_span(const Entry& e) const { return e.span_plan == plan_number_; }
  int budget_left() const { return limits_.max_batched_tokens - plan_.rows; }
  int unpromised_pages() const { return free_pages_ - promised_pages_; }
  int extra_windows(const Span& span) const;
  int give(Entry& e, int most_rows);
  void update_promise(Entry& e);
  void enter_running(Entry& e, State state);
  void leave_running(Entry& e);
  void enter_waiting(Entry& e);

  // decodes.cc
  int decodes_per_step() const { return std::max(1, limits_.max_batched_tokens / kDecodeRows); }
  void plan_decodes(int count);
  void plan_other_decodes();
  bool serve_chosen();
  int new_decode_pages(const Entry& e) const;
  bool make_room(Entry& e);

  // prompts.cc
  void plan_prompts();
  void plan_prompts_in_order();
  void plan_oldest_prompt();
  void plan_shortest_prompts();
  template <class Key, class Visit>
  void walk(const std::set<Key>& running, const std::set<Key>& waiting, const Visit& visit);
  int wanted_rows(int rows_left) const;
  bool worth_starting(int wanted, int most_rows) const;
  bool has_prompt_span() const { return plan_.spans.size() > first_prompt_span_; }
  Verdict allot(Entry& e, int most_rows);
  void use_up_rows();

  // admission.cc
  bool may_admit() const;
  bool has_place() const;
  void probe(Entry& e);
  bool must_park(const Entry& e) const;
  void park(Entry& e);
  void wake_parked();
  Intake intake(const Entry& e) const;
  int page_shortage(const Entry& e, const Intake& in) const;
  int first_windows(const Entry& e, Position first) const;
  Verdict try_admit(Entry& e, int most_rows);
  void admit(Entry& e, const Intake& in);

  // preemption.cc
  bool swap_pays(const Entry& e);
  void preempt(Entry& e, bool swap);
  void preempt_by_force();
  void preempt_for_best_waiting();
  bool choose_victims(const Entry& best);
  Entry& lowest_without_span();

  SchedulerLimits limits_;
  SchedulerMemory* memory_;
  int watermark_;
  int steady_windows_;          // of one sequence
  std::vector<Entry> entries_;  // by SequenceId
  std::int64_t arrivals_ = 0;
  std::set<Rank> running_;
  PromptOrder prompts_;  // that run
  PromptOrder waiting_;
  std::vector<SequenceId> parked_;  // that wait for their prefix; the next one to be probed first
  DecodeTurns turns_;
  int promised_pages_ = 0;  // sum of Entry::promised
  bool preemption_forced_ = false, next_forced_swaps_ = false;
  Rank last_forced_;
  bool prompts_next_ = false;  // the next step is one of prompts

  // Of the plan being made.
  std::int64_t plan_number_ = 1;
  StepPlan plan_;
  int free_pages_ = 0;     // latent
  int spare_windows_ = 0;  // beyond the promised ones
  std::size_t first_prompt_span_ = 0;
  int sliver_rows_ = 0;
  bool admissions_open_ = true;
  int parked_now_ = 0;
  Entry* passed_over_ = nullptr;  // the oldest, which found no room
  std::vector<SequenceId> chosen_;
};

}  // namespace sluice
