// Scheduler: decides which sequences leave the memory before their end.
#include <algorithm>

#include "base/check.h"
#include "sched/scheduler.h"

namespace sluice {

// Reserves swap space for its state, besides the states that this plan swaps already. Returns false if there is no
// room.
bool Scheduler::take_swap_room(const Entry& e) {
  if (!may_leave(e) || e.image_bytes > swap_bytes_) return false;
  swap_bytes_ -= e.image_bytes;
  return true;
}

bool Scheduler::swap_pays(const Entry& e) {
  if (limits_.recompute_cost_per_row <= 0 || limits_.swap_cost_per_page <= 0) return false;
  const int pages = e.held + steady_windows_;
  return e.computed * limits_.recompute_cost_per_row > 2 * pages * limits_.swap_cost_per_page && take_swap_room(e);
}

void Scheduler::preempt(Entry& e, bool swap) {
  SLUICE_CHECK(!has_span(e), "what is computed in a step is not preempted in it");
  plan_.preemptions.push_back({e.rank.id, swap});
  if (may_leave(e)) free_pages_ += e.own_pages;
  leave_running(e);
  if (running_.empty()) free_pages_ = limits_.latent_pages;
  e.preempted_at = e.computed;
  e.preempted_plan = plan_number_;
  e.swapped = swap;
  if (!swap) e.computed = 0;
  if (e.rank.paused) e.reason = WaitReason::kPaused;
  enter_waiting(e);
}

void Scheduler::lost(SequenceId id) {
  Entry& e = entry(id);
  SLUICE_CHECK(e.swapped || (e.runs() && has_span(e)), "what is lost was swapped, or is just being restored");
  e.runs() ? leave_running(e) : leave_order(e);
  e.span_plan = 0;
  e.computed = 0;
  e.swapped = false;
  enter_waiting(e);
}

// Returns the next sequence that force_preemption() takes, if any.
Scheduler::Entry* Scheduler::next_forced() {
  auto next = running_.upper_bound(last_forced_);
  for (std::size_t i = 0; i < running_.size(); ++i, ++next) {
    if (next == running_.end()) next = running_.begin();
    Entry& e = entry(next->id);
    if (e.computed > e.preempted_at) return &e;
  }
  return nullptr;
}

// Returns the best waiting sequence, if running ones of worse priority may have to leave for it.
Scheduler::Entry* Scheduler::best_waiting() {
  if (limits_.policy != SchedulingPolicy::kPriority || waiting_.empty() || running_.empty()) return nullptr;
  Entry& best = entry(waiting_.by_rank().begin()->id);
  const auto is_worse = [&best](const Rank& rank) { return rank.priority > best.rank.priority; };
  if (best.preempted_plan == plan_number_ || std::none_of(running_.begin(), running_.end(), is_worse)) return nullptr;
  // After a better prompt this sequence would get no rows.
  if (!prompts_.empty() && *prompts_.by_rank().begin() < best.rank) return nullptr;
  return &best;
}

Scheduler::Lack Scheduler::lack_of(const Entry& best) const {
  const Intake in = intake(best);
  return {.places = running() + 1 - limits_.max_seqs,
          .windows = first_windows(best, in.first_position) - spare_windows_,
          .pages = page_shortage(best, in)};
}

// Returns the running sequence of the lowest rank without a span. There must be one.
Scheduler::Entry& Scheduler::lowest_without_span() {
  for (auto next = running_.rbegin(); next != running_.rend(); ++next) {
    if (!has_span(entry(next->id))) return entry(next->id);
  }
  SLUICE_CHECK(false, "who asks has no span itself");
}

}  // namespace sluice
