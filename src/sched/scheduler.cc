// Used by engine/step, sched and sched/drafts.
#include "sched/scheduler.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace sluice {

namespace {

int watermark_of(const SchedulerLimits& limits) {
  if (!limits.geometry.has_latents) return 0;
  return limits.watermark_pages >= 0 ? limits.watermark_pages : std::max(1, limits.latent_pages / 100);
}

}  // namespace

Scheduler::Scheduler(const SchedulerLimits& limits)
    : limits_(limits),
      watermark_(watermark_of(limits)),
      steady_windows_(limits.geometry.steady_window_pages()),
      turns_(limits.max_batched_tokens),
      times_(limits.drafts) {
  SLUICE_CHECK(limits.max_batched_tokens >= 1 && limits.max_seqs >= 1, "a scheduler needs a budget and a place");
  SLUICE_CHECK(limits.drafts.most <= kMostDrafts, "a sequence has few drafts");
  SLUICE_CHECK(limits.window_pages >= steady_windows_, "one sequence must fit the window pool");
  SLUICE_CHECK(limits.chunked_prefill || limits.max_batched_tokens >= limits.max_model_len,
               "a prompt in one piece must fit the budget");
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
                    "(--kv-cache-memory): shorten either or give the cache more memory",
                    counts.prompt_tokens, counts.max_tokens, pages, kBlockTokens, limits_.latent_pages));
  }
  const int windows = limits_.geometry.has_windows ? blocks_for(counts.rows()) : 0;
  if (!limits_.chunked_prefill && windows > limits_.window_pages) {
    return invalid_argument(
        fmt::format("prompt ({} tokens) + max_tokens ({}), computed in one piece, need {} window pages of {} tokens, "
                    "but there are {} in all (--kv-cache-memory): shorten either, give the cache more memory, or allow "
                    "pieces (--enable-chunked-prefill)",
                    counts.prompt_tokens, counts.max_tokens, windows, kBlockTokens, limits_.window_pages));
  }
  return {};
}

int Scheduler::most_tokens(int prompt_tokens) const {
  std::int64_t rows = std::int64_t{limits_.max_model_len} - 1;
  if (limits_.geometry.has_latents) rows = std::min(rows, std::int64_t{limits_.latent_pages} * kBlockTokens);
  if (limits_.geometry.has_windows && !limits_.chunked_prefill) {
    rows = std::min(rows, std::int64_t{limits_.window_pages} * kBlockTokens);
  }
  return static_cast<int>(std::max<std::int64_t>(0, rows + 1 - prompt_tokens));
}

Scheduler::Entry& Scheduler::new_entry(SequenceId id, const SequenceCounts& counts) {
  SLUICE_CHECK(id.value >= 0 && counts.prompt_tokens >= 1 && counts.max_tokens >= 1,
               "a sequence has a prompt and an answer");
  if (index_of(id) >= entries_.size()) entries_.resize(index_of(id) + 1);
  Entry& e = entry(id);
  SLUICE_CHECK(e.state == State::kNone, "a live sequence was added again");
  e = {};
  e.counts = counts;
  if (limits_.drafts.adaptive) e.record = DraftRecord::like(all_records_);
  e.rank.priority = limits_.policy == SchedulingPolicy::kPriority ? counts.priority : 0;
  e.rank.arrival = ++arrivals_;
  e.rank.id = id;
  return e;
}

void Scheduler::add(SequenceId id, const SequenceCounts& counts) {
  Entry& e = new_entry(id, counts);
  e.known = counts.prompt_tokens;
  enter_waiting(e);
}

bool Scheduler::fork(SequenceId parent_id, SequenceId child_id, int free_latent_pages) {
  const Entry parent = entry(parent_id);
  SLUICE_CHECK(parent.runs() && !parent.rank.paused && !has_span(parent),
               "what is forked runs, and is between two steps");
  const bool copies = limits_.geometry.has_latents && parent.computed % kBlockTokens != 0;
  const int promise = parent.promised - parent.owes_copy + copies;
  // The last of the sequences that share an open page to write needs no copy, but it is not known which one that is.
  const int parents_copy = copies && !parent.owes_copy;
  const int unpromised = free_latent_pages - promised_pages_;
  if (running() >= limits_.max_seqs || (running() + 1) * steady_windows_ > limits_.window_pages ||
      unpromised < promise + parents_copy + watermark_) {
    return false;
  }
  Entry& child = new_entry(child_id, parent.counts);
  child.computed = parent.computed;
  child.known = parent.known;
  child.held = parent.held;
  child.owes_copy = copies;
  enter_running(child, parent.state);
  entry(parent_id).owes_copy |= copies;
  update_promise(entry(parent_id));
  return true;
}

void Scheduler::end(SequenceId id) {
  Entry& e = entry(id);
  SLUICE_CHECK(e.state != State::kNone, "a sequence was ended twice");
  paused_ -= e.rank.paused;
  if (e.runs()) {
    leave_running(e);
  } else {
    leave_order(e);
  }
  e = {};
}

void Scheduler::enter_waiting(Entry& e) {
  e.state = State::kWaiting;
  enter_order(e);
}

// Adds the sequence to the order by which rows or memory are given. A paused one is in none.
void Scheduler::enter_order(Entry& e) {
  if (e.state == State::kWaiting) ++waiting_for_[static_cast<std::size_t>(e.reason)];
  if (e.rank.paused) {
    asleep_ += e.state == State::kWaiting;
  } else if (e.state == State::kWaiting) {
    waiting_.insert(e.rank, e.rows_left());
  } else if (e.state == State::kPrompt) {
    prompts_.insert(e.rank, e.rows_left());
  } else {
    turns_.add(e.rank.id);
  }
}

void Scheduler::leave_order(Entry& e) {
  if (!e.runs()) --waiting_for_[static_cast<std::size_t>(e.reason)];
  if (e.rank.paused) {
    asleep_ -= e.state == State::kWaiting;
  } else if (e.state == State::kWaiting) {
    waiting_.erase(e.rank, e.rows_left());
  } else if (e.state == State::kParked) {
    std::erase(parked_, e.rank.id);
  } else if (e.state == State::kPrompt) {
    prompts_.erase(e.rank, e.rows_left());
  } else {
    turns_.remove(e.rank.id);
  }
}

void Scheduler::set_paused(SequenceId id, bool paused) {
  Entry& e = entry(id);
  SLUICE_CHECK(e.state != State::kNone && !has_span(e) && stage_ == Stage::kNone,
               "a sequence is paused between two steps");
  if (e.rank.paused == paused) return;
  leave_order(e);
  if (e.runs()) running_.erase(e.rank);
  e.rank.paused = paused;
  paused_ += paused ? 1 : -1;
  if (e.runs()) {
    running_.insert(e.rank);
  } else {
    e.state = State::kWaiting;
    e.reason = paused ? WaitReason::kPaused : WaitReason::kQueue;
  }
  enter_order(e);
}

void Scheduler::enter_running(Entry& e, State state) {
  e.state = state;
  running_.insert(e.rank);
  enter_order(e);
  spare_windows_ -= steady_windows_;
  update_promise(e);
}

void Scheduler::leave_running(Entry& e) {
  running_.erase(e.rank);
  leave_order(e);
  spare_windows_ += steady_windows_;
  e.state = State::kNone;
  e.held = 0;
  e.owes_copy = false;
  update_promise(e);
}

void Scheduler::update_promise(Entry& e) {
  promised_pages_ -= e.promised;
  const int rest = e.state == State::kPrompt ? std::max(0, limits_.geometry.latent_pages(e.known) - e.held) : 0;
  e.promised = rest + e.owes_copy;
  promised_pages_ += e.promised;
}

const StepPlan& Scheduler::plan(const PlanFacts& facts) {
  SLUICE_CHECK(stage_ == Stage::kAnswered, "a plan is made when its questions are answered");
  learn(facts);
  stage_ = Stage::kNone;
  coming_blocks_.clear();
  const bool only_prompts = prompts_only();
  prompts_next_ = false;
  if (only_prompts) plan_prompts();
  if (plan_.empty()) plan_with_decodes(facts);
  return plan_;
}

void Scheduler::plan_with_decodes(const PlanFacts& facts) {
  const bool mixed = limits_.mixed;
  plan_decodes(mixed ? turns_.due() : std::min(turns_.size(), limits_.max_batched_tokens));
  plan_drafts(facts);
  first_prompt_span_ = plan_.spans.size();
  if (mixed || plan_.empty()) plan_prompts();
  const bool has_prompts = has_prompt_span();
  if (mixed || !has_prompts) plan_other_decodes();
  if (!mixed) prompts_next_ = !has_prompts;
  turns_.step([this](SequenceId id) { return has_span(entry(id)); });
}

int Scheduler::extra_windows(const Span& span) const {
  if (span.rows <= 1) return 0;  // steady_windows_ are enough
  return std::max(0, limits_.geometry.window_pages(span.first_position, span.rows) - steady_windows_);
}

int Scheduler::rows_to_give(const Entry& e) const {
  return e.rows_left() + e.drafts;
}

// Gives a running sequence up to `most_rows` more rows in this step, as the window pool allows, and returns how many.
// The first row is always possible. The latent pages must be there: promised, or made room for.
int Scheduler::give(Entry& e, int most_rows) {
  if (!has_span(e)) {
    e.span_plan = plan_number_;
    e.span_index = plan_.spans.size();
    plan_.spans.push_back({e.rank.id, e.computed, 0, false});
  }
  Span& span = plan_.spans[e.span_index];
  const int extra_before = extra_windows(span);
  const int fitting = limits_.geometry.rows_within(e.computed, steady_windows_ + spare_windows_ + extra_before);
  const int rows = std::min({span.rows + most_rows, rows_to_give(e), fitting});
  SLUICE_CHECK(rows >= 1 && rows >= span.rows, "a running sequence has a row to compute and the pages for it");
  const int given = rows - span.rows;
  span.rows = rows;
  span.samples = rows >= e.rows_left();
  plan_.rows += given;
  spare_windows_ -= extra_windows(span) - extra_before;
  const int pages = std::max(0, limits_.geometry.latent_pages(e.computed + rows) - e.held);
  free_pages_ -= pages + e.owes_copy;
  e.held += pages;
  e.owes_copy = false;
  update_promise(e);
  return given;
}

void Scheduler::completed() {
  for (const Span& span : plan_.spans) {
    Entry& e = entry(span.sequence);
    if (!has_span(e)) continue;  // the sequence has ended
    e.span_plan = 0;
    if (e.state == State::kDecoding) {
      ++e.computed;
      ++e.known;
      continue;
    }
    prompts_.erase(e.rank, e.rows_left());
    e.computed += span.rows;
    if (!span.samples) {
      prompts_.insert(e.rank, e.rows_left());
      continue;
    }
    ++e.known;
    e.state = State::kDecoding;
    turns_.add(span.sequence);
    update_promise(e);
  }
  plan_.spans.clear();
}

}  // namespace sluice
