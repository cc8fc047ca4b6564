// Scheduler: who leaves the memory before its end.
#include <algorithm>

#include "base/check.h"
#include "sched/scheduler.h"

namespace sluice {

bool Scheduler::swap_pays(const Entry& e) {
  if (limits_.recompute_cost_per_row <= 0 || limits_.swap_cost_per_page <= 0) return false;
  const int pages = e.held + steady_windows_;
  return e.computed * limits_.recompute_cost_per_row > 2 * pages * limits_.swap_cost_per_page &&
         memory_->can_swap(e.rank.id);
}

void Scheduler::preempt(Entry& e, bool swap) {
  SLUICE_CHECK(!has_span(e), "what is computed in a step is not preempted in it");
  plan_.preemptions.push_back({e.rank.id, swap});
  free_pages_ += memory_->exclusive_latent_pages(e.rank.id);
  leave_running(e);
  if (running_.empty()) free_pages_ = limits_.latent_pages;
  e.preempted_at = e.computed;
  e.preempted_plan = plan_number_;
  e.swapped = swap;
  if (!swap) e.computed = 0;
  enter_waiting(e);
}

void Scheduler::lost(SequenceId id) {
  Entry& e = entry(id);
  SLUICE_CHECK(e.swapped || (e.runs() && has_span(e)), "what is lost was swapped, or is just being restored");
  e.runs() ? leave_running(e) : waiting_.erase(e.rank, e.rows_left());
  e.span_plan = 0;
  e.computed = 0;
  e.swapped = false;
  enter_waiting(e);
}

void Scheduler::preempt_by_force() {
  auto next = running_.upper_bound(last_forced_);
  for (std::size_t i = 0; i < running_.size(); ++i, ++next) {
    if (next == running_.end()) next = running_.begin();
    Entry& e = entry(next->id);
    if (e.computed <= e.preempted_at) continue;
    last_forced_ = e.rank;
    preempt(e, next_forced_swaps_ && memory_->can_swap(e.rank.id));
    next_forced_swaps_ = !next_forced_swaps_;
    preemption_forced_ = false;
    return;
  }
}

// Where the best waiting sequence lacks a place or memory and running ones of worse priority have it.
void Scheduler::preempt_for_best_waiting() {
  if (waiting_.empty() || running_.empty()) return;
  Entry& best = entry(waiting_.by_rank().begin()->id);
  if (best.preempted_plan == plan_number_ || running_.rbegin()->priority <= best.rank.priority) return;
  // Behind a better prompt it would get no rows.
  if (!prompts_.empty() && *prompts_.by_rank().begin() < best.rank) return;
  probe(best);
  if (must_park(best)) return park(best);
  if (!choose_victims(best)) return;
  for (const SequenceId id : chosen_) preempt(entry(id), swap_pays(entry(id)));
}

// The fewest, from the lowest rank up, without which `best` can be admitted; false when it can be without any of this,
// or not even with it. An estimate: where they alone hold pages of its prefix hit, it may take one plan more.
bool Scheduler::choose_victims(const Entry& best) {
  chosen_.clear();
  const Intake in = intake(best);
  int places = running() + 1 - limits_.max_seqs;
  int windows = first_windows(best, in.first_position) - spare_windows_;
  int pages = page_shortage(best, in);
  if (places <= 0 && windows <= 0 && pages <= 0) return false;
  for (auto next = running_.rbegin(); next != running_.rend() && next->priority > best.rank.priority; ++next) {
    if (places <= 0 && windows <= 0 && pages <= 0) return true;
    places -= 1;
    windows -= steady_windows_;
    pages -= memory_->exclusive_latent_pages(next->id) + entry(next->id).promised;
    chosen_.push_back(next->id);
  }
  return (places <= 0 && windows <= 0 && pages <= 0) || static_cast<int>(chosen_.size()) == running();
}

// There is one.
Scheduler::Entry& Scheduler::lowest_without_span() {
  for (auto next = running_.rbegin(); next != running_.rend(); ++next) {
    if (!has_span(entry(next->id))) return entry(next->id);
  }
  SLUICE_CHECK(false, "who asks has no span itself");
}

}  // namespace sluice
