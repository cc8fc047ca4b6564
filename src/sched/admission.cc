// Scheduler: who starts to run.
#include <algorithm>

#include "base/check.h"
#include "sched/scheduler.h"

namespace sluice {

namespace {

constexpr int kMostParkedInAPlan = 32;
constexpr int kParkedProbesInAPlan = 16;

}  // namespace

bool Scheduler::may_admit() const {
  return admissions_open_ && (passed_over_ == nullptr || passed_over_->bypassed < kMaxBypasses);
}

bool Scheduler::has_place() const {
  return running() < limits_.max_seqs && spare_windows_ >= steady_windows_;
}

void Scheduler::probe(Entry& e) {
  if (e.probed_plan == plan_number_) return;
  e.probed_plan = plan_number_;
  e.hit = e.swapped ? PrefixHit{} : memory_->probe(e.rank.id);
  SLUICE_CHECK(e.hit.resume >= 0 && e.hit.resume % kBlockTokens == 0 && e.hit.resume < e.known,
               "a hit leaves a token to compute");
  SLUICE_CHECK(e.hit.shared >= e.hit.resume && e.hit.shared <= e.known && e.hit.claimed_free >= 0 &&
                   e.hit.claimed_free <= limits_.geometry.latent_pages(e.hit.shared),
               "a hit has pages for what it resumes");
}

bool Scheduler::must_park(const Entry& e) const {
  return e.hit.wait && !running_.empty() && (e.wait_until == 0 || plan_number_ < e.wait_until);
}

void Scheduler::park(Entry& e) {
  waiting_.erase(e.rank, e.rows_left());
  e.state = State::kParked;
  if (e.wait_until == 0) e.wait_until = plan_number_ + kMaxShareWaits;
  parked_.push_back(e.rank.id);
  if (++parked_now_ == kMostParkedInAPlan) admissions_open_ = false;
}

// Some are asked again, by turns; all of them leave when their time is over.
void Scheduler::wake_parked() {
  if (parked_.empty()) return;
  int probes = has_place() ? kParkedProbesInAPlan : 0;
  std::size_t kept = 0, kept_after_probe = 0;
  for (const SequenceId id : parked_) {
    Entry& e = entry(id);
    bool waits = !running_.empty() && plan_number_ < e.wait_until;
    if (waits && probes > 0) {
      --probes;
      probe(e);
      waits = e.hit.wait;
      kept_after_probe += waits;
    }
    if (waits) {
      parked_[kept++] = id;
    } else {
      enter_waiting(e);
    }
  }
  parked_.resize(kept);
  std::rotate(parked_.begin(), parked_.begin() + static_cast<std::ptrdiff_t>(kept_after_probe), parked_.end());
}

Scheduler::Intake Scheduler::intake(const Entry& e) const {
  if (e.swapped) {
    const int pages = limits_.geometry.latent_pages(e.computed);
    return {e.computed, pages, pages};
  }
  const int shared = limits_.geometry.latent_pages(e.hit.shared);
  return {e.hit.resume, shared, plan_.preemptions.empty() ? e.hit.claimed_free : shared};
}

// How many latent pages `e` lacks to be admitted; <= 0: none.
int Scheduler::page_shortage(const Entry& e, const Intake& in) const {
  const int needed = limits_.geometry.latent_pages(e.known) - in.held + in.taken;
  return needed + (running_.empty() ? 0 : watermark_) - unpromised_pages();
}

// Window pages that must be unpromised to admit `e`.
int Scheduler::first_windows(const Entry& e, Position first) const {
  if (limits_.chunked_prefill) return steady_windows_;
  return std::max(steady_windows_, limits_.geometry.window_pages(first, e.known - first));
}

Scheduler::Verdict Scheduler::try_admit(Entry& e, int most_rows) {
  if (e.preempted_plan == plan_number_ || !has_place()) return Verdict::kNoRoom;
  probe(e);
  if (must_park(e)) {
    park(e);
    return Verdict::kParked;
  }
  const Intake in = intake(e);
  if (page_shortage(e, in) > 0 || first_windows(e, in.first_position) > spare_windows_) return Verdict::kNoRoom;
  if (!worth_starting(wanted_rows(e.known - in.first_position), most_rows)) {
    if (!limits_.chunked_prefill && !has_prompt_span()) prompts_next_ = true;
    return Verdict::kTooFewRows;
  }
  admit(e, in);
  return Verdict::kAllotted;
}

void Scheduler::admit(Entry& e, const Intake& in) {
  waiting_.erase(e.rank, e.rows_left());
  plan_.admissions.push_back({e.rank.id, e.swapped, in.first_position});
  free_pages_ -= in.taken;
  e.computed = in.first_position;
  e.held = in.held;
  e.swapped = false;
  e.bypassed = 0;
  if (passed_over_ != nullptr) ++passed_over_->bypassed;
  enter_running(e, State::kPrompt);
  memory_->admitted(e.rank.id);
}

}  // namespace sluice
