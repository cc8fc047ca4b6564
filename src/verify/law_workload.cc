// Used by law_compare.cc.
#include "verify/law_workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/engine_options.h"
#include "verify/law_runner.h"

namespace sluice {

void WorkloadChecker::begin(Stepper& stepper, const Workload& work, int request, int choice) {
  const WorkRequest& r = work.requests[static_cast<std::size_t>(request)];
  NewSequence sequence;
  sequence.prompt = prompt_of(r);
  const auto answered = static_cast<std::size_t>(r.answered);
  const std::vector<TokenId>& answer = expected(r, choice).tokens;
  sequence.prompt.insert(sequence.prompt.end(), answer.begin(), answer.begin() + r.answered);
  sequence.options = share({.max_tokens = r.max_tokens - r.answered,
                            .prompt_logprobs = kTop,
                            .return_routed_experts = r.exports,
                            .return_sparse_indices = r.exports,
                            .priority = r.priority,
                            .cache_salt = r.salt});
  if (r.scored_from >= 0 && choice == 0) {
    sequence.logprobs = std::make_shared<PromptLogprobs>();
    sequence.logprobs->start = std::max(1, r.scored_from);
  }
  const auto scores = sequence.logprobs;
  sequence.answer = answer_of(r, choice);
  for (int i = 0; i < r.answered && sequence.answer.constraint != nullptr; ++i) {
    sequence.answer.constraint->accept(answer[static_cast<std::size_t>(i)]);
  }
  const auto constraint = sequence.answer.constraint;
  live_[stepper.add(std::move(sequence)).value] = {.request = request,
                                                   .choice = choice,
                                                   .expected = &expected(r, choice),
                                                   .number = begun_.size(),
                                                   .generated = answered,
                                                   .scores = scores,
                                                   .constraint = constraint};
  begun_.push_back(&r);
}

SequenceAnswer WorkloadChecker::answer_of(const WorkRequest& r, int choice) {
  return {.sampling = sampling_of(r, choice), .constraint = alone_.constraint(r), .ruled = alone_.ruled(r)};
}

// Forks the other choices of a request from the first, which has just computed its prompt.
void WorkloadChecker::fork(Stepper& stepper, const Workload& work, SequenceId parent,
                           std::vector<SequenceId>* children) {
  const Choice c = live_.at(parent.value);
  const WorkRequest& r = work.requests[static_cast<std::size_t>(c.request)];
  for (int choice = 1; c.choice == 0 && c.generated == 0 && choice < r.n; ++choice) {
    const SequenceAnswer answer = answer_of(r, choice);
    const SequenceId child = stepper.fork(parent, answer);
    if (!child) {
      begin(stepper, work, c.request, choice);
      continue;
    }
    ++report_.forks;
    live_[child.value] = {.request = c.request,
                          .choice = choice,
                          .expected = &expected(r, choice),
                          .forked = true,
                          .constraint = answer.constraint};
    children->push_back(child);
  }
}

// Tokens for all that the step sampled, and for the choices that begin there.
void WorkloadChecker::draw(Stepper& stepper, const Workload& work, ComputedStep& step) {
  rows_.clear();
  for (std::size_t i = 0; i < step.sampled().size(); ++i) {
    const SequenceId sampled = step.sampled()[i];
    if (!sampled) continue;  // the sequence has ended
    const std::size_t row = step.logits_row(i);
    std::vector<SequenceId> takers;
    fork(stepper, work, sampled, &takers);
    takers.push_back(sampled);
    for (const SequenceId id : takers) {
      const Choice& c = live_.at(id.value);
      step.draw(id, row, sampling_of(work.requests[static_cast<std::size_t>(c.request)], c.choice));
      for (int d = 0; d <= step.draft_count(id); ++d) rows_.push_back(row + static_cast<std::size_t>(d));
    }
  }
  if (rows_.empty()) return;
  logits_.resize(step.logit_count() * runner_.limits().vocab_size);
  runner_.logits().fetch(logits_);  // there when the tokens are
}

// Some of the tokens that follow, most of them right, with a wrong one somewhere. -1: the stepper's own.
int WorkloadChecker::draft(SequenceId id, std::span<TokenId> to) {
  const Choice& c = live_.at(id.value);
  const WorkRequest& r = work_->requests[static_cast<std::size_t>(c.request)];
  if (r.stays && c.constraint != nullptr) return -1;  // its constraint forces its drafts
  const auto& tokens = c.expected->tokens;
  const std::size_t count = 1 + drafts_() % to.size();
  std::size_t wrong = drafts_() % 2 == 0 ? drafts_() % count : count;
  if (r.stays) wrong = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = c.generated + i;
    to[i] = at < tokens.size() ? tokens[at] : 0;
    if (i == wrong) to[i] = (to[i] + 1) % static_cast<TokenId>(runner_.limits().vocab_size);
  }
  return static_cast<int>(count);
}

std::optional<Violation> WorkloadChecker::take_all(Stepper& stepper, const Workload& work, SentStep sent) {
  TakenStep step = std::move(sent).take();
  const std::span<const DrawnToken> taken = step.tokens();
  for (std::size_t i = 0; i < taken.size(); ++i) {
    const std::size_t vocab = runner_.limits().vocab_size;
    const std::span<const float> row = std::span(logits_).subspan(rows_[i] * vocab, vocab);
    if (!taken[i].id) continue;
    if (auto difference = take(stepper, work, taken[i], row)) return difference;
  }
  std::move(step).end();
  return std::nullopt;
}

void WorkloadChecker::cancel(Stepper& stepper, int request) {
  for (auto it = live_.begin(); it != live_.end();) {
    if (it->second.request != request) {
      ++it;
      continue;
    }
    const std::size_t swapped = runner_.cache().swap_space().bytes_used();
    stepper.end(SequenceId(it->first));
    it = live_.erase(it);
    ++report_.aborts;
    report_.swapped_aborts += runner_.cache().swap_space().bytes_used() < swapped;
  }
}

// Cancels the second sequence of the workload that a plan swaps out, except sequences that stay.
void WorkloadChecker::cancel_swapped(Stepper& stepper) {
  for (const Preemption& preemption : stepper.plan().preemptions) {
    const auto swapped = live_.find(preemption.sequence.value);
    // Its last token may have come since, and another have its id.
    if (swapped == live_.end() || !stepper.sequences()[preemption.sequence].swapped) continue;
    // One that stays is cancelled if it goes on being swapped, because the others ended too early.
    const WorkRequest& r = work_->requests[static_cast<std::size_t>(swapped->second.request)];
    if (r.stays && (r.rules == 0 || r.constraint != LawConstraint::kNone || ++stayed_ < 4)) continue;
    if (r.stays) swapped_ = std::max(swapped_, 1);
    if (++swapped_ == 2) return cancel(stepper, swapped->second.request);
  }
}

std::optional<Violation> WorkloadChecker::run(const Workload& work) {
  const auto failed = [](const Status& status) { return Violation{"audit", std::string(status.message())}; };
  for (const WorkRequest& r : work.requests) {
    for (int choice = 0; choice < r.n; ++choice) {
      if (const Status status = alone_.compute(r, choice); !status.ok()) return failed(status);
    }
  }
  work_ = &work;
  live_.clear();
  begun_.clear();
  swapped_ = stayed_ = 0;
  runner_.cache().prefix_cache().reset();
  runner_.cache().prefix_cache().set_enabled(work.caching);
  const std::uint64_t evicted = evictions(runner_);
  // The scheduler gets the pages that are left, besides the page that it keeps for the self-test.
  const Result<StateSlot> occupied =
      work.pages > 0 ? runner_.sequences().occupy_all_but(work.pages + 1) : Result<StateSlot>(StateSlot());
  Result<std::optional<Violation>> found = run_stepper(work);
  if (occupied.ok() && *occupied) runner_.sequences().close(*occupied);
  runner_.cache().prefix_cache().set_enabled(true);
  report_.evictions += static_cast<std::int64_t>(evictions(runner_) - evicted);
  if (!found.ok()) return failed(found.status());
  if (*found) return *found;
  const Status rest = check_at_rest(runner_);
  return rest.ok() ? std::nullopt : std::optional(failed(rest));
}

// Adds the digests of its requests alone, which equal the results of the workload.
void WorkloadChecker::add_digest(const Workload& work) {
  std::uint64_t& digest = report_.digest;
  for (const WorkRequest& r : work.requests) {
    for (int choice = 0; choice < r.n; ++choice) {
      const Generated& answer = expected(r, choice);
      for (std::size_t i = 0; i < static_cast<std::size_t>(r.max_tokens); ++i) {
        digest = mixed(mixed(digest, answer.tokens[i]), answer.digests[i]);
        for (const TokenId draft : answer.drafts[i]) digest = mixed(digest, draft);
      }
    }
  }
}

Result<std::optional<Violation>> WorkloadChecker::run_stepper(const Workload& work) {
  SLUICE_RETURN_IF_ERROR(use_threads(runner_, work.threads));
  runner_.results().set_score_rows(work.score_rows);
  report_.thread_counts.insert(runner_.threads().count());
  EngineSetup options = work.options;
  options.testing.random_texts = true;
  Stepper stepper(&runner_, options);
  drafts_.seed(static_cast<std::uint32_t>(options_.seed + work.requests.size()));
  if (work.right_drafts) {
    stepper.draft_by([this](SequenceId id, std::span<TokenId> to) { return draft(id, to); });
  }
  Result<std::optional<Violation>> found = drive(stepper, work);
  EngineStats stats;
  stepper.fill(&stats);
  report_.preemptions += static_cast<std::int64_t>(stats.preemptions_recompute);
  report_.swaps += static_cast<std::int64_t>(stats.preemptions_swap);
  report_.swaps_restored += static_cast<std::int64_t>(stats.swaps_restored);
  report_.resumed_tokens += static_cast<std::int64_t>(stats.cache.resumed_tokens);
  report_.drafts += static_cast<std::int64_t>(stats.drafts.drafted_tokens);
  report_.drafts_rejected += static_cast<std::int64_t>(stats.drafts.drafted_tokens - stats.drafts.accepted_tokens);
  return found;
}

Status WorkloadChecker::arrive(Stepper& stepper, const Workload& work, int step) {
  for (std::size_t i = 0; i < work.requests.size(); ++i) {
    const WorkRequest& r = work.requests[i];
    if (r.arrives == step) {
      SLUICE_RETURN_IF_ERROR(stepper.check(static_cast<int>(prompt_of(r).size()), r.max_tokens));
      begin(stepper, work, static_cast<int>(i), 0);
    }
    if (r.cancelled == step) cancel(stepper, static_cast<int>(i));
  }
  return {};
}

Result<std::optional<Violation>> WorkloadChecker::drive(Stepper& stepper, const Workload& work) {
  constexpr int kMostSteps = 100000;
  const bool is_asynchronous = resolve_async_scheduling(work.options, computes_later(runner_.exec()));
  int last_arrival = 0;
  SentStep sent;  // the step whose tokens are on their way
  for (const WorkRequest& r : work.requests) last_arrival = std::max(last_arrival, r.arrives);
  for (int step = 0; step <= last_arrival || !stepper.idle() || stepper.outstanding(); ++step) {
    if (step > kMostSteps) return internal_error("the requests do not end");
    SLUICE_RETURN_IF_ERROR(arrive(stepper, work, step));
    if (stepper.idle() && !stepper.outstanding()) continue;
    // Waits as if drafts paid: then all tokens are known, and there may be drafts.
    if (work.waits_every > 0 && step % work.waits_every == 0 && stepper.outstanding()) {
      if (auto difference = take_all(stepper, work, std::exchange(sent, SentStep()))) return difference;
    }
    const bool delayed = stepper.outstanding();
    BegunStep begun = stepper.begin();
    report_.in_flight += delayed && !stepper.plan().empty();
    if (delayed) {
      if (auto difference = take_all(stepper, work, std::exchange(sent, SentStep()))) return difference;
    }
    SLUICE_ASSIGN_OR_RETURN(ComputedStep computed, std::move(begun).commit());
    if (auto difference = check_drafts(stepper, computed)) return difference;
    draw(stepper, work, computed);
    sent = std::move(computed).send();
    if (!is_asynchronous || sent.drafted()) {
      if (auto difference = take_all(stepper, work, std::exchange(sent, SentStep()))) return difference;
    }
    if (work.cancels_swapped) cancel_swapped(stepper);
    // An audit waits for all that was enqueued.
    if (!is_asynchronous || step % 4 == 0) SLUICE_RETURN_IF_ERROR(stepper.audit());
  }
  return std::optional<Violation>();
}

Result<LawReport> check_scheduling_law(Runner& runner, std::span<const std::vector<TokenId>> prompts,
                                       const LawOptions& options) {
  const int pages = runner.cache().pools().latents().total() - 1;
  return check_workloads(runner, prompts, options,
                         [&](int number) { return make_workload(prompts, options, pages, number); });
}

Result<LawReport> check_workloads(Runner& runner, std::span<const std::vector<TokenId>> prompts,
                                  const LawOptions& options, const std::function<Workload(int)>& make) {
  LawReport report;
  WorkloadChecker checker(runner, prompts, options, &report);
  const LawClock clock(options);
  while (clock.goes_on(report.schedules)) {
    const int number = options.first_schedule + report.schedules;
    Workload work = make(number);
    std::optional<Violation> difference = checker.run(work);
    ++report.schedules;
    if (options.progress) options.progress(report.schedules);
    if (!difference) {
      checker.add_digest(work);
      continue;
    }
    for (std::size_t i = 0; options.shrink && i < work.requests.size() && work.requests.size() > 1;) {
      Workload smaller = work;
      smaller.requests.erase(smaller.requests.begin() + static_cast<std::ptrdiff_t>(i));
      if (!check_at_rest(runner).ok()) SLUICE_RETURN_IF_ERROR(runner.clear_cache());
      std::optional<Violation> still = checker.run(smaller);
      if (!still) {
        ++i;
        continue;
      }
      work = std::move(smaller);
      difference = std::move(still);
    }
    report.difference = LawDifference{
        .schedule = number, .prompt = 0, .position = 0, .first_value = difference->first_value, .text = {}};
    report.difference->text = fmt::format("seed {} workload {}: {}; the smallest workload found:\n{}", options.seed,
                                          number, difference->text, work.text());
    return report;
  }
  return report;
}

}  // namespace sluice
