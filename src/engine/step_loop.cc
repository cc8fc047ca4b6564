// The engine's thread: take the inbox, plan, run, sample, report.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "engine/engine_impl.h"

namespace sluice {

void Engine::Impl::run() {
  while (take_inbox()) {
    for (Arrival& arrival : taken_arrivals_) arrive(std::move(arrival));
    taken_arrivals_.clear();
    for (const RequestId id : taken_cancels_) cancel_now(id);
    taken_cancels_.clear();
    if (taken_probes_ > 0) run_probe();
    step();
    publish_stats();
  }
  // Whoever submitted gets an answer: also those whose request nobody has looked at yet.
  {
    std::lock_guard lock(mutex_);
    taken_arrivals_.swap(arrivals_);
  }
  for (Arrival& arrival : taken_arrivals_) arrive(std::move(arrival));
  for (Sequence& s : sequences_) {
    if (s.id != 0) cancel_now(s.id);
  }
  publish_stats();
}

void Engine::Impl::arrive(Arrival arrival) {
  if (arrival.request.max_tokens == 0) {
    ++counters_.finished_requests;
    publish_stats();
    report(arrival.request, {.token = {}, .top = {}, .finished = true, .reason = FinishReason::kLength, .status = {}});
    return;
  }
  if (free_sequences_.empty()) {
    free_sequences_.emplace_back(static_cast<std::int32_t>(sequences_.size()));
    sequences_.emplace_back();
  }
  const SequenceId id = free_sequences_.back();
  free_sequences_.pop_back();
  Sequence& s = sequence(id);
  s.id = arrival.id;
  s.request = std::move(arrival.request);
  s.tokens = std::move(s.request.prompt);
  s.prompt_tokens = static_cast<int>(s.tokens.size());
  by_request_.emplace(s.id, id);
  scheduler_.add(id, {s.prompt_tokens, s.request.max_tokens});
}

void Engine::Impl::cancel_now(RequestId id) {
  const auto found = by_request_.find(id);
  if (found == by_request_.end()) return;  // unknown, or finished meanwhile
  finish(found->second, {.token = {}, .top = {}, .finished = true, .reason = FinishReason::kCancelled, .status = {}});
}

// One token of a sequence of its own, whose state and pages are kept back for it.
void Engine::Impl::run_probe() {
  constexpr TokenId kId = 0;
  constexpr int kRow = 0;
  Result<StateSlot> state = runner_->open();
  SLUICE_CHECK(state.ok(), "a state is kept for the probe");
  const StepSpan span{.sequence = *state, .ids = {&kId, 1}, .logit_rows = {&kRow, 1}};
  const Status status = runner_->run_step({&span, 1});
  runner_->close(*state);
  SLUICE_CHECK(status.ok(), "pages are kept for the probe");
  made_token_ = true;
  publish_stats();
  {
    std::lock_guard lock(mutex_);
    probes_done_ = taken_probes_;
  }
  probed_.notify_all();
}

void Engine::Impl::step() {
  const StepPlan& plan = scheduler_.plan();
  if (plan.empty()) {
    SLUICE_CHECK(scheduler_.waiting() == 0, "what waits with nothing running fits, or was refused");
    return;
  }
  build_step(plan);
  const Status status = runner_->run_step(step_spans_);
  ++counters_.steps;
  if (!status.ok()) return fail_step(status);
  sample_all();
  scheduler_.completed();
  for (std::size_t i = 0; i < sample_count_; ++i) deliver(samples_[i]);
}

void Engine::Impl::build_step(const StepPlan& plan) {
  for (const SequenceId id : plan.admissions) {
    Result<StateSlot> state = runner_->open();
    SLUICE_CHECK(state.ok(), "the scheduler admits no more sequences than there are states");
    Sequence& s = sequence(id);
    s.state = *state;
    s.tokens.reserve(static_cast<std::size_t>(s.prompt_tokens) + static_cast<std::size_t>(s.request.max_tokens));
  }
  last_rows_.resize(plan.spans.size());
  step_spans_.clear();
  sample_count_ = 0;
  for (std::size_t i = 0; i < plan.spans.size(); ++i) {
    const Span& span = plan.spans[i];
    const Sequence& s = sequence(span.sequence);
    last_rows_[i] = span.rows - 1;
    step_spans_.push_back({.sequence = s.state,
                           .ids = std::span(s.tokens).subspan(static_cast<std::size_t>(span.first_position),
                                                              static_cast<std::size_t>(span.rows)),
                           .logit_rows = {&last_rows_[i], span.samples ? std::size_t{1} : std::size_t{0}}});
    counters_.prompt_tokens +=
        static_cast<std::uint64_t>(std::clamp(s.prompt_tokens - span.first_position, 0, span.rows));
    if (!span.samples) continue;
    if (samples_.size() == sample_count_) samples_.emplace_back();
    samples_[sample_count_++].sequence = span.sequence;
  }
}

// Each row on any thread: the choice depends on the row and the request only.
void Engine::Impl::sample_all() {
  runner_->exec().pool->run(static_cast<int>(sample_count_), [this](int i, int thread) {
    Sample& sample = samples_[static_cast<std::size_t>(i)];
    const Sequence& s = sequence(sample.sequence);
    sample.status = samplers_[static_cast<std::size_t>(thread)].sample(
        runner_->logits(static_cast<std::size_t>(i)), s.request.sampling, static_cast<Position>(s.tokens.size()),
        &sample.sampled);
  });
}

void Engine::Impl::deliver(Sample& sample) {
  Sequence& s = sequence(sample.sequence);
  Output output;
  if (!sample.status.ok()) {
    output.finished = true;
    output.reason = FinishReason::kError;
    output.status = std::move(sample.status);
    return finish(sample.sequence, std::move(output));
  }
  const TokenId token = sample.sampled.token;
  s.tokens.push_back(token);
  ++counters_.generated_tokens;
  made_token_ = true;
  output.token = token;
  output.logprob = sample.sampled.logprob;
  output.top = sample.sampled.top;
  const std::vector<std::int32_t>& stops = s.request.stop_token_ids;
  const bool stopped = std::find(stops.begin(), stops.end(), token) != stops.end();
  if (!stopped && s.generated() < s.request.max_tokens) return report(s.request, std::move(output));
  output.finished = true;
  output.reason = stopped ? FinishReason::kStop : FinishReason::kLength;
  finish(sample.sequence, std::move(output));
}

// A step that could not run ends the requests that were in it, and nothing else.
void Engine::Impl::fail_step(const Status& status) {
  log_error("a step failed: {}", status.message());
  const std::vector<StepSpan> spans = step_spans_;
  scheduler_.completed();
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    const SequenceId id(static_cast<std::int32_t>(i));
    const StateSlot state = sequence(id).state;
    const bool in_step =
        state && std::any_of(spans.begin(), spans.end(), [&](const StepSpan& s) { return s.sequence == state; });
    if (!in_step) continue;
    finish(id, {.token = {}, .top = {}, .finished = true, .reason = FinishReason::kError, .status = status});
  }
}

// Frees everything before the last report, so that whoever hears of the end finds the memory free and the request
// counted.
void Engine::Impl::finish(SequenceId id, Output output) {
  Sequence& s = sequence(id);
  scheduler_.end(id);
  if (s.state) runner_->close(s.state);
  by_request_.erase(s.id);
  const Request request = std::move(s.request);
  s = {};
  free_sequences_.push_back(id);
  ++(output.reason == FinishReason::kCancelled ? counters_.cancelled_requests : counters_.finished_requests);
  publish_stats();
  report(request, std::move(output));
}

void Engine::Impl::report(const Request& request, Output output) {
  if (request.on_output) request.on_output(std::move(output));
}

}  // namespace sluice
