// Scheduler: decides which rows of which sequences the next step computes, and which sequences enter and leave memory
// for it. A pure component: it sees counts, never token values, tensors, clocks or I/O, so the same code runs in the
// server, under tests and in simulations. Its decisions depend only on the order of the calls and on the facts that it
// is given (plan_facts.h).
//
// A sequence either waits or runs, that is, holds memory. A running one either has known tokens to compute before its
// next token can be sampled (a prompt, or what a preemption dropped; called a prompt here), or it decodes: all its
// tokens except the newest are computed.
//
// Before each plan the scheduler asks for the facts that the plan may depend on, one after the other, and asks nothing
// while the plan is made: questions.cc says which facts, and why these suffice and are few.
//
// Rows of a step (B = max_batched_tokens):
//   1. Every decoding sequence gets its row. More than B of them take turns, each within ceil(decoding / B) steps;
//      turns that are not due may be passed over for prompts (decode_turns.h has the rule and its proof). While exactly
//      B decode, that bound leaves no row to prompts.
//   2. Of the rows that are left, drafts get some (drafts.cc), when all that decode have their rows: all of them if no
//      prompt wants any, else a quarter at most.
//   3. The rest, b rows, goes to prompts, running and waiting ones alike, by policy; a waiting one is admitted when it
//      gets rows. A span that does not end its prompt ends at a block boundary if others use the rows that this costs,
//      and these are less than a quarter. The last of several prompts gets no sliver: none rather than less than
//      min(64, b / 8) rows, unless they end it.
//   4. Without chunked_prefill, a prompt is computed in one span; when that does not fit with the decodes, the next
//      step has none. Without mixed, steps of prompts and steps of decodes alternate. In both cases no two steps
//      without decodes follow each other while there are any, so a turn takes at most 2 ceil(decoding / B) steps.
//
// Fair shares (kFair). Let h = ceil(b / 2), g = floor(b / 2) with the smallest b of the time, both at most the
// threshold, and less what alignment costs, which is less than a quarter:
//   - None starves: while memory and places suffice, the first token of a prompt takes at most as many steps as the sum
//     of ceil(rows / h) over it and all older ones. For each step gives h rows to the oldest, or ends it. Waiting for a
//     shared prefix adds at most kMaxShareWaits, and one step for each 32 other sequences that begin to wait for one.
//   - A short one does not wait for a long one: with one older prompt, whatever its length, one of r rows takes
//     ceil(r / g) steps.
//
// Memory:
//   - Windows are a promise: steady_window_pages() for each running sequence, and what a longer span needs beyond that
//     for the step, from the unpromised ones; the span is shorter where these are short.
//   - Latents are those that are free now. The pages for all known tokens of a running prompt are promised to it. A
//     waiting sequence is admitted if the unpromised free pages are enough for all its known tokens, besides the
//     watermark; the watermark is ignored when nothing runs.
//   - The first that finds no room holds up the others; under kFair at most kMaxBypasses others pass it. It then waits
//     at most until those that run have ended.
//   - A decode that grows into a new page, when none is unpromised, preempts the lowest-ranked running sequence, at
//     last itself. The best running sequence is never preempted for memory: it could have all pages, and check()
//     refuses what does not fit in these. No sequence with a span in the plan is preempted.
//   - A preempted sequence keeps its rank, so it comes back first, and its tokens: it is computed anew, from what the
//     prefix cache still has, or swapped: its state is kept elsewhere and restored. Swapping is chosen if both costs
//     are set, computed rows * recompute_cost_per_row > 2 * pages * swap_cost_per_page, and the swap space has room
//     besides the others that this plan swaps.
//   - A plan that preempts for memory admits no sequence; in one that preempts otherwise, every page of a prefix hit
//     counts as taken from the free ones, since its holder may be the one that leaves.
// Paused sequences (set_paused) get no rows. A running one keeps its memory and its place, but is the first to leave
// for the pages of decodes. One that waits, or is preempted, waits at least until it goes on, and its rank is then the
// same as before. A waiting sequence of better priority (kPriority) gets memory from a paused one only if it would get
// it if that one was not paused. Progress: the plan has a span if a running sequence is not paused, and also if none
// runs and a waiting one is not paused. The only exception is a plan in which force_preemption() removes the last
// running sequence. Waiting sequences may need the memory of paused ones, which must go on or end. Progress holds
// because a running sequence can always compute a row, and if none runs the first waiting one fits. The best running
// sequence gets closer to its end, so by induction every sequence ends (under kPriority: provided that better ones stop
// coming).
//
// Call order: add / fork / end / set_paused / force_preemption are called at any time between steps. Then come gather()
// and plan() with nothing between, then completed() and judged() before the next plan; end and lost may also come
// between these. A plan of 1,000 decodes takes some 10 us, 30 with drafts; every other call takes O(log waiting).
// Thread safety: one thread at a time; check() is const over values fixed at construction and may be called from any.
// Used by engine/step, sched and sched/drafts.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <span>
#include <unordered_set>
#include <vector>

#include "base/index_types.h"
#include "cache/pages/page_geometry.h"
#include "sched/decode_turns.h"
#include "sched/drafts/drafts.h"
#include "sched/drafts/step_times.h"
#include "sched/plan_facts.h"
#include "sched/prompt_order.h"
#include "sched/step_plan.h"
#include "sluice/options.h"
#include "sluice/status.h"

namespace sluice {

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
  DraftLimits drafts = {};
};

// The newest token of an answer is never computed, so a sequence computes one row less than its tokens.
struct SequenceCounts {
  int prompt_tokens = 0;  // >= 1
  int max_tokens = 0;     // most tokens of the answer, >= 1; check() also allows 0, a prompt that is only scored
  int priority = 0;       // lower goes first, with kPriority
  int rows() const { return prompt_tokens + std::max(1, max_tokens) - 1; }
};

class Scheduler {
 public:
  static constexpr int kMaxShareWaits = 64;  // plans that a sequence waits in all for others to compute its prefix
  static constexpr int kMaxBypasses = 16;    // sequences admitted before an older one that finds no room

  explicit Scheduler(const SchedulerLimits& limits);

  // Checks that such a sequence can ever run; the error has the numbers.
  Status check(const SequenceCounts& counts) const;
  // The largest max_tokens that passes check() with a prompt of this length; 0: none does.
  int most_tokens(int prompt_tokens) const;

  // `id` is any number >= 0 that no live sequence has; small ones keep the table small. The counts must pass check().
  void add(SequenceId id, const SequenceCounts& counts);
  // `child` runs on from where the running `parent` is, with the same tokens known and computed and the same counts. It
  // ranks as if it arrived now. Returns false and changes nothing if there is no place or memory for it now, with this
  // many latent pages free: then it can be add()ed.
  bool fork(SequenceId parent, SequenceId child, int free_latent_pages);
  // Ends a sequence, waiting, swapped or running: finished, cancelled or failed. Its memory counts as free at once.
  // To be called at the latest when the answer has max_tokens.
  void end(SequenceId id);

  // The state of a swapped sequence could not be kept or brought back, so it is computed anew. May be called between
  // plan() and completed(), which makes the sequence's span of this plan void.
  void lost(SequenceId id);

  // Pauses a sequence, or lets it go on, between steps and before gather(). A paused one gets no rows.
  void set_paused(SequenceId id, bool paused);

  // For tests: lets the next plan preempt a running sequence, in turn by rank, every second time by swapping if there
  // is room. It must have got further than at its last preemption, so that all progress; the request stands until there
  // is one.
  void force_preemption() { preemption_forced_ = true; }

  // Returns a question about a fact that the next plan may depend on and `facts` does not have yet. The answer must be
  // appended to its lookups or leavers before the next call. A question about nothing means that plan() may be called.
  // See gather().
  Question next_question(const PlanFacts& facts);
  // Valid until the next call. `facts` must answer all questions; further facts change nothing.
  const StepPlan& plan(const PlanFacts& facts);
  // The step has been computed: positions advance, and every sampled sequence that was not ended has new tokens.
  // A decoding sequence has one new token; judged() reports the result of its drafts.
  void completed();
  // Reports, between completed() and the next plan, that the first `right` of the drafts computed for the sequence were
  // right. It has that many more tokens; the other drafts and their pages are given up. To be called for every span
  // that had drafts, unless its sequence has ended.
  void judged(SequenceId id, DraftSource source, int drafted, int right);
  // Reports the time of a step with these rows, which decides how many drafts pay. May be left out.
  void took(const DecodedRows& rows, double seconds);
  // To be called before each plan that is made while tokens are on their way. Returns whether it is worth waiting for
  // them, as sequences can then have these drafts. To wait or not is always allowed.
  bool waiting_pays(std::span<const DraftOffer> offers);
  // Reports that a token of a decoding sequence has come, and whether this source would have drafted it.
  void record_prediction(SequenceId id, DraftSource source, bool right);

  int running() const { return static_cast<int>(running_.size()); }
  // The running sequences that decode, in the order of their turns.
  int decoding() const { return turns_.size(); }
  SequenceId decoding(int i) const { return turns_[i]; }
  int waiting() const { return waiting_.size() + static_cast<int>(parked_.size()) + asleep_; }
  // The number of paused sequences, running and waiting.
  int paused() const { return paused_; }
  bool paused(SequenceId id) const { return entries_[index_of(id)].rank.paused; }
  const SchedulerLimits& limits() const { return limits_; }
  // The waiting sequences by rank, then those that wait for a prefix, then the paused ones. wait_reason() is the reason
  // when it was last checked.
  std::vector<SequenceId> in_order_of_waiting() const;
  WaitReason wait_reason(SequenceId id) const { return entries_[index_of(id)].reason; }
  // The number of sequences that wait for each reason.
  const std::array<int, kWaitReasons>& waiting_for() const { return waiting_for_; }

 private:
  static constexpr int kMostWaits = 32;        // waits that may begin in a plan
  static constexpr int kParkedQuestions = 16;  // about those that wait for a prefix, in a plan
  static constexpr int kTriesAgainAfter = 48;  // plans without a draft, for the first time

  enum class State { kNone, kWaiting, kParked, kPrompt, kDecoding };

  struct Entry {
    SequenceCounts counts;
    State state = State::kNone;
    Rank rank;
    Position computed = 0;   // rows done, or in the swap space
    int known = 0;           // tokens known: the prompt and what was sampled
    int held = 0;            // latent pages, including the plan's
    int promised = 0;        // latent pages granted for later
    bool owes_copy = false;  // forked: its next row may have to copy a shared page
    bool swapped = false;
    WaitReason reason = WaitReason::kQueue;
    int bypassed = 0;            // sequences admitted while this one found no room
    std::int64_t span_plan = 0;  // numbers of plans: the one with its last span, spans[span_index],
    std::size_t span_index = 0;
    std::int64_t preempted_plan = 0;  // the one with its last preemption,
    std::int64_t wait_until = 0;      // the end of its waits for others to compute its prefix,
    std::int64_t lookup_plan = 0;     // the one of `hit` and `next_block`,
    std::int64_t leaver_plan = 0;     // the one of `own_pages` and `image_bytes`,
    std::int64_t counted_plan = 0;    // the one whose questions have counted it as the oldest, or before that
    Position preempted_at = -1;       // `computed` at its last preemption
    PrefixHit hit;
    DraftRecord record;
    int drafts = 0;  // drafts that it is being given
    int plans_without_draft = 0, tries_again_after = kTriesAgainAfter;
    std::uint64_t next_block = 0;
    int own_pages = 0;
    std::size_t image_bytes = 0;

    int rows_left() const { return known - computed; }
    bool runs() const { return state == State::kPrompt || state == State::kDecoding; }
  };

  // The place and memory of a sequence from its admission on.
  struct Intake {
    Position first_position;
    int held, taken;  // latent pages; the part of them that was free before
  };

  enum class Verdict {
    kAllotted,   // the sequence has a span
    kParked,     // it waits for a running sequence to compute its prefix
    kNoRoom,     // no place is left, or too little memory
    kTooFewRows  // too few rows are left in this step
  };

  // The shortage of each kind; <= 0: none.
  struct Lack {
    int places = 0, windows = 0, pages = 0;
    bool any() const { return places > 0 || windows > 0 || pages > 0; }
  };

  // The stages of a plan: questions are asked before kAnswered.
  enum class Stage { kNone, kForced, kBest, kVictims, kParked, kDecodes, kOldest, kPrompts, kAnswered };

  // The progress of next_question(), and the most that a plan can still give.
  struct Asking {
    std::size_t lookups = 0, leavers = 0;  // facts already read
    std::set<Rank>::const_reverse_iterator next_leaver;
    Lack lack;
    int places = 0, pages = 0, rows = 0;
    int waits = 0, visits_left = 0;
    MergedOrder<Rank> by_rank;
    MergedOrder<PromptOrder::Short> by_rows;
  };

  // scheduler.cc
  static std::size_t index_of(SequenceId id) { return static_cast<std::size_t>(id.value); }
  Entry& entry(SequenceId id) { return entries_[index_of(id)]; }
  Entry& new_entry(SequenceId id, const SequenceCounts& counts);
  bool prompts_only() const { return prompts_next_ || limits_.policy == SchedulingPolicy::kPrefillFirst; }
  void plan_with_decodes(const PlanFacts& facts);
  bool has_span(const Entry& e) const { return e.span_plan == plan_number_; }
  int budget_left() const { return limits_.max_batched_tokens - plan_.rows; }
  int unpromised_pages() const { return free_pages_ - promised_pages_; }
  int extra_windows(const Span& span) const;
  int rows_to_give(const Entry& e) const;
  int give(Entry& e, int most_rows);
  void update_promise(Entry& e);
  void enter_running(Entry& e, State state);
  void leave_running(Entry& e);
  void enter_waiting(Entry& e);
  void enter_order(Entry& e);
  void leave_order(Entry& e);

  // questions.cc
  void begin_plan(const PlanFacts& facts);
  void learn(const PlanFacts& facts);
  bool looked_up(const Entry& e) const { return e.lookup_plan == plan_number_; }
  bool may_leave(const Entry& e) const { return e.leaver_plan == plan_number_; }
  static Question about_prefix(const Entry& e) { return {Question::About::kPrefix, e.rank.id}; }
  static Question about_leaving(const Entry& e) { return {Question::About::kLeaving, e.rank.id}; }
  Question question_of_stage();
  Question ask_forced();
  Question ask_best();
  Question ask_victims();
  Question ask_parked();
  Question ask_decodes();
  Question ask_oldest();
  template <class Key>
  Question ask_prompts(MergedOrder<Key>* order);
  int decode_shortage() const;
  void begin_prompt_questions();
  bool count_waiting(const Entry& e);
  bool count_rows(int wanted);

  // decodes.cc
  int new_decode_pages(const Entry& e) const {
    return std::max(0, limits_.geometry.latent_pages(e.computed + 1) - e.held);
  }
  void plan_decodes(int count);
  void plan_other_decodes();
  bool serve_chosen();
  bool make_room(Entry& e);

  // drafts.cc
  struct DraftChoice {
    Entry* entry;
    DraftSource source;
    int most;
    DraftRecord::Levels levels;
    int granted = 0;
  };
  struct DraftCounts {
    std::array<std::array<int, kDraftSources>, DraftRecord::kLevels> of;  // by chance and source
    std::uint64_t levels;                                                 // bits of the levels that occur
    static_assert(DraftRecord::kLevels == 64);
  };
  void plan_drafts(const PlanFacts& facts);
  bool prompts_want() const { return limits_.mixed && (!prompts_.empty() || !waiting_.empty()); }
  int rows_for_drafts(int own) const;
  int rows_before_drafts(int own) const;
  void choose_offers(std::span<const DraftOffer> offers, int own, bool planned);
  DraftCounts count_drafts() const;
  double least_gain(int own) const;
  int count_paying(const DraftCounts& drafts, int own, int rows, int waits) const;
  void choose_paying(int own, int rows);
  static int worth(const DraftChoice& choice, const std::array<int, kDraftSources>& prices);
  void grant_likeliest(const DraftCounts& drafts, int count);
  class TryCosts;
  static bool due_try(const DraftChoice& choice);
  void save_for_tries(int own);
  bool wants_try(int own, int waits);
  void try_again(int own);
  int give_drafts(Entry& e, DraftSource source, int count);

  // prompts.cc
  void plan_prompts();
  void plan_prompts_in_order();
  void plan_oldest_prompt();
  void plan_shortest_prompts();
  template <class Key, class Visit>
  void walk(MergedOrder<Key> order, const Visit& visit);
  int wanted_rows(int rows_left) const;
  bool worth_starting(int wanted, int most_rows) const;
  bool has_prompt_span() const { return plan_.spans.size() > first_prompt_span_; }
  Verdict allot(Entry& e, int most_rows);
  void use_up_rows();

  // admission.cc
  bool may_admit() const;
  bool has_place() const;
  bool shares_next_block(const Entry& e) const;
  bool would_wait(const Entry& e) const;
  bool must_park(const Entry& e) const { return !running_.empty() && would_wait(e); }
  void park(Entry& e);
  void wake_parked();
  Intake intake(const Entry& e) const;
  int pages_to_admit(const Entry& e, const Intake& in) const;
  int page_shortage(const Entry& e, const Intake& in) const;
  int first_windows(const Entry& e, Position first) const;
  Verdict try_admit(Entry& e, int most_rows);
  void note_reason(Entry& e, WaitReason reason);
  void admit(Entry& e, const Intake& in);

  // preemption.cc
  bool take_swap_room(const Entry& e);
  bool swap_pays(const Entry& e);
  void preempt(Entry& e, bool swap);
  Entry* next_forced();
  Entry* best_waiting();
  Lack lack_of(const Entry& best) const;
  Entry& lowest_without_span();

  SchedulerLimits limits_;
  int watermark_;
  int steady_windows_;          // steady window pages of one sequence
  std::vector<Entry> entries_;  // by SequenceId
  std::int64_t arrivals_ = 0;
  std::set<Rank> running_;
  PromptOrder prompts_;  // running
  PromptOrder waiting_;
  std::vector<SequenceId> parked_;  // wait for a prefix; the next to be asked about first
  DecodeTurns turns_;
  int paused_ = 0, asleep_ = 0;  // asleep: paused and waiting
  std::array<int, kWaitReasons> waiting_for_{};
  int promised_pages_ = 0;  // sum of Entry::promised
  bool preemption_forced_ = false, next_forced_swaps_ = false;
  Rank last_forced_;
  bool prompts_next_ = false;  // the next step is one of prompts

  // Fields of the plan being made.
  std::int64_t plan_number_ = 1;
  Stage stage_ = Stage::kNone;
  Asking asking_;
  StepPlan plan_;
  int free_pages_ = 0;          // latent
  int spare_windows_ = 0;       // beyond the promised ones
  std::size_t swap_bytes_ = 0;  // free
  // The next blocks of admitted sequences; while questions are asked, of those that may be admitted.
  std::unordered_set<std::uint64_t> coming_blocks_;
  std::size_t first_prompt_span_ = 0;
  int sliver_rows_ = 0;
  bool admissions_open_ = true;
  int parked_now_ = 0;
  Entry* passed_over_ = nullptr;  // the oldest sequence, if it found no room
  std::vector<SequenceId> chosen_;
  std::vector<DraftChoice> draft_choices_;
  DraftRecord all_records_;  // over all sequences that ever had drafts
  StepTimes times_;
  double seconds_for_tries_ = 0;  // saved up for tries: single drafts of sequences that get none otherwise
};

// Collects the facts for the next plan: look_up(id) and leaving(id) answer the scheduler's questions. The counts of
// `facts` are set.
template <class LookUp, class Leaving>
void gather(Scheduler* scheduler, PlanFacts* facts, const LookUp& look_up, const Leaving& leaving) {
  facts->lookups.clear();
  facts->leavers.clear();
  while (const Question question = scheduler->next_question(*facts)) {
    if (question.about == Question::About::kPrefix) {
      facts->lookups.push_back(look_up(question.sequence));
    } else {
      facts->leavers.push_back(leaving(question.sequence));
    }
  }
}

}  // namespace sluice
