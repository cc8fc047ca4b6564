#include "sched/scheduler.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace sluice {

Scheduler::Scheduler(const SchedulerLimits& limits) : limits_(limits) {
  SLUICE_CHECK(limits.max_batched_tokens >= 1 && limits.max_seqs >= 1, "a scheduler needs a budget and a place");
  SLUICE_CHECK(limits.window_pages >= limits.geometry.steady_window_pages(), "one sequence must fit the window pool");
}

Status Scheduler::check(const SequenceCounts& counts) const {
  const std::int64_t tokens = std::int64_t{counts.prompt_tokens} + counts.max_tokens;
  if (tokens > limits_.max_model_len) {
    return invalid_argument(
        fmt::format("prompt ({} tokens) + max_tokens ({}) = {}, but the longest sequence is {} tokens "
                    "(--max-model-len): shorten either",
                    counts.prompt_tokens, counts.max_tokens, tokens, limits_.max_model_len));
  }
  const int pages = limits_.geometry.latent_pages(counts.rows());
  if (pages > limits_.latent_pages) {
    return invalid_argument(
        fmt::format("prompt ({} tokens) + max_tokens ({}) need {} cache pages of {} tokens, but there are {} in all "
                    "(--kv-cache-memory): "
                    "shorten either or give the cache more memory",
                    counts.prompt_tokens, counts.max_tokens, pages, kBlockTokens, limits_.latent_pages));
  }
  return {};
}

void Scheduler::add(SequenceId id, const SequenceCounts& counts) {
  SLUICE_CHECK(id.value >= 0 && counts.prompt_tokens >= 1 && counts.max_tokens >= 1,
               "a sequence has a prompt and an answer");
  if (static_cast<std::size_t>(id.value) >= entries_.size()) entries_.resize(static_cast<std::size_t>(id.value) + 1);
  SLUICE_CHECK(!entry(id).alive, "a live sequence was added again");
  entry(id) = {.counts = counts, .computed = 0, .known = counts.prompt_tokens, .alive = true, .admitted = false};
  waiting_.push_back(id);
}

void Scheduler::end(SequenceId id) {
  Entry& e = entry(id);
  SLUICE_CHECK(e.alive, "a sequence was ended twice");
  e.alive = false;
  if (!e.admitted) {
    std::erase(waiting_, id);
    return;
  }
  if (std::erase(turns_, id) == 0) std::erase(prefilling_, id);
  latent_pages_promised_ -= limits_.geometry.latent_pages(e.counts.rows());
  window_pages_promised_ -= limits_.geometry.steady_window_pages();
}

const StepPlan& Scheduler::plan() {
  plan_.admissions.clear();
  plan_.spans.clear();
  plan_.rows = 0;
  window_pages_spare_ = limits_.window_pages - static_cast<int>(window_pages_promised_);
  plan_decodes();
  plan_prefills();
  admit_waiting();
  return plan_;
}

bool Scheduler::prompt_can_advance() {
  return !prefilling_.empty() || (!waiting_.empty() && fits(entry(waiting_.front())));
}

void Scheduler::plan_decodes() {
  if (decoding() >= limits_.max_batched_tokens) return take_turns();
  for (const SequenceId id : turns_) {
    if (id != kPrompts) plan_span(id, 1);
  }
  // Prompts have a row in this step, so their turn comes last when turns begin.
  if (turns_.back() != kPrompts) {
    std::erase(turns_, kPrompts);
    turns_.push_back(kPrompts);
  }
}

void Scheduler::take_turns() {
  const bool prompts_can_advance = prompt_can_advance();
  bool passed = false;  // the prompts' turn came when none could advance
  auto next = turns_.begin();
  for (int rows = 0; rows < limits_.max_batched_tokens; ++next) {
    if (*next == kPrompts && !prompts_can_advance) {
      passed = true;
      continue;
    }
    if (*next != kPrompts) plan_span(*next, 1);
    ++rows;
  }
  std::rotate(turns_.begin(), next, turns_.end());
  if (passed) {
    std::erase(turns_, kPrompts);
    turns_.insert(turns_.begin(), kPrompts);
  }
}

void Scheduler::plan_prefills() {
  for (const SequenceId id : prefilling_) {
    if (budget_left() == 0) return;
    plan_span(id, budget_left());
  }
}

void Scheduler::admit_waiting() {
  while (!waiting_.empty() && budget_left() > 0 && fits(entry(waiting_.front()))) {
    const SequenceId id = waiting_.front();
    waiting_.pop_front();
    admit(id);
    plan_span(id, budget_left());
  }
}

bool Scheduler::fits(const Entry& e) const {
  const PageGeometry& g = limits_.geometry;
  return running() < limits_.max_seqs &&
         latent_pages_promised_ + g.latent_pages(e.counts.rows()) <= limits_.latent_pages &&
         g.steady_window_pages() <= window_pages_spare_;
}

void Scheduler::admit(SequenceId id) {
  Entry& e = entry(id);
  e.admitted = true;
  latent_pages_promised_ += limits_.geometry.latent_pages(e.counts.rows());
  window_pages_promised_ += limits_.geometry.steady_window_pages();
  window_pages_spare_ -= limits_.geometry.steady_window_pages();
  prefilling_.push_back(id);
  plan_.admissions.push_back(id);
}

void Scheduler::plan_span(SequenceId id, int most_rows) {
  const Entry& e = entry(id);
  const PageGeometry& g = limits_.geometry;
  const int steady = g.steady_window_pages();
  const int rows = std::min({most_rows, e.known - e.computed, g.rows_within(e.computed, steady + window_pages_spare_)});
  SLUICE_CHECK(rows >= 1, "a running sequence has a row to compute and the pages for it");
  window_pages_spare_ -= std::max(0, g.window_pages(e.computed, rows) - steady);
  plan_.spans.push_back({id, e.computed, rows, e.computed + rows == e.known});
  plan_.rows += rows;
}

void Scheduler::completed() {
  for (const Span& span : plan_.spans) {
    Entry& e = entry(span.sequence);
    if (!e.alive) continue;
    const bool was_decoding = e.computed >= e.counts.prompt_tokens;
    e.computed += span.rows;
    if (!span.samples) continue;
    ++e.known;
    if (!was_decoding) {
      std::erase(prefilling_, span.sequence);
      turns_.push_back(span.sequence);
    }
  }
  plan_.spans.clear();
}

}  // namespace sluice
