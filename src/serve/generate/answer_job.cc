// Used by answer_plan.h and answer_planners.cc.
#include "serve/generate/answer_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/threads/mutex.h"
#include "serve/guard/request_admission.h"

namespace sluice {
namespace {

double seconds_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// A request that an engine refuses at once can never run: that is the request's fault, whatever it would exhaust.
bool is_refusal(const Status& status) {
  return status.code() == StatusCode::kInvalidArgument || status.code() == StatusCode::kResourceExhausted;
}

ApiError submit_error(const Status& status) {
  ApiError error = to_api_error(status);
  if (is_refusal(status)) error.status = 400;
  return error;
}

}  // namespace

GenerationJob::GenerationJob(ApiContext& context, HttpExchangePtr exchange, GenerationPlan& plan)
    : context_(context),
      exchange_(std::move(exchange)),
      id_(std::move(plan.id)),
      options_(std::move(plan.options)),
      constraint_(std::move(plan.constraint)),
      rules_(std::move(plan.rules)),
      now_(context.now),
      started_(exchange_->request().received),
      record_(exchange_->request().record),
      place_(std::move(plan.place)),
      writer_(std::move(plan.writer)) {
  const bool logprobs = options_.engine.sampling.top_logprobs >= 0 || options_.ranks();
  for (const PromptTokens& prompt : plan.prompts) {
    prompts_.push_back({0, static_cast<int>(prompt.ids.size()), static_cast<int>(prompt.prediction.size())});
    for (int i = 0; i < options_.best_of; ++i) {
      choices_.push_back({GenerationStream(context_.tokenizer, options_.stop, logprobs,
                                           plan.make_parser ? plan.make_parser() : nullptr, options_.shown),
                          started_});
    }
  }
  open_choices_ = choices_.size();
}

void GenerationJob::start(ApiContext& context, HttpExchangePtr exchange, GenerationPlan plan) {
  const std::shared_ptr<GenerationJob> job(new GenerationJob(context, exchange, plan));
  if (!context.jobs.add(job)) {
    exchange->respond(error_response({503, "the server is shutting down", "", "unavailable"}));
    return;
  }
  exchange->on_disconnect([weak = std::weak_ptr(job)] {
    if (const auto left = weak.lock()) left->leave();
  });
  exchange->on_backlog([weak = std::weak_ptr(job)](bool is_full) {
    if (const auto late = weak.lock()) late->hold(is_full);
  });
  if (const auto deadline = exchange->request().deadline) {
    exchange->after(*deadline - context.now(), [weak = std::weak_ptr(job)] {
      if (const auto late = weak.lock()) late->expire();
    });
  }
  if (const Status status = job->submit_all(plan.prompts); !status.ok()) {
    job->cancel();
    context.jobs.remove(job);
    exchange->respond(error_response(submit_error(status)));
    return;
  }
  job->open();
}

Status GenerationJob::submit_all(std::vector<PromptTokens>& prompts) {
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    if (!options_.seed && options_.engine.sampling.temperature > 0) {
      log_info("{}{}: no seed was given, drew seed {}", id_, prompts.size() > 1 ? fmt::format(" prompt {}", i) : "",
               prompts[i].seed);
    }
    SLUICE_ASSIGN_OR_RETURN(const RequestId id, submit(i, std::move(prompts[i])));
    prompts_[i].id = id;
    bool gone = false;
    {
      const MutexLock lock(mutex_);
      submitted_.push_back(id);
      gone = cancelled_;
    }
    if (gone) context_.engine.cancel(id);
  }
  return {};
}

Result<RequestId> GenerationJob::submit(std::size_t index, PromptTokens prompt) {
  Request request{options_.engine, std::move(prompt.ids)};
  if (context_.log_text) prompt_text_ += context_.tokenizer.decode(request.prompt, /*skip_special=*/false);
  request.message_starts = std::move(prompt.message_starts);
  request.prediction = std::move(prompt.prediction);
  request.n = options_.best_of;
  request.constraint = constraint_;
  request.rules = rules_;
  request.sampling.seed = prompt.seed;
  if (options_.ranks()) request.sampling.top_logprobs = std::max(request.sampling.top_logprobs, 0);
  if (!options_.ignore_eos) {
    const std::vector<std::int32_t> ends = context_.engine.end_token_ids();
    request.stop_token_ids.insert(request.stop_token_ids.end(), ends.begin(), ends.end());
  }
  request.on_output = [self = shared_from_this(), index](Output output) { self->on_output(index, std::move(output)); };
  const int prompt_tokens = static_cast<int>(request.prompt.size());
  const int room = context_.engine.max_model_len() - prompt_tokens;
  // A request without a limit gets what the engine's memory can hold, if that is less than the context.
  const int most = room > 1 ? std::max(1, context_.engine.most_tokens(prompt_tokens)) : room;
  request.max_tokens = options_.max_tokens.value_or(most);
  return context_.engine.submit(std::move(request));
}

// Runs on the engine's thread, possibly after the server is gone.
void GenerationJob::on_output(std::size_t prompt, Output output) {
  bool wake = false;
  {
    const MutexLock lock(mutex_);
    wake = is_open_ && events_.empty();
    events_.push_back({prompt, std::move(output), now_()});
  }
  if (wake) exchange_->post([self = shared_from_this()] { self->pump(); });
}

// Outputs that came before this wait, as the answer's head must be sent first.
void GenerationJob::open() {
  if (options_.stream) {
    HttpResponse head;
    head.content_type = "text/event-stream";
    head.filler = writer_->filler();
    writer_->begin(usage(), head.body);
    exchange_->begin_stream(std::move(head));
  }
  {
    const MutexLock lock(mutex_);
    is_open_ = true;
  }
  exchange_->post([self = shared_from_this()] { self->pump(); });
}

void GenerationJob::pump() {
  std::vector<Event> events;
  Fate early = Fate::kNone;
  {
    const MutexLock lock(mutex_);
    events.swap(events_);
    early = early_;
  }
  std::string text;
  if (record_.answer_id.empty()) {
    record_.answer_id = id_;
    record_.prompt_tokens = usage().prompt_tokens;
    record_.prompt = std::move(prompt_text_);
  }
  if (early == Fate::kLate) return expire();
  if (early == Fate::kLeft) return leave();
  if (!events.empty()) place_.reset();
  const auto token = std::ranges::find_if(events, [](const Event& event) { return event.output.token.has_value(); });
  unwritten_since_ = token != events.end() ? token->at : Clock::time_point();
  try {
    for (Event& event : events) {
      if (ended_) return;
      take(event, text);
    }
  } catch (const std::exception& failure) {  // ends only this request
    return fail(Fate::kFailed,
                {500, fmt::format("the answer could not be written: {}", failure.what()), "", "internal_error"}, "");
  }
  if (ended_) return;
  if (open_choices_ == 0) return complete(std::move(text));
  // Requests that began since are held, too.
  if (is_held_ && !events.empty()) hold(true);
  if (options_.stream && !text.empty()) write(std::move(text));
}

// A piece of a stream.
void GenerationJob::write(std::string piece) {
  exchange_->write(std::move(piece));
  const Clock::time_point since = std::exchange(unwritten_since_, {});
  if (since != Clock::time_point()) context_.metrics.stream_delay.observe(seconds_between(since, now_()));
}

void GenerationJob::take(Event& event, std::string& text) {
  const std::size_t index =
      event.prompt * static_cast<std::size_t>(options_.best_of) + static_cast<std::size_t>(event.output.choice);
  Choice& choice = choices_[index];
  if (!choice.finish_reason.empty()) return;
  const GenerationDelta delta = choice.stream.push(event.output);
  if (context_.log_text) {
    for (const ChatDelta& piece : delta.text) record_.answers += piece.text;
    if (delta.finished && open_choices_ > 1) record_.answers += '\n';
  }
  choice.accepted_prediction += event.output.predicted;
  if (delta.weights_version != nullptr) {
    if (weights_version_.empty()) weights_version_ = *delta.weights_version;
    // Only the prompts of one call can meet several: each runs by itself.
    if (weights_version_ != *delta.weights_version) {
      return fail(Fate::kCancelled,
                  {503, "the weights were reloaded while the request ran; send it again", "", "weights_reloaded"},
                  std::move(text));
    }
  }
  const Clock::time_point admitted = event.output.admitted;
  if (record_.admitted == Clock::time_point() || (admitted != Clock::time_point() && admitted < record_.admitted)) {
    record_.admitted = admitted;
  }
  if (event.output.token) {
    record_token(event);
    auto& latency = choice.stream.completion_tokens() == 1 ? context_.metrics.time_to_first_token
                                                           : context_.metrics.time_per_output_token;
    const double seconds = seconds_between(choice.last_token, event.at);
    latency.observe(seconds);
    if (choice.stream.completion_tokens() > 1) context_.metrics.inter_token_latency.observe(seconds);
    choice.last_token = event.at;
  }
  if (delta.finished) {
    if (!delta.failure.ok()) {
      const bool cancelled = event.output.reason == FinishReason::kCancelled;
      return fail(cancelled ? Fate::kCancelled : Fate::kFailed, to_api_error(delta.failure), std::move(text));
    }
    choice.finish_reason = delta.finish_reason;
    record_.finish_reason = delta.finish_reason;
    record_.ended = event.at;
    --open_choices_;
    if (!event.output.finished) context_.engine.cancel(prompts_[event.prompt].id, event.output.choice);
  }
  writer_->delta(static_cast<int>(index), delta, usage(), text);
}

void GenerationJob::record_token(const Event& event) {
  use_tokens(exchange_->request(), 1);
  context_.metrics.generation_tokens.add(1);
  ++record_.completion_tokens;
  if (record_.first_token == Clock::time_point()) record_.first_token = event.at;
  record_.last_token = event.at;
}

// No token is computed that the client does not read.
void GenerationJob::hold(bool is_full) {
  if (ended_) return;
  is_held_ = is_full;
  std::vector<RequestId> ids;
  {
    const MutexLock lock(mutex_);
    ids = submitted_;
  }
  for (const RequestId id : ids) context_.engine.set_paused(id, is_full);
}

// Returns whether it may end this way now: before it is open the end has to wait.
bool GenerationJob::begin_end(Fate fate) {
  if (ended_) return false;
  const MutexLock lock(mutex_);
  if (!is_open_) early_ = fate;
  return is_open_;
}

void GenerationJob::expire() {
  if (!begin_end(Fate::kLate)) return;
  fail(Fate::kLate, deadline_error(record_.first_token != Clock::time_point()), "");
}

// No client is there to be answered.
void GenerationJob::leave() {
  if (ended_) return;
  cancel();
  if (begin_end(Fate::kLeft)) end(Fate::kLeft);
}

// The one place where a request ends, before anyone hears of it.
void GenerationJob::end(Fate fate) {
  ended_ = true;
  // A client that hears of the end may ask again at once, though the engine still holds this.
  exchange_->request().ticket.reset();
  context_.jobs.remove(shared_from_this());
  record_.fate = fate;
  record_.cached_tokens = usage().cached_tokens;
  std::vector<std::string_view> answers;
  for (const Choice& choice : choices_) answers.push_back(choice.finish_reason);
  if (fate != Fate::kFinished) record_.finish_reason = finish_reason_of(fate);
  context_.metrics.on_end(record_, answers);
}

// A stream has the error as its last event: its status line is long gone.
void GenerationJob::fail(Fate fate, const ApiError& error, std::string text) {
  record_.error_status = error.status;
  record_.limit = error.limit;
  end(fate);
  cancel();
  if (error.status >= 500 && error.status != 503) log_error("request {} failed: {}", record_.id, error.message);
  if (!options_.stream) return exchange_->respond(error_response(error));
  writer_->fail(error, usage(), text);
  write(std::move(text));
  exchange_->finish();
}

void GenerationJob::complete(std::string text) {
  end(Fate::kFinished);
  writer_->end(usage(), text);
  if (options_.stream) {
    write(std::move(text));
    exchange_->finish();
  } else {
    HttpResponse response;
    response.body = std::move(text);
    exchange_->respond(std::move(response));
  }
}

// A prompt counts once, and what its first choice found of it in the cache; every generated token counts.
Usage GenerationJob::usage() const {
  Usage usage;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    const GenerationStream& stream = choices_[i].stream;
    const bool first_of_prompt = i % static_cast<std::size_t>(options_.best_of) == 0;
    if (first_of_prompt) usage.cached_tokens += stream.cached_tokens();
    usage.completion_tokens += stream.completion_tokens();
    usage.reasoning_tokens += stream.reasoning_tokens();
    const int accepted = choices_[i].accepted_prediction;
    usage.accepted_prediction_tokens += accepted;
    usage.rejected_prediction_tokens +=
        std::max(0, prompts_[i / static_cast<std::size_t>(options_.best_of)].predicted - accepted);
  }
  for (const Prompt& prompt : prompts_) usage.prompt_tokens += prompt.tokens;
  return usage;
}

void GenerationJob::cancel() {
  std::vector<RequestId> ids;
  {
    const MutexLock lock(mutex_);
    cancelled_ = true;
    ids = submitted_;
  }
  // Outside the lock: the engine may be calling on_output.
  for (const RequestId id : ids) context_.engine.cancel(id);
}

}  // namespace sluice
