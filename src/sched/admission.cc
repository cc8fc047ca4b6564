// Scheduler: decides which sequences start to run.
#include <algorithm>

#include "base/check.h"
#include "sched/scheduler.h"

namespace sluice {

bool Scheduler::may_admit() const {
  return admissions_open_ && (passed_over_ == nullptr || passed_over_->bypassed < kMaxBypasses);
}

bool Scheduler::has_place() const {
  return running() < limits_.max_seqs && spare_windows_ >= steady_windows_;
}

// Returns whether another sequence that this plan admits will compute the next block that `e` needs and leaves `e` a
// token.
bool Scheduler::shares_next_block(const Entry& e) const {
  return e.next_block != 0 && e.hit.shared / kBlockTokens < (e.known - 1) / kBlockTokens &&
         coming_blocks_.contains(e.next_block);
}

bool Scheduler::would_wait(const Entry& e) const {
  if (e.swapped || (e.wait_until != 0 && plan_number_ >= e.wait_until)) return false;
  return e.hit.wait || shares_next_block(e);
}

void Scheduler::park(Entry& e) {
  leave_order(e);
  e.state = State::kParked;
  ++waiting_for_[static_cast<std::size_t>(e.reason)];
  if (e.wait_until == 0) e.wait_until = plan_number_ + kMaxShareWaits;
  parked_.push_back(e.rank.id);
  note_reason(e, WaitReason::kPrefix);
  plan_.waits.push_back(e.rank.id);
  if (++parked_now_ == kMostWaits) admissions_open_ = false;
}

// Ends waits for prefixes. The sequences that were asked about, in turn, leave when they need not wait, and all leave
// when their time is over.
void Scheduler::wake_parked() {
  int asked = has_place() ? kParkedQuestions : 0;
  std::size_t kept = 0, kept_after_lookup = 0;
  for (const SequenceId id : parked_) {
    Entry& e = entry(id);
    bool waits = !running_.empty() && plan_number_ < e.wait_until;
    if (waits && asked > 0) {
      --asked;
      waits = e.hit.wait;
      kept_after_lookup += waits;
    }
    if (waits) {
      parked_[kept++] = id;
    } else {
      --waiting_for_[static_cast<std::size_t>(e.reason)];
      enter_waiting(e);
    }
  }
  parked_.resize(kept);
  std::rotate(parked_.begin(), parked_.begin() + static_cast<std::ptrdiff_t>(kept_after_lookup), parked_.end());
}

Scheduler::Intake Scheduler::intake(const Entry& e) const {
  if (e.swapped) {
    const int pages = limits_.geometry.latent_pages(e.computed);
    return {e.computed, pages, pages};
  }
  const int shared = limits_.geometry.latent_pages(e.hit.shared);
  return {e.hit.resume, shared, plan_.preemptions.empty() ? e.hit.claimed_free : shared};
}

// Returns the latent pages that must be unpromised to admit `e`, besides the watermark.
int Scheduler::pages_to_admit(const Entry& e, const Intake& in) const {
  return limits_.geometry.latent_pages(e.known) - in.held + in.taken;
}

// Returns how many of these pages are lacking, with the watermark; <= 0: none.
int Scheduler::page_shortage(const Entry& e, const Intake& in) const {
  return pages_to_admit(e, in) + (running_.empty() ? 0 : watermark_) - unpromised_pages();
}

// Returns the window pages that must be unpromised to admit `e`.
int Scheduler::first_windows(const Entry& e, Position first) const {
  if (limits_.chunked_prefill) return steady_windows_;
  return std::max(steady_windows_, limits_.geometry.window_pages(first, e.known - first));
}

void Scheduler::note_reason(Entry& e, WaitReason reason) {
  if (e.reason == reason) return;
  --waiting_for_[static_cast<std::size_t>(e.reason)];
  e.reason = reason;
  ++waiting_for_[static_cast<std::size_t>(e.reason)];
  plan_.reasons.push_back({e.rank.id, reason});
}

std::vector<SequenceId> Scheduler::in_order_of_waiting() const {
  std::vector<SequenceId> ids;
  for (const Rank& rank : waiting_.by_rank()) ids.push_back(rank.id);
  ids.insert(ids.end(), parked_.begin(), parked_.end());
  for (const Entry& e : entries_) {
    if (e.state == State::kWaiting && e.rank.paused) ids.push_back(e.rank.id);
  }
  return ids;
}

Scheduler::Verdict Scheduler::try_admit(Entry& e, int most_rows) {
  if (e.preempted_plan == plan_number_) return Verdict::kNoRoom;
  if (!has_place()) {
    note_reason(e, running() < limits_.max_seqs ? WaitReason::kWindows : WaitReason::kPlaces);
    return Verdict::kNoRoom;
  }
  if (!looked_up(e)) {
    admissions_open_ = false;
    return Verdict::kNoRoom;
  }
  if (must_park(e)) {
    park(e);
    return Verdict::kParked;
  }
  const Intake in = intake(e);
  const bool pages_lack = page_shortage(e, in) > 0;
  if (pages_lack || first_windows(e, in.first_position) > spare_windows_) {
    note_reason(e, pages_lack ? WaitReason::kPages : WaitReason::kWindows);
    return Verdict::kNoRoom;
  }
  if (!worth_starting(wanted_rows(e.known - in.first_position), most_rows)) {
    note_reason(e, WaitReason::kRows);
    if (!limits_.chunked_prefill && !has_prompt_span()) prompts_next_ = true;
    return Verdict::kTooFewRows;
  }
  admit(e, in);
  return Verdict::kAllotted;
}

void Scheduler::admit(Entry& e, const Intake& in) {
  leave_order(e);
  plan_.admissions.push_back({e.rank.id, e.swapped, in.first_position});
  free_pages_ -= in.taken;
  e.computed = in.first_position;
  e.held = in.held;
  e.swapped = false;
  e.bypassed = 0;
  e.reason = WaitReason::kQueue;
  if (passed_over_ != nullptr) ++passed_over_->bypassed;
  enter_running(e, State::kPrompt);
  if (e.next_block != 0) coming_blocks_.insert(e.next_block);
}

}  // namespace sluice
