#include "soak_ledger.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace sluice {
namespace {

void cancel(Engine& engine, RequestId id, int choice) {
  choice < 0 ? engine.cancel(id) : engine.cancel(id, choice);
}

}  // namespace

void SoakLedger::submit(Engine& engine, SoakRequest request, int most_choices) {
  constexpr std::int64_t kArrivalSteps = 2;  // the one that is being computed, and the one it is planned for
  auto entry = std::make_shared<Entry>();
  Request r;
  r.prompt = request.prompt;
  r.max_tokens = request.max_tokens;
  r.stop_token_ids = request.stops;
  r.sampling = request.sampling;
  r.n = request.n;
  r.priority = request.priority;
  r.cache_salt = request.salt;
  r.message_starts = request.message_starts;
  r.on_output = [this, &engine, entry](const Output& output) { receive(engine, *entry, output); };

  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return choices_in_flight_ + request.n <= most_choices; });
  ++numbers_.requests;
  r.prediction = answers_[request.prompt.front()];
  const Result<RequestId> id = engine.submit(std::move(r));  // under the lock: the books know their order
  EXPECT_EQ(id.ok(), !request.too_large);
  if (!id.ok()) {
    ++numbers_.refused;
    return;
  }
  entry->id = *id;
  entry->unfinished = request.n;
  entry->choices.resize(static_cast<std::size_t>(request.n));
  entry->submitted_at = static_cast<std::int64_t>(numbers_.steps);
  if (promises_.rows_per_step > 0) {
    const auto steps_of = [this](const SoakRequest& of) {
      return (static_cast<std::int64_t>(of.prompt.size()) + promises_.rows_per_step - 1) / promises_.rows_per_step;
    };
    entry->bound = kArrivalSteps + steps_of(request) + promises_.most_share_waits + choices_in_flight_ / 32;
    for (const auto& [_, older] : live_) {
      if (!older->begun) entry->bound += steps_of(older->request);
    }
  }
  choices_in_flight_ += request.n;
  numbers_.choices += static_cast<std::uint64_t>(request.n);
  if (request.abort == SoakRequest::Abort::kAtOnce) cancel(engine, *id, request.aborted_choice);
  if (request.abort == SoakRequest::Abort::kAfterSteps) {
    aborts_.emplace(entry->submitted_at + request.abort_after, std::pair(*id, request.aborted_choice));
  }
  entry->request = std::move(request);
  live_.emplace(*id, entry);
}

void SoakLedger::step(Engine* engine) {
  std::lock_guard lock(mutex_);
  ++numbers_.steps;
  while (engine != nullptr && !aborts_.empty() && aborts_.begin()->first <= static_cast<std::int64_t>(numbers_.steps)) {
    const auto [id, choice] = aborts_.begin()->second;
    aborts_.erase(aborts_.begin());
    cancel(*engine, id, choice);
  }
}

void SoakLedger::receive(Engine& engine, Entry& entry, const Output& output) {
  std::lock_guard lock(mutex_);
  if (output.choice < 0 || output.choice >= entry.request.n ||
      entry.choices[static_cast<std::size_t>(output.choice)].ended) {
    ++numbers_.bad_outputs;
    return;
  }
  Choice& choice = entry.choices[static_cast<std::size_t>(output.choice)];
  if (output.token) {
    choice.tokens.push_back(*output.token);
    receive_token(engine, entry, output.choice);
  }
  if (output.choice == 0) entry.begun = true;
  if (output.finished) end(entry, choice, output);
}

void SoakLedger::receive_token(Engine& engine, Entry& entry, int index) {
  Choice& choice = entry.choices[static_cast<std::size_t>(index)];
  ++numbers_.tokens;
  const auto now = static_cast<std::int64_t>(numbers_.steps);
  if (choice.last_step >= 0) {
    const int gap = static_cast<int>(now - choice.last_step);
    numbers_.longest_gap = std::max(numbers_.longest_gap, gap);
    numbers_.late_gaps += promises_.token_gap > 0 && gap > promises_.token_gap;
  }
  choice.last_step = now;
  if (index == 0 && choice.tokens.size() == 1) check_wait(entry);
  const SoakRequest& r = entry.request;
  if (r.abort == SoakRequest::Abort::kAfterTokens && static_cast<int>(choice.tokens.size()) == r.abort_after &&
      (r.aborted_choice < 0 || r.aborted_choice == index)) {
    cancel(engine, entry.id, r.aborted_choice);
  }
}

void SoakLedger::check_wait(Entry& entry) {
  const auto wait = static_cast<std::int64_t>(numbers_.steps) - entry.submitted_at;
  numbers_.longest_wait = std::max(numbers_.longest_wait, static_cast<int>(wait));
  if (entry.bound == 0) return;
  numbers_.late += wait > entry.bound;
  numbers_.nearest_to_bound =
      std::max(numbers_.nearest_to_bound, static_cast<double>(wait) / static_cast<double>(entry.bound));
}

void SoakLedger::end(Entry& entry, Choice& choice, const Output& output) {
  choice.ended = true;
  choice.reason = output.reason;
  answers_[entry.request.prompt.front()] = choice.tokens;
  ++numbers_.ended[static_cast<std::size_t>(output.reason)];
  numbers_.cancelled_before_a_token += output.reason == FinishReason::kCancelled && choice.tokens.empty();
  --choices_in_flight_;
  if (--entry.unfinished == 0) {
    const auto found = live_.find(entry.id);
    if (keep_every_ > 0 && entry.id % static_cast<RequestId>(keep_every_) == 0) kept_.push_back(found->second);
    live_.erase(found);
  }
  changed_.notify_all();
}

bool SoakLedger::wait_for_all(std::chrono::seconds patience) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, patience, [&] { return live_.empty(); });
}

SoakNumbers SoakLedger::numbers() const {
  std::lock_guard lock(mutex_);
  return numbers_;
}

}  // namespace sluice
