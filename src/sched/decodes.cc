// Scheduler: the rows of decoding sequences, and the pages that they grow into.
#include <algorithm>

#include "base/check.h"
#include "sched/scheduler.h"

namespace sluice {

void Scheduler::plan_decodes(int count) {
  chosen_.clear();
  for (int i = 0; i < count; ++i) chosen_.push_back(turns_[i]);
  const bool all_served = serve_chosen();
  SLUICE_CHECK(all_served, "what is due is served or preempted");
  first_prompt_span_ = plan_.spans.size();
}

// Rows that are left go to those whose turn comes later: rows that prompts did not take, or of preempted sequences.
void Scheduler::plan_other_decodes() {
  for (;;) {
    chosen_.clear();
    const int rows = budget_left();
    for (int i = 0; i < turns_.size() && static_cast<int>(chosen_.size()) < rows; ++i) {
      if (!has_span(entry(turns_[i]))) chosen_.push_back(turns_[i]);
    }
    if (chosen_.empty() || !serve_chosen()) return;
  }
}

// Returns false if a sequence was passed over for want of a page.
bool Scheduler::serve_chosen() {
  int pages = limits_.geometry.has_latents ? static_cast<int>(chosen_.size()) : 0;
  if (pages > unpromised_pages()) {
    pages = 0;
    for (const SequenceId id : chosen_) pages += new_decode_pages(entry(id));
  }
  if (pages > unpromised_pages()) {  // serves the best sequences first
    std::sort(chosen_.begin(), chosen_.end(),
              [this](SequenceId a, SequenceId b) { return entry(a).rank < entry(b).rank; });
  }
  for (const SequenceId id : chosen_) {
    Entry& e = entry(id);
    if (e.state != State::kDecoding) continue;  // preempted meanwhile
    if (make_room(e)) {
      give(e, 1);
    } else if (e.state == State::kDecoding) {
      return false;
    }
  }
  return true;
}

// Preempts until there is a page for the next row of `e`. Returns false if `e` has none: it was preempted itself, or it
// is passed over, because others with spans had their turn before it or an admission holds the pages.
bool Scheduler::make_room(Entry& e) {
  const int pages = new_decode_pages(e);
  while (pages > unpromised_pages()) {
    if (!plan_.admissions.empty()) return false;
    admissions_open_ = false;
    if (running() == 1) {  // all pages are its own or free, and it shares none
      e.owes_copy = false;
      update_promise(e);
      free_pages_ = limits_.latent_pages - e.held;
      SLUICE_CHECK(pages <= unpromised_pages(), "a sequence that passed check() fits the pool alone");
      break;
    }
    Entry& victim = lowest_without_span();
    if (&victim == &e && e.rank != *running_.rbegin()) return false;
    preempt(victim, swap_pays(victim));
    if (&victim == &e) return false;
  }
  return true;
}

}  // namespace sluice
