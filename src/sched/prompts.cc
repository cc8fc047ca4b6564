// Scheduler: the rows of sequences that have known tokens to compute.
// Used by engine/step, sched and sched/drafts.
#include <algorithm>

#include "sched/scheduler.h"

namespace sluice {

void Scheduler::plan_prompts() {
  first_prompt_span_ = plan_.spans.size();
  if (budget_left() == 0) return;
  sliver_rows_ = std::min(64, budget_left() / 8);
  if (limits_.policy == SchedulingPolicy::kFair) {
    plan_oldest_prompt();
    plan_shortest_prompts();
  } else {
    plan_prompts_in_order();
  }
  use_up_rows();
}

// Visits running prompts and, while admissions are possible, waiting ones, the smallest key first, until `visit`
// returns false. A sequence admitted on the way is not visited again: its key is not larger than before.
template <class Key, class Visit>
void Scheduler::walk(MergedOrder<Key> order, const Visit& visit) {
  while (const SequenceId id = order.front(may_admit())) {
    order.pass(may_admit());
    if (!visit(entry(id))) return;
  }
}

void Scheduler::plan_prompts_in_order() {
  walk(MergedOrder(prompts_.by_rank(), waiting_.by_rank()), [this](Entry& e) {
    const Verdict verdict = allot(e, budget_left());
    if (verdict == Verdict::kNoRoom) admissions_open_ = false;
    return verdict != Verdict::kTooFewRows && budget_left() > 0;
  });
}

void Scheduler::plan_oldest_prompt() {
  const bool was_open = admissions_open_;
  const int half = limits_.chunked_prefill ? (budget_left() + 1) / 2 : budget_left();
  walk(MergedOrder(prompts_.by_rank(), waiting_.by_rank()), [this, half](Entry& e) {
    const Verdict verdict = allot(e, half);
    if (verdict == Verdict::kNoRoom) {  // the oldest running sequence gets the half
      passed_over_ = &e;
      admissions_open_ = false;
    }
    return verdict == Verdict::kNoRoom || verdict == Verdict::kParked;
  });
  if (passed_over_ != nullptr) admissions_open_ = was_open;
}

void Scheduler::plan_shortest_prompts() {
  if (budget_left() == 0) return;
  walk(MergedOrder(prompts_.by_rows(), waiting_.by_rows()), [this](Entry& e) {
    if (&e == passed_over_) return true;
    const Verdict verdict = allot(e, budget_left());
    if (verdict == Verdict::kNoRoom) admissions_open_ = false;
    return verdict != Verdict::kTooFewRows && budget_left() > 0;
  });
}

int Scheduler::wanted_rows(int rows_left) const {
  const int threshold = limits_.chunked_prefill ? limits_.long_prefill_token_threshold : 0;
  return threshold > 0 ? std::min(rows_left, threshold) : rows_left;
}

// Fewer than sliver_rows_ rows are not worth a span of their own next to another prompt's.
bool Scheduler::worth_starting(int wanted, int most_rows) const {
  if (!limits_.chunked_prefill) return wanted <= most_rows;
  return !has_prompt_span() || most_rows >= std::min(sliver_rows_, wanted);
}

// Gives at most `most_rows` >= 1 (more) rows to a prompt, which is admitted if it waits.
Scheduler::Verdict Scheduler::allot(Entry& e, int most_rows) {
  if (!e.runs()) {
    const Verdict verdict = try_admit(e, most_rows);
    if (verdict != Verdict::kAllotted) return verdict;
  }
  const int given = has_span(e) ? plan_.spans[e.span_index].rows : 0;
  const int wanted = wanted_rows(e.rows_left()) - given;
  if (given == 0 && !worth_starting(wanted, most_rows)) return Verdict::kTooFewRows;
  int rows = std::min(wanted, most_rows);
  const int end = e.computed + given + rows;
  const int beyond_block = end % kBlockTokens;
  if (end < e.known && beyond_block < rows && beyond_block * 4 < given + rows) rows -= beyond_block;
  if (rows > 0) give(e, rows);
  return Verdict::kAllotted;
}

// Gives the rows that are left to prompts that could use more.
void Scheduler::use_up_rows() {
  for (std::size_t i = first_prompt_span_; i < plan_.spans.size() && budget_left() > 0; ++i) {
    Entry& e = entry(plan_.spans[i].sequence);
    give(e, std::min(wanted_rows(e.rows_left()) - plan_.spans[i].rows, budget_left()));
  }
}

}  // namespace sluice
