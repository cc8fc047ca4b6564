#include "serve/generation_job.h"

#include <random>
#include <utility>

#include "base/log.h"

namespace sluice {
namespace {

double seconds_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

std::uint64_t draw_seed() {
  std::random_device random;
  return (std::uint64_t{random()} << 32) | random();
}

// What an engine refuses at once can never run: that is the request's fault, whatever it would exhaust.
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
      options_(std::move(plan.options)),
      writer_(std::move(plan.writer)),
      open_choices_(plan.choices.size()) {
  for (GenerationChoice& choice : plan.choices) {
    choices_.push_back({GenerationStream(context_.tokenizer, options_.stop, options_.sampling.top_logprobs >= 0,
                                         std::move(choice.parser)),
                        0, static_cast<int>(choice.prompt.size()), false, started_});
  }
}

void GenerationJob::start(ApiContext& context, HttpExchangePtr exchange, GenerationPlan plan) {
  const std::shared_ptr<GenerationJob> job(new GenerationJob(context, exchange, plan));
  if (!context.jobs.add(job)) {
    exchange->respond(error_response({503, "the server is shutting down", "", "unavailable"}));
    return;
  }
  exchange->on_disconnect([weak = std::weak_ptr(job)] {
    if (const auto left = weak.lock()) left->cancel();
  });
  if (const Status status = job->submit_all(plan.choices); !status.ok()) {
    job->cancel();
    context.jobs.remove(job);
    exchange->respond(error_response(submit_error(status)));
    return;
  }
  job->open();
}

Status GenerationJob::submit_all(std::vector<GenerationChoice>& choices) {
  for (std::size_t i = 0; i < choices.size(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(const RequestId id, submit(i, std::move(choices[i].prompt)));
    choices_[i].id = id;
    bool gone = false;
    {
      const std::lock_guard lock(mutex_);
      submitted_.push_back(id);
      gone = cancelled_;
    }
    if (gone) context_.engine.cancel(id);
  }
  return {};
}

Result<RequestId> GenerationJob::submit(std::size_t choice, std::vector<std::int32_t> prompt) {
  Request request;
  request.prompt = std::move(prompt);
  request.sampling = options_.sampling;
  request.sampling.seed = options_.seed ? *options_.seed : draw_seed();
  request.stop_token_ids = options_.stop_token_ids;
  if (!options_.ignore_eos) {
    const std::vector<std::int32_t> ends = context_.engine.end_token_ids();
    request.stop_token_ids.insert(request.stop_token_ids.end(), ends.begin(), ends.end());
  }
  request.on_output = [self = shared_from_this(), choice](Output output) {
    self->on_output(choice, std::move(output));
  };
  const int room = context_.engine.max_model_len() - static_cast<int>(request.prompt.size());
  request.max_tokens = options_.max_tokens.value_or(room);
  auto id = context_.engine.submit(request);
  // Who asks for no limit gets what the engine's memory can hold, if that is less than the context.
  while (!id.ok() && is_refusal(id.status()) && !options_.max_tokens && request.max_tokens > 1) {
    request.max_tokens /= 2;
    id = context_.engine.submit(request);
  }
  if (id.ok()) context_.metrics.prompt_length.observe(static_cast<double>(request.prompt.size()));
  return id;
}

// On the engine's thread, possibly after the server is gone.
void GenerationJob::on_output(std::size_t choice, Output output) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    wake = is_open_ && events_.empty();
    events_.push_back({choice, std::move(output), Clock::now()});
  }
  if (wake) exchange_->post([self = shared_from_this()] { self->pump(); });
}

// Outputs that came before this wait, as the answer's head must be sent first.
void GenerationJob::open() {
  if (options_.stream) {
    HttpResponse head;
    head.content_type = "text/event-stream";
    writer_->begin(head.body);
    exchange_->begin_stream(std::move(head));
  }
  {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
  }
  exchange_->post([self = shared_from_this()] { self->pump(); });
}

void GenerationJob::pump() {
  std::vector<Event> events;
  {
    const std::lock_guard lock(mutex_);
    events.swap(events_);
  }
  std::string text;
  for (Event& event : events) {
    if (ended_) return;
    take(event, text);
  }
  if (ended_) return;
  if (open_choices_ == 0) return complete(std::move(text));
  if (options_.stream && !text.empty()) exchange_->write(std::move(text));
}

void GenerationJob::take(Event& event, std::string& text) {
  Choice& choice = choices_[event.choice];
  if (choice.done) return;
  const GenerationDelta delta = choice.stream.push(event.output);
  if (event.output.token) {
    auto& latency = choice.stream.completion_tokens() == 1 ? context_.metrics.time_to_first_token
                                                           : context_.metrics.time_per_output_token;
    latency.observe(seconds_between(choice.last_token, event.at));
    choice.last_token = event.at;
  }
  if (delta.finished) {
    choice.done = true;
    --open_choices_;
    if (!event.output.finished) context_.engine.cancel(choice.id);
    const bool cancelled = event.output.finished && event.output.reason == FinishReason::kCancelled;
    context_.metrics.on_finished(delta.failure.ok() ? delta.finish_reason
                                 : cancelled        ? "abort"
                                                    : "error",
                                 seconds_between(started_, event.at));
    if (!delta.failure.ok()) return fail(to_api_error(delta.failure), std::move(text));
  }
  writer_->delta(static_cast<int>(event.choice), delta, text);
}

// A stream tells the error as its last event: its status line is long gone.
void GenerationJob::fail(const ApiError& error, std::string text) {
  ended_ = true;
  cancel();
  context_.jobs.remove(shared_from_this());
  if (error.status >= 500 && error.status != 503) log_error("a request failed: {}", error.message);
  if (!options_.stream) return exchange_->respond(error_response(error));
  append_event(text, error_json(error));
  append_event(text, "[DONE]");
  exchange_->write(std::move(text));
  exchange_->finish();
}

void GenerationJob::complete(std::string text) {
  ended_ = true;
  context_.jobs.remove(shared_from_this());
  writer_->end(usage(), text);
  if (options_.stream) {
    exchange_->write(std::move(text));
    exchange_->finish();
  } else {
    HttpResponse response;
    response.body = std::move(text);
    exchange_->respond(std::move(response));
  }
}

Usage GenerationJob::usage() const {
  Usage usage;
  for (const Choice& choice : choices_) {
    usage.prompt_tokens += choice.prompt_tokens;
    usage.completion_tokens += choice.stream.completion_tokens();
    usage.cached_tokens += choice.stream.cached_tokens();
    usage.reasoning_tokens += choice.stream.reasoning_tokens();
  }
  return usage;
}

void GenerationJob::cancel() {
  std::vector<RequestId> ids;
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    ids = submitted_;
  }
  // Outside the lock: the engine may be calling on_output.
  for (const RequestId id : ids) context_.engine.cancel(id);
}

}  // namespace sluice
