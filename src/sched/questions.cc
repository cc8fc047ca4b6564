// Scheduler: asks for the facts that a plan may depend on, before it is made.
//
// A plan opens with moves that depend on few facts, each made as soon as these are known: a forced preemption, those
// for the best waiting sequence (kPriority), and the end of waits for a prefix. All else is asked ahead:
//
//   - Who may leave for the pages of decodes. Asked only if these need more than are unpromised; then the running
//     sequences from the lowest rank up, until those asked about give back what is missing. More never leave: while all
//     decodes fit the step they choose in the order of their ranks, so whoever has a span ranks better than those that
//     leave, and these are the lowest. Where decodes take turns, all that run.
//   - The prefixes of those that may be admitted, in the order in which they may. The plan's own walk (prompts.cc) is
//     followed with the most that it can have: all places, all unpromised pages, all rows that are not due to decodes.
//     Each sequence counts as if it was admitted, got its rows and, if it shares a block that another one before it
//     will compute, waited. That ends
//       a) where one lacks pages, or the places are used up: the plan, which has no more of them and has admitted all
//          before or has closed, refuses that one or closes;
//       b) after kMostWaits waits, and one for the oldest, which others may be counted to wait for in vain;
//       c) kLastVisits after the rows are used up: until then every sequence gets all the rows that it wants, in the
//          plan too, or the plan has cut a span before. A cut leaves less than a block, and less than a quarter of it
//          each further one, 127, (the oldest again,) 31, 7, 1, 0 rows: so few may follow.
//     So a plan would not change if it knew more; the property test makes it know everything, and compares. A plan that
//     meets a sequence that it has not asked about closes: it admits no more.
//
// A plan asks about at most kParkedQuestions prefixes of sequences that wait for one. Besides these it asks about at
// most places + kMostWaits + kLastVisits + 2, however many wait. If memory or rows are short, it asks about few more
// than it admits.
#include <algorithm>
#include <climits>

#include "base/check.h"
#include "sched/scheduler.h"

namespace sluice {

namespace {

constexpr int kLastVisits = 6;

}  // namespace

Question Scheduler::next_question(const PlanFacts& facts) {
  if (stage_ == Stage::kNone) begin_plan(facts);
  learn(facts);
  for (; stage_ != Stage::kAnswered; stage_ = static_cast<Stage>(static_cast<int>(stage_) + 1)) {
    if (const Question question = question_of_stage()) return question;
  }
  return {};
}

void Scheduler::begin_plan(const PlanFacts& facts) {
  SLUICE_CHECK(plan_.spans.empty(), "a plan is completed before the next one is made");
  ++plan_number_;
  plan_.preemptions.clear();
  plan_.admissions.clear();
  plan_.waits.clear();
  plan_.reasons.clear();
  plan_.rows = 0;
  first_prompt_span_ = 0;
  free_pages_ = facts.free_latent_pages;
  swap_bytes_ = facts.swap_bytes;
  spare_windows_ = limits_.window_pages - running() * steady_windows_;
  admissions_open_ = true;
  parked_now_ = 0;
  passed_over_ = nullptr;
  coming_blocks_.clear();
  asking_ = {};
  stage_ = Stage::kForced;
}

void Scheduler::learn(const PlanFacts& facts) {
  for (; asking_.lookups < facts.lookups.size(); ++asking_.lookups) {
    const PrefixLookup& lookup = facts.lookups[asking_.lookups];
    const PrefixHit& hit = lookup.hit;
    Entry& e = entry(lookup.sequence);
    SLUICE_CHECK(hit.resume >= 0 && hit.resume % kBlockTokens == 0 && hit.resume < e.known,
                 "a hit leaves a token to compute");
    SLUICE_CHECK(hit.shared >= hit.resume && hit.shared <= e.known && hit.claimed_free >= 0 &&
                     hit.claimed_free <= limits_.geometry.latent_pages(hit.shared),
                 "a hit has pages for what it resumes");
    e.hit = e.swapped ? PrefixHit{} : hit;
    e.next_block = lookup.next_block;
    e.lookup_plan = plan_number_;
  }
  for (; asking_.leavers < facts.leavers.size(); ++asking_.leavers) {
    const Leaver& leaver = facts.leavers[asking_.leavers];
    Entry& e = entry(leaver.sequence);
    e.own_pages = leaver.latent_pages;
    e.image_bytes = leaver.image_bytes;
    e.leaver_plan = plan_number_;
  }
}

// Returns the stage's next question, which is about nothing when the stage is done.
Question Scheduler::question_of_stage() {
  switch (stage_) {
    case Stage::kForced:
      return ask_forced();
    case Stage::kBest:
      return ask_best();
    case Stage::kVictims:
      return ask_victims();
    case Stage::kParked:
      return ask_parked();
    case Stage::kDecodes:
      return ask_decodes();
    case Stage::kOldest:
      return ask_oldest();
    case Stage::kPrompts:
      return limits_.policy == SchedulingPolicy::kFair ? ask_prompts(&asking_.by_rows) : ask_prompts(&asking_.by_rank);
    case Stage::kNone:
    case Stage::kAnswered:
      break;
  }
  return {};
}

Question Scheduler::ask_forced() {
  Entry* e = preemption_forced_ ? next_forced() : nullptr;
  if (e == nullptr) return {};
  if (!may_leave(*e)) return about_leaving(*e);
  last_forced_ = e->rank;
  preempt(*e, next_forced_swaps_ && take_swap_room(*e));
  next_forced_swaps_ = !next_forced_swaps_;
  preemption_forced_ = false;
  return {};
}

Question Scheduler::ask_best() {
  Entry* best = best_waiting();
  if (best == nullptr) return {};
  if (!looked_up(*best)) return about_prefix(*best);
  if (must_park(*best)) {
    park(*best);
    return {};
  }
  asking_.lack = lack_of(*best);
  asking_.next_leaver = running_.rbegin();
  chosen_.clear();
  return {};
}

// Asks about the fewest running sequences, from the lowest rank up, whose leaving lets the best waiting one in. It asks
// about none if that one fits anyway, or not even then. This is an estimate: if they alone hold pages of its prefix
// hit, it may need one more plan.
Question Scheduler::ask_victims() {
  if (!asking_.lack.any()) return {};
  const Entry& best = *best_waiting();
  for (; asking_.lack.any() && asking_.next_leaver != running_.rend(); ++asking_.next_leaver) {
    if (asking_.next_leaver->priority <= best.rank.priority) {
      if (asking_.next_leaver->paused) continue;  // a pause is no reason to leave for it
      break;
    }
    const Entry& e = entry(asking_.next_leaver->id);
    if (!may_leave(e)) return about_leaving(e);
    asking_.lack.places -= 1;
    asking_.lack.windows -= steady_windows_;
    asking_.lack.pages -= e.own_pages + e.promised;
    chosen_.push_back(e.rank.id);
  }
  if (asking_.lack.any() && static_cast<int>(chosen_.size()) < running()) return {};
  for (const SequenceId id : chosen_) preempt(entry(id), swap_pays(entry(id)));
  return {};
}

Question Scheduler::ask_parked() {
  int questions = !running_.empty() && has_place() ? kParkedQuestions : 0;
  for (std::size_t i = 0; i < parked_.size() && questions > 0; ++i) {
    const Entry& e = entry(parked_[i]);
    if (plan_number_ >= e.wait_until) continue;
    if (!looked_up(e)) return about_prefix(e);
    --questions;
  }
  wake_parked();
  asking_.lack = {.pages = decode_shortage()};
  asking_.next_leaver = running_.rbegin();
  begin_prompt_questions();
  return {};
}

Question Scheduler::ask_decodes() {
  for (; asking_.lack.pages > 0 && asking_.next_leaver != running_.rend(); ++asking_.next_leaver) {
    const Entry& e = entry(asking_.next_leaver->id);
    if (!may_leave(e)) return about_leaving(e);
    if (turns_.size() <= limits_.max_batched_tokens) asking_.lack.pages -= e.own_pages + e.promised;
  }
  return {};
}

// Returns the latent pages that the decodes need beyond the unpromised ones, if all get their rows; <= 0: none.
int Scheduler::decode_shortage() const {
  if (!limits_.geometry.has_latents) return 0;
  if (turns_.size() <= unpromised_pages()) return 0;
  int pages = 0;
  for (int i = 0; i < turns_.size(); ++i) pages += new_decode_pages(entries_[index_of(turns_[i])]);
  return pages - unpromised_pages();
}

// With places = 0 no sequence is asked about.
void Scheduler::begin_prompt_questions() {
  const bool decodes_first = !prompts_only() && turns_.size() > 0;
  // A step of decodes only admits no sequence. Nor does one that preempts for memory, as it surely does here: all
  // decodes choose, and each takes its page.
  const bool preempts = asking_.lack.pages > 0 && turns_.size() <= limits_.max_batched_tokens;
  const bool closed = decodes_first && (!limits_.mixed || preempts);
  if (waiting_.empty() || !admissions_open_ || closed) return;
  asking_.rows = limits_.max_batched_tokens - (decodes_first ? turns_.due() : 0);
  if (asking_.rows <= 0) return;
  asking_.places = limits_.max_seqs - running();
  if (steady_windows_ > 0) asking_.places = std::min(asking_.places, spare_windows_ / steady_windows_);
  asking_.pages = unpromised_pages();
  asking_.visits_left = kLastVisits;
  asking_.by_rank = {prompts_.by_rank(), waiting_.by_rank()};
  asking_.by_rows = {prompts_.by_rows(), waiting_.by_rows()};
}

// Under kFair: those that the walk to the oldest meets. It may be passed over, so what it would take is not counted.
Question Scheduler::ask_oldest() {
  if (limits_.policy != SchedulingPolicy::kFair || asking_.places <= 0) return {};
  while (const SequenceId id = asking_.by_rank.front(true)) {
    Entry& e = entry(id);
    if (e.runs()) return {};
    const bool left_now = e.preempted_plan == plan_number_;
    if (!left_now && !looked_up(e)) return about_prefix(e);
    asking_.by_rank.pass(true);
    e.counted_plan = plan_number_;
    if (!left_now && would_wait(e)) {
      if (++asking_.waits > kMostWaits) asking_.places = 0;
      continue;
    }
    if (left_now || page_shortage(e, intake(e)) > 0) {
      asking_.places = std::min(asking_.places, kMaxBypasses - e.bypassed);
    } else if (e.next_block != 0) {
      coming_blocks_.insert(e.next_block);
    }
    return {};
  }
  return {};
}

template <class Key>
Question Scheduler::ask_prompts(MergedOrder<Key>* order) {
  while (const SequenceId id = asking_.places > 0 ? order->front(true) : SequenceId()) {
    const Entry& e = entry(id);
    const bool counted = e.counted_plan == plan_number_;
    if (!e.runs() && !counted) {
      if (e.preempted_plan == plan_number_) return {};
      if (!looked_up(e)) return about_prefix(e);
    }
    order->pass(true);
    if (counted) continue;
    if (!(e.runs() ? count_rows(wanted_rows(e.rows_left())) : count_waiting(e))) return {};
  }
  return {};
}

// Counts a sequence as admitted, or as waiting for a prefix. Returns false if none after it can be admitted.
bool Scheduler::count_waiting(const Entry& e) {
  if (would_wait(e)) return ++asking_.waits <= kMostWaits;
  const Intake in = intake(e);
  const int pages = pages_to_admit(e, in);
  if (pages + (running_.empty() ? 0 : watermark_) > asking_.pages) return false;
  asking_.pages -= pages;
  --asking_.places;
  if (e.next_block != 0) coming_blocks_.insert(e.next_block);
  return count_rows(wanted_rows(e.known - in.first_position));
}

bool Scheduler::count_rows(int wanted) {
  if (wanted <= asking_.rows) {
    asking_.rows -= wanted;
    return true;
  }
  asking_.rows = 0;
  return --asking_.visits_left > 0;
}

}  // namespace sluice
