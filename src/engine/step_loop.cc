// The engine's thread: take the inbox, step, sample, report.
#include <algorithm>
#include <exception>
#include <string>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/threads/clocks.h"
#include "engine/engine_impl.h"

namespace sluice {
namespace {

Output ending(FinishReason reason, Status status = {}) {
  Output output;
  output.finished = true;
  output.reason = reason;
  output.status = std::move(status);
  return output;
}

}  // namespace

void EngineImpl::run() {
  runner_->threads().pin_caller();
  while (take_inbox()) {
    arrive_all();
    notice_files();
    for (const Cancel& cancel : taken_cancels_) cancel_now(cancel);
    taken_cancels_.clear();
    for (const Pause& pause : taken_pauses_) pause_now(pause);
    taken_pauses_.clear();
    run_tasks();
    swap_model();
    if (!stepper_.idle()) {
      const Clock::time_point began = Clock::now();
      const double work_began = clock_seconds(CLOCK_THREAD_CPUTIME_ID);
      step();
      stepped_ = Clock::now();
      const Clock::duration time = stepped_ - began;
      if (!stepper_.plan().empty()) count_step(time, clock_seconds(CLOCK_THREAD_CPUTIME_ID) - work_began);
      stepper_.close_record();
    } else {
      stepped_ = {};
      if (stepper_.outstanding()) deliver_all();
    }
    audit();
    publish_stats();
  }
  // Every submitted request gets an answer, also one that the loop has not read yet.
  {
    const MutexLock lock(mutex_);
    taken_arrivals_.swap(arrivals_);
  }
  for (Arrival& arrival : held_) arrive(std::move(arrival));
  for (Arrival& arrival : taken_arrivals_) arrive(std::move(arrival));
  while (!pending_.empty()) cancel_now({pending_.begin()->first, kAllChoices});
  audit();
  publish_stats();
}

void EngineImpl::arrive(Arrival arrival) {
  const RequestId id = arrival.id;
  PendingRequest& pending = pending_[id];
  pending.id = id;
  pending.options = std::move(arrival.options);
  pending.on_output = std::move(arrival.on_output);
  const RequestOptions& options = *pending.options;
  pending.choices.resize(static_cast<std::size_t>(options.n));
  pending.ended.resize(static_cast<std::size_t>(options.n));
  pending.unfinished = options.n;
  if (options.prompt_logprobs >= 0) {
    pending.prompt_logprobs = std::make_shared<PromptLogprobs>();
    pending.prompt_logprobs->start = std::max(1, options.prompt_logprobs_start);
  }
  if (options.max_tokens == 0 && options.prompt_logprobs < 0 && !options.exports()) {
    const int n = options.n;  // the last choice ends `pending`
    for (int choice = 0; choice < n; ++choice) end_choice(pending, choice, ending(FinishReason::kLength));
    return;
  }
  pending.choices[0] = stepper_.add({.prompt = std::move(arrival.prompt),
                                     .options = pending.options,
                                     .answer = answer_of(pending, 0),
                                     .logprobs = pending.prompt_logprobs});
}

SequenceAnswer EngineImpl::answer_of(PendingRequest& pending, int choice) const {
  const RequestOptions& options = *pending.options;
  SequenceAnswer answer{.request = &pending, .choice = choice, .sampling = options.sampling};
  answer.sampling.seed = choice_seed(options.sampling.seed, choice);
  if (options.constraint != nullptr) answer.constraint = options.constraint->copy();
  if (options.rules != nullptr && options.rules->any()) {
    answer.ruled = std::make_shared<RuledTokens>(options.rules, options.stop_token_ids, runner_->limits().vocab_size);
  }
  return answer;
}

// Another choice of the first one's request as a sequence of its own, which computes the prompt or finds it in the
// prefix cache.
void EngineImpl::begin_again(SequenceId first, int choice) {
  PendingRequest& pending = *answer(first).request;
  pending.choices[static_cast<std::size_t>(choice)] = stepper_.add_again(first, answer_of(pending, choice));
}

void EngineImpl::cancel_now(const Cancel& cancel) {
  const auto held = std::ranges::find(held_, cancel.id, &Arrival::id);
  if (held != held_.end()) {  // begins it, with nothing computed, to end it below
    arrive(std::move(*held));
    held_.erase(held);
  }
  const auto found = pending_.find(cancel.id);
  if (found == pending_.end()) return;  // the id is unknown, or finished meanwhile
  PendingRequest& pending = found->second;
  const int n = pending.options->n;
  if (cancel.choice != kAllChoices) {
    if (cancel.choice >= 0 && cancel.choice < n) cancel_choice(pending, cancel.choice);
    return;
  }
  // Ends the last choice first: choice 0 may be computing the prompt for the others.
  for (int choice = n - 1; choice >= 0 && pending_.contains(cancel.id); --choice) cancel_choice(pending, choice);
}

void EngineImpl::cancel_choice(PendingRequest& pending, int choice) {
  const auto index = static_cast<std::size_t>(choice);
  if (pending.ended[index]) return;
  if (!pending.choices[index]) return end_choice(pending, choice, ending(FinishReason::kCancelled));
  // The other choices wait for this one's prompt; now they begin by themselves.
  if (choice == 0) {
    for (int other = 1; other < pending.options->n; ++other) {
      const auto o = static_cast<std::size_t>(other);
      if (!pending.ended[o] && !pending.choices[o]) begin_again(pending.choices[index], other);
    }
  }
  finish(pending.choices[index], ending(FinishReason::kCancelled));
}

// Choices that have not begun are not paused.
void EngineImpl::pause_now(const Pause& pause) {
  const auto found = pending_.find(pause.id);
  if (found == pending_.end()) return;  // the id is unknown, finished meanwhile, or not begun
  for (const SequenceId id : found->second.choices) {
    if (id) stepper_.set_paused(id, pause.paused);
  }
}

// `work`: processor time of this thread, which excludes other programs.
void EngineImpl::count_step(Clock::duration time, double work) {
  const double seconds = std::chrono::duration<double>(time).count();
  const auto bucket = [](const auto& bounds, double value) {
    return static_cast<std::size_t>(std::lower_bound(bounds.begin(), bounds.end(), value) - bounds.begin());
  };
  ++step_counts_.by_seconds[bucket(StepCounts::kSeconds, seconds)];
  step_counts_.seconds += seconds;
  if (!asynchronous_)
    stepper_.took(computes_later(runner_->exec()) ? seconds : work);  // asynchronous: step() reports it
  ++step_counts_.by_rows[bucket(StepCounts::kRows, stepper_.plan().rows)];
  step_counts_.rows += static_cast<std::uint64_t>(stepper_.plan().rows);
}

// Computes one token of a sequence whose state and pages are kept for this test.
void EngineImpl::run_self_test() {
  constexpr TokenId kId = 0;
  constexpr int kRow = 0;
  Result<StateSlot> state = runner_->sequences().open();
  SLUICE_CHECK(state.ok(), "a state is kept for the self-test");
  const StepSpan span{.sequence = *state, .ids = {&kId, 1}, .logit_rows = {&kRow, 1}};
  const Status status = runner_->run_step({&span, 1});
  SLUICE_CHECK(status.code() != StatusCode::kResourceExhausted, "pages are kept for the self-test");
  if (status.ok()) std::ignore = runner_->logits().all();  // waits for the device
  runner_->sequences().close(*state);
  made_token_ = status.ok() && runner_->exec().device->status().ok();
}

// An exception that a constraint throws ends its request, and no other.
Status EngineImpl::accept(const SequenceAnswer& answer, TokenId token) {
  if (answer.constraint == nullptr) return {};
  try {
    if (answer.constraint->accept(token)) return {};
  } catch (const std::exception& failure) {
    return internal_error(std::string("the constraint: ") + failure.what());
  }
  return internal_error("a token was drawn that the constraint refuses");
}

// Asynchronous: the tokens that are delivered are those of the step before the one that was begun, unless drafts are
// worth it to wait for them.
void EngineImpl::step() {
  // Work between two steps counts: a device that waits for it computes nothing.
  Clock::time_point began = stepped_ != Clock::time_point() ? stepped_ : Clock::now();
  const auto seconds = [&began] { return std::chrono::duration<double>(Clock::now() - began).count(); };
  if (stepper_.outstanding() && stepper_.wants_tokens()) {
    deliver_all();
    stepper_.took(seconds());
    began = Clock::now();
  }
  const bool delayed = stepper_.outstanding();
  BegunStep begun = stepper_.begin();
  if (delayed) {
    deliver_all();
    stepper_.took_before(seconds());
  }
  Result<ComputedStep> step = std::move(begun).commit();
  if (!step.ok()) return fail_step(step.status());
  draw_all(*step);
  sent_ = std::move(*step).send();
  if (asynchronous_ && !sent_.drafted()) return;
  deliver_all();
  if (asynchronous_ && !delayed) stepper_.took(seconds());
}

// Audits, also after events without a step: a cancellation of the last request, the end.
void EngineImpl::audit() const {
  if (!audit_ || !runner_->exec().device->status().ok()) return;
  const Status sound = stepper_.audit();
  SLUICE_CHECK(sound.ok(), sound.message().c_str());
}

void EngineImpl::draw_all(ComputedStep& step) {
  for (std::size_t i = 0; i < step.sampled().size(); ++i) {
    const SequenceId id = step.sampled()[i];
    if (!id) continue;
    const std::size_t row = step.logits_row(i);
    const SequenceAnswer& a = answer(id);
    if (a.choice == 0 && stepper_.sequences()[id].generated() == 0 && a.request->options->n > 1)
      fork_choices(step, id, row);
    step.draw(id, row, answer(id).sampling);
  }
}

// The prompt is computed: the request's other choices go on from here, each with a seed of its own. One that has no
// place or memory now begins by itself; its tokens are the same.
void EngineImpl::fork_choices(ComputedStep& step, SequenceId first, std::size_t row) {
  PendingRequest& pending = *answer(first).request;
  for (int choice = 1; choice < pending.options->n; ++choice) {
    const auto index = static_cast<std::size_t>(choice);
    if (pending.ended[index] || pending.choices[index]) continue;
    const SequenceId id = stepper_.fork(first, answer_of(pending, choice));
    if (!id) {
      begin_again(first, choice);
      continue;
    }
    pending.choices[index] = id;
    step.draw(id, row, answer(id).sampling);
  }
}

void EngineImpl::deliver_all() {
  TakenStep step = std::move(sent_).take();
  if (!step.tokens().empty()) deliver_all(step.tokens());
  std::move(step).end();
}

// A callback may end sequences.
void EngineImpl::deliver_all(std::span<const DrawnToken> taken) {
  if (const Status works = runner_->exec().device->status(); !works.ok()) {
    log_error("the device failed: {}; restart the program to go on", works.message());
    return fail_all(works);
  }
  if (!files_are_sound()) return notice_files();  // before a token is delivered
  for (const DrawnToken& drawn : taken) {
    if (drawn.id) deliver(drawn);
  }
}

void EngineImpl::deliver(const DrawnToken& drawn) {
  const SequenceId id = drawn.id;
  Sampled sampled;
  const LiveSequence& s = stepper_.sequences()[id];
  const SequenceAnswer& a = s.answer;
  Status status = *drawn.bound;
  if (status.ok()) status = read_sample(*drawn.row, static_cast<Position>(s.tokens.size()), &sampled);
  if (!status.ok()) return finish(id, ending(FinishReason::kError, std::move(status)));
  const RequestOptions& options = *a.request->options;
  const bool exports = options.exports();
  if (options.max_tokens == 0) {
    Output prompt_only = ending(FinishReason::kLength);
    prompt_only.prompt_logprobs = a.request->prompt_logprobs;
    if (exports) prompt_only.exported = std::make_shared<ExportedRows>(stepper_.take_exported(id));
    return finish(id, std::move(prompt_only));
  }
  const TokenId token = sampled.token;
  if (Status taken = accept(a, token); !taken.ok()) {
    return finish(id, ending(FinishReason::kError, std::move(taken)));
  }
  stepper_.append(id, token);
  ++generated_tokens_;
  made_token_ = true;
  Output output;
  output.choice = a.choice;
  output.token = token;
  output.logprob = sampled.logprob;
  output.top = std::move(sampled.top);
  output.cached_tokens = s.cached_tokens;
  output.admitted = s.admitted_at;
  output.predicted = drawn.predicted;
  if (s.generated() == 1) output.prompt_logprobs = a.request->prompt_logprobs;
  if (exports) output.exported = std::make_shared<ExportedRows>(stepper_.take_exported(id));
  const std::vector<std::int32_t>& stops = options.stop_token_ids;
  const bool stopped = std::find(stops.begin(), stops.end(), token) != stops.end();
  if (!stopped && s.generated() < options.max_tokens) return report(a.request->on_output, std::move(output));
  output.finished = true;
  output.reason = stopped ? FinishReason::kStop : FinishReason::kLength;
  finish(id, std::move(output));
}

// A step that could not run ends the requests that were in it, and nothing else.
void EngineImpl::fail_step(const Status& status) {
  log_error("a step failed: {}", status.message());
  const std::vector<SequenceId> failed(stepper_.failed().begin(), stepper_.failed().end());
  for (const SequenceId id : failed) {
    if (!id) continue;  // ended meanwhile
    PendingRequest& pending = *answer(id).request;
    const RequestId request = pending.id;
    const int choice = answer(id).choice;
    for (int other = pending.options->n - 1; choice == 0 && other > 0; --other) {
      const auto o = static_cast<std::size_t>(other);
      if (pending.ended[o] || pending.choices[o]) continue;
      end_choice(pending, other, ending(FinishReason::kError, status));
    }
    if (pending_.contains(request)) finish(id, ending(FinishReason::kError, status));
  }
}

// The computed tokens are lost or worthless: every request is notified, and none gets such a token.
void EngineImpl::fail_all(const Status& status) {
  {
    const MutexLock lock(mutex_);
    broken_ = status;
    taken_arrivals_.swap(arrivals_);
  }
  for (Arrival& arrival : held_) arrive(std::move(arrival));
  held_.clear();
  for (Arrival& arrival : taken_arrivals_) arrive(std::move(arrival));
  taken_arrivals_.clear();
  while (!pending_.empty()) {
    PendingRequest& pending = pending_.begin()->second;
    for (int left = pending.unfinished, choice = pending.options->n - 1; left > 0; --choice) {
      const auto index = static_cast<std::size_t>(choice);
      if (pending.ended[index]) continue;
      --left;  // the last choice ends `pending`
      if (pending.choices[index]) {
        finish(pending.choices[index], ending(FinishReason::kError, status));
      } else {
        end_choice(pending, choice, ending(FinishReason::kError, status));
      }
    }
  }
}

// Frees everything before the last report, so that whoever hears of the end finds the memory free and the request
// counted.
void EngineImpl::finish(SequenceId id, Output output) {
  const SequenceAnswer a = answer(id);
  if (output.cached_tokens == 0) output.cached_tokens = stepper_.sequences()[id].cached_tokens;
  if (output.admitted == Clock::time_point()) output.admitted = stepper_.sequences()[id].admitted_at;
  stepper_.end(id);
  end_choice(*a.request, a.choice, std::move(output));
}

void EngineImpl::end_choice(PendingRequest& pending, int choice, Output output) {
  output.choice = choice;
  pending.ended[static_cast<std::size_t>(choice)] = true;
  pending.choices[static_cast<std::size_t>(choice)] = {};
  if (--pending.unfinished > 0) return report(pending.on_output, std::move(output));
  const std::function<void(Output)> on_output = std::move(pending.on_output);
  pending_.erase(pending.id);
  ++(output.reason == FinishReason::kCancelled ? cancelled_requests_ : finished_requests_);
  publish_stats();
  report(on_output, std::move(output));
}

void EngineImpl::report(const std::function<void(Output)>& on_output, Output output) {
  if (!on_output) return;
  {
    const MutexLock lock(mutex_);
    output.weights_version = version_;
  }
  on_output(std::move(output));
}

}  // namespace sluice
