#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <random>
#include <tuple>
#include <utility>

#include "engine/step/sampler.h"
#include "engine/step/stepper.h"
#include "verify/law_alone.h"
#include "verify/law_check.h"
#include "verify/law_requests.h"
#include "verify/law_runner.h"
#include "verify/law_schedule.h"

namespace sluice {
namespace {

struct Found {
  std::string first_value, text;
};

bool same(const PromptLogprob& a, float logprob, std::span<const TokenLogprob> top) {
  const auto same_bits = [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
  };
  return same_bits(a.logprob, logprob) &&
         std::ranges::equal(a.top, top, [&](const TokenLogprob& x, const TokenLogprob& y) {
           return x.token == y.token && same_bits(x.logprob, y.logprob);
         });
}

class WorkloadChecker {
 public:
  WorkloadChecker(Runner& runner, std::span<const std::vector<TokenId>> prompts, const LawOptions& options,
                  LawReport* report)
      : runner_(runner), prompts_(prompts), options_(options), report_(*report), alone_(runner, prompts, options) {}

  // What differs, if anything.
  std::optional<Found> run(const Workload& work);
  void add_digest(const Workload& work);

 private:
  struct Choice {
    int request = 0, choice = 0;
    const Generated* expected = nullptr;
    bool forked = false;
    std::size_t number = 0;                       // in begun_
    std::size_t generated = 0;                    // those of its answer that were part of its prompt included
    std::shared_ptr<PromptLogprobs> scores = {};  // to be compared
    std::shared_ptr<TokenConstraint> constraint = {};
    std::size_t exported = 0;  // positions whose exports were compared
  };

  static constexpr int kTop = AloneAnswers::kTop;
  static SamplingParams sampling_of(const WorkRequest& r, int choice) { return AloneAnswers::sampling_of(r, choice); }
  static bool is_processed(const WorkRequest& r) { return AloneAnswers::is_processed(r); }
  const std::vector<TokenId>& prompt_of(const WorkRequest& r) const {
    return prompts_[static_cast<std::size_t>(r.prompt)];
  }
  Generated& expected(const WorkRequest& r, int choice) { return alone_.of(r, choice); }
  SequenceAnswer answer_of(const WorkRequest& r, int choice);
  std::optional<Found> check_scores(const WorkRequest& r, Choice& c);
  std::optional<Found> check_exports(Stepper& stepper, const WorkRequest& r, Choice& c, SequenceId id);
  Result<std::optional<Found>> run_stepper(const Workload& work);
  Result<std::optional<Found>> drive(Stepper& stepper, const Workload& work);
  Status arrive(Stepper& stepper, const Workload& work, int step);
  void begin(Stepper& stepper, const Workload& work, int request, int choice);
  void fork(Stepper& stepper, const Workload& work, SequenceId parent, std::vector<SequenceId>* children);
  void draw(Stepper& stepper, const Workload& work);
  int draft(SequenceId id, std::span<TokenId> to);
  std::optional<Found> check_drafts(Stepper& stepper);
  std::optional<Found> take_all(Stepper& stepper, const Workload& work);
  std::optional<Found> take(Stepper& stepper, const Workload& work, const DrawnToken& drawn,
                            std::span<const float> row);
  std::optional<Found> check_hit(Stepper& stepper, const WorkRequest& r, const Choice& c, SequenceId id);
  void cancel(Stepper& stepper, int request);
  void cancel_swapped(Stepper& stepper);

  Runner& runner_;
  std::span<const std::vector<TokenId>> prompts_;
  const LawOptions& options_;
  LawReport& report_;
  AloneAnswers alone_;
  std::map<std::int32_t, Choice> live_;    // by SequenceId
  std::vector<const WorkRequest*> begun_;  // of all sequences that have begun
  const Workload* work_ = nullptr;         // that runs
  int swapped_ = 0, stayed_ = 0;           // sequences so far; times that the one with rules that stays was
  std::vector<float> logits_;              // of the step whose tokens are on their way
  std::vector<std::size_t> rows_;          // of these, for each token
  std::mt19937 drafts_;                    // how right they are
};

// The score law: of the prompt as of the prompt alone, of the answer as when it was drawn.
std::optional<Found> WorkloadChecker::check_scores(const WorkRequest& r, Choice& c) {
  const PromptLogprobs scores = std::move(*std::exchange(c.scores, nullptr));
  const auto prompt = static_cast<int>(prompt_of(r).size());
  const int begin_alone = prompt - static_cast<int>(c.expected->of_prompt.size());
  const auto differ = [&](int position, const char* what) {
    return Found{"score", fmt::format("the log-probability of token {} of prompt {} (request {}) is not that {}",
                                      position, r.prompt, c.request, what)};
  };
  if (static_cast<int>(scores.tokens.size()) != std::max(0, prompt + r.answered - scores.start)) {
    return Found{"score", fmt::format("{} tokens of prompt {} (request {}) were scored from {} on",
                                      scores.tokens.size(), r.prompt, c.request, scores.start)};
  }
  for (std::size_t i = 0; i < scores.tokens.size(); ++i) {
    const PromptLogprob& found = scores.tokens[i];
    const int position = scores.start + static_cast<int>(i);
    if (position < prompt) {
      const RowScore& alone = c.expected->of_prompt[static_cast<std::size_t>(position - begin_alone)];
      std::vector<TokenLogprob> top;
      for (std::size_t t = 0; t < static_cast<std::size_t>(alone.logprobs.top_count); ++t) {
        top.push_back({alone.logprobs.top_ids[t], alone.logprobs.top_logprobs[t]});
      }
      if (!same(found, alone.logprobs.logprob, top) || found.rank != alone.rank) return differ(position, "of it alone");
      ++report_.scored;
      continue;
    }
    const PromptLogprob& drawn = c.expected->at_draw[static_cast<std::size_t>(position - prompt)];
    if (is_processed(r)) continue;  // scores are raw
    if (!same(found, drawn.logprob, drawn.top)) return differ(position, "at which it was drawn");
    ++report_.scored_answers;
  }
  return std::nullopt;
}

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

// The choices of a request beside the first, which has just computed its prompt.
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

// What a sequence took over when it began was computed by one of its salt.
std::optional<Found> WorkloadChecker::check_hit(Stepper& stepper, const WorkRequest& r, const Choice& c,
                                                SequenceId id) {
  if (c.forked) return std::nullopt;
  const int cached = stepper.cached_tokens(id);
  report_.hits += cached > 0;
  int common = 0;
  for (std::size_t i = 0; i < begun_.size(); ++i) {
    if (i == c.number || begun_[i]->salt != r.salt) continue;
    common = std::max(common, common_tokens(prompt_of(*begun_[i]), prompt_of(r)));
  }
  // Another may have computed the part of its answer that it begins with.
  if (cached <= common || (r.answered > 0 && common == static_cast<int>(prompt_of(r).size()))) return std::nullopt;
  return Found{"salt", fmt::format("prompt {} (request {}, choice {}, salt '{}') took over {} cached tokens, but no "
                                   "other of its salt has more than {} in common with it",
                                   r.prompt, c.request, c.choice, r.salt, cached, common)};
}

// Tokens for all that the step sampled, and for the choices that begin there.
void WorkloadChecker::draw(Stepper& stepper, const Workload& work) {
  rows_.clear();
  for (std::size_t i = 0; i < stepper.sampled().size(); ++i) {
    const SequenceId sampled = stepper.sampled()[i];
    if (!sampled) continue;  // ended since
    const std::size_t row = stepper.logits_row(i);
    std::vector<SequenceId> takers;
    fork(stepper, work, sampled, &takers);
    takers.push_back(sampled);
    for (const SequenceId id : takers) {
      const Choice& c = live_.at(id.value);
      stepper.draw(id, row, sampling_of(work.requests[static_cast<std::size_t>(c.request)], c.choice));
      for (int d = 0; d <= stepper.draft_count(id); ++d) rows_.push_back(row + static_cast<std::size_t>(d));
    }
  }
  if (rows_.empty()) return;
  logits_.resize(stepper.logit_count() * runner_.vocab_size());
  runner_.fetch_logits(logits_);  // there when the tokens are
  stepper.send();
}

// Some of the tokens that follow, most of them right, with a wrong one somewhere. -1: the stepper's own.
int WorkloadChecker::draft(SequenceId id, std::span<TokenId> to) {
  const Choice& c = live_.at(id.value);
  const WorkRequest& r = work_->requests[static_cast<std::size_t>(c.request)];
  if (r.stays && c.constraint != nullptr) return -1;  // what its constraint forces
  const auto& tokens = c.expected->tokens;
  const std::size_t count = 1 + drafts_() % to.size();
  std::size_t wrong = drafts_() % 2 == 0 ? drafts_() % count : count;
  if (r.stays) wrong = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = c.generated + i;
    to[i] = at < tokens.size() ? tokens[at] : 0;
    if (i == wrong) to[i] = (to[i] + 1) % static_cast<TokenId>(runner_.vocab_size());
  }
  return static_cast<int>(count);
}

// The draft law: what the model guesses behind the tokens of a sequence is a function of these, and of the drafts
// before.
std::optional<Found> WorkloadChecker::check_drafts(Stepper& stepper) {
  for (const SequenceId id : stepper.sampled()) {
    if (!id || stepper.draft_source(id) != DraftSource::kMtp) continue;
    const std::span<const TokenId> found = stepper.drafts(id);
    const Choice& c = live_.at(id.value);
    if (found.empty()) continue;
    const std::vector<TokenId>& alone = c.expected->drafts[c.generated];
    report_.model_drafts += static_cast<std::int64_t>(found.size());
    if (found.size() <= alone.size() && std::equal(found.begin(), found.end(), alone.begin())) continue;
    return Found{"drafts",
                 fmt::format("behind {} tokens of an answer (request {}, choice {}) the model guesses {}, alone {}",
                             c.generated, c.request, c.choice, fmt::join(found, " "), fmt::join(alone, " "))};
  }
  return std::nullopt;
}

std::optional<Found> WorkloadChecker::take_all(Stepper& stepper, const Workload& work) {
  const std::span<const DrawnToken> taken = stepper.take();
  for (std::size_t i = 0; i < taken.size(); ++i) {
    const std::size_t vocab = runner_.vocab_size();
    const std::span<const float> row = std::span(logits_).subspan(rows_[i] * vocab, vocab);
    if (!taken[i].id) continue;
    if (auto difference = take(stepper, work, taken[i], row)) return difference;
  }
  return std::nullopt;
}

// The next token of a sequence, and its row of logits. Says what differs.
std::optional<Found> WorkloadChecker::take(Stepper& stepper, const Workload& work, const DrawnToken& drawn,
                                           std::span<const float> row) {
  const SequenceId id = drawn.id;
  if (!live_.contains(id.value)) return Found{"token", "a token for a sequence that has ended"};
  Choice& c = live_.at(id.value);
  const WorkRequest& r = work.requests[static_cast<std::size_t>(c.request)];
  if (c.generated == static_cast<std::size_t>(r.answered)) {
    if (auto found = check_hit(stepper, r, c, id)) return found;
    if (c.scores != nullptr) {
      if (auto found = check_scores(r, c)) return found;
    }
  }
  const auto position = static_cast<Position>(stepper.tokens(id).size());
  Sampled sampled;
  const Status status = read_sample(*drawn.row, position, &sampled);
  const bool same_logits = bit_digest(row) == c.expected->digests[c.generated];
  if (!status.ok() || !same_logits || sampled.token != c.expected->tokens[c.generated]) {
    return Found{
        same_logits ? "token" : "logits",
        fmt::format("token {} of the answer to prompt {} (request {}, choice {}): {} {}, alone {}", c.generated,
                    r.prompt, c.request, c.choice, same_logits ? "the same logits, but token" : "other logits, token",
                    sampled.token, c.expected->tokens[c.generated])};
  }
  if (!same(c.expected->at_draw[c.generated], sampled.logprob, sampled.top)) {
    return Found{"logprob",
                 fmt::format("token {} of the answer to prompt {} (request {}, choice {}): other {} "
                             "log-probabilities than alone",
                             c.generated, r.prompt, c.request, c.choice, is_processed(r) ? "processed" : "raw")};
  }
  if (c.constraint != nullptr && !c.constraint->accept(sampled.token)) {
    return Found{"mask", fmt::format("token {} of the answer to prompt {} (request {}, choice {}): {} is drawn, which "
                                     "its constraint refuses there",
                                     c.generated, r.prompt, c.request, c.choice, sampled.token)};
  }
  if (r.exports) {
    if (auto found = check_exports(stepper, r, c, id)) return found;
  }
  ++report_.comparisons;
  report_.ruled += r.rules != 0;
  report_.constrained += c.constraint != nullptr;
  report_.budgeted += r.constraint == LawConstraint::kBudget;
  report_.forced += drawn.drafted && stepper.draft_source(id) == DraftSource::kForced;
  report_.choosing_rows += position - 1 >= options_.chooses_from;
  ++c.generated;
  stepper.append(id, sampled.token);
  const int length = r.stops_after > 0 ? r.stops_after : r.max_tokens;
  if (static_cast<int>(c.generated) < length) return std::nullopt;
  const auto& first = expected(r, 0).tokens;
  report_.forks_apart += c.forked && !std::equal(first.begin(), first.begin() + length, c.expected->tokens.begin());
  live_.erase(id.value);
  stepper.end(id);
  return std::nullopt;
}

// The export law: what layers chose for a position is a function of the tokens up to it.
std::optional<Found> WorkloadChecker::check_exports(Stepper& stepper, const WorkRequest& r, Choice& c, SequenceId id) {
  const ExportedDigests found = digests_of(stepper.take_exported(id));
  const auto differ = [&](const char* what) {
    return Found{"exports", fmt::format("{} of prompt {} (request {}, choice {}) behind {} of its tokens: not those of "
                                        "position {} and those behind it alone",
                                        what, r.prompt, c.request, c.choice, c.generated, c.exported)};
  };
  const std::size_t end = prompt_of(r).size() + c.generated;  // the token that was just drawn is there
  if (c.exported + found.experts.size() != end) return differ("rows that are exported");
  for (std::size_t i = 0; i < found.experts.size(); ++i, ++c.exported) {
    if (found.experts[i] != c.expected->experts[c.exported]) return differ("experts");
    if (found.entries[i] != c.expected->entries[c.exported]) return differ("entries");
    ++report_.exported;
    report_.exported_experts += found.experts[i] != 0;
    report_.exported_entries += found.entries[i] != 0;
  }
  return std::nullopt;
}

void WorkloadChecker::cancel(Stepper& stepper, int request) {
  for (auto it = live_.begin(); it != live_.end();) {
    if (it->second.request != request) {
      ++it;
      continue;
    }
    const std::size_t swapped = runner_.swap_space().bytes_used();
    stepper.end(SequenceId(it->first));
    it = live_.erase(it);
    ++report_.aborts;
    report_.swapped_aborts += runner_.swap_space().bytes_used() < swapped;
  }
}

// Of the sequences that the last plan swapped out, the second one of the workload, but for those that stay.
void WorkloadChecker::cancel_swapped(Stepper& stepper) {
  for (const Preemption& preemption : stepper.plan().preemptions) {
    const auto swapped = live_.find(preemption.sequence.value);
    // Its last token may have come since, and another have its id.
    if (swapped == live_.end() || !stepper.is_swapped(preemption.sequence)) continue;
    // One that stays is cancelled if it goes on being swapped, because the others ended too early.
    const WorkRequest& r = work_->requests[static_cast<std::size_t>(swapped->second.request)];
    if (r.stays && (r.rules == 0 || r.constraint != LawConstraint::kNone || ++stayed_ < 4)) continue;
    if (r.stays) swapped_ = std::max(swapped_, 1);
    if (++swapped_ == 2) return cancel(stepper, swapped->second.request);
  }
}

std::optional<Found> WorkloadChecker::run(const Workload& work) {
  const auto failed = [](const Status& status) { return Found{"audit", std::string(status.message())}; };
  for (const WorkRequest& r : work.requests) {
    for (int choice = 0; choice < r.n; ++choice) {
      if (const Status status = alone_.compute(r, choice); !status.ok()) return failed(status);
    }
  }
  work_ = &work;
  live_.clear();
  begun_.clear();
  swapped_ = stayed_ = 0;
  runner_.prefix_cache().reset();
  runner_.prefix_cache().set_enabled(work.caching);
  const std::uint64_t evicted = evictions(runner_);
  // The scheduler's memory is what is left, beside the page that it keeps for the self-test.
  const Result<StateSlot> occupied =
      work.pages > 0 ? runner_.occupy_all_but(work.pages + 1) : Result<StateSlot>(StateSlot());
  Result<std::optional<Found>> found = run_stepper(work);
  if (occupied.ok() && *occupied) runner_.close(*occupied);
  runner_.prefix_cache().set_enabled(true);
  report_.evictions += static_cast<std::int64_t>(evictions(runner_) - evicted);
  if (!found.ok()) return failed(found.status());
  if (*found) return *found;
  const Status rest = check_at_rest(runner_);
  return rest.ok() ? std::nullopt : std::optional(failed(rest));
}

// Of what its requests have alone, which is what they were given.
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

Result<std::optional<Found>> WorkloadChecker::run_stepper(const Workload& work) {
  SLUICE_RETURN_IF_ERROR(use_threads(runner_, work.threads));
  runner_.set_score_rows(work.score_rows);
  report_.thread_counts.insert(runner_.threads());
  EngineSetup options = work.options;
  options.testing.random_texts = true;
  Stepper stepper(&runner_, options);
  drafts_.seed(static_cast<std::uint32_t>(options_.seed + work.requests.size()));
  if (work.right_drafts) {
    stepper.draft_by([this](SequenceId id, std::span<TokenId> to) { return draft(id, to); });
  }
  Result<std::optional<Found>> found = drive(stepper, work);
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

Result<std::optional<Found>> WorkloadChecker::drive(Stepper& stepper, const Workload& work) {
  constexpr int kMostSteps = 100000;
  int last_arrival = 0;
  for (const WorkRequest& r : work.requests) last_arrival = std::max(last_arrival, r.arrives);
  for (int step = 0; step <= last_arrival || !stepper.idle() || stepper.outstanding(); ++step) {
    if (step > kMostSteps) return internal_error("the requests do not end");
    SLUICE_RETURN_IF_ERROR(arrive(stepper, work, step));
    if (stepper.idle() && !stepper.outstanding()) continue;
    // As where drafts pay: then all tokens are known, and there may be some.
    if (work.waits_every > 0 && step % work.waits_every == 0 && stepper.outstanding()) {
      if (auto difference = take_all(stepper, work)) return difference;
    }
    const bool delayed = stepper.outstanding();
    const Status begun = stepper.begin();
    report_.in_flight += delayed && !stepper.plan().empty();
    if (delayed) {
      if (auto difference = take_all(stepper, work)) return difference;
    }
    stepper.settle();
    SLUICE_RETURN_IF_ERROR(begun);
    if (auto difference = check_drafts(stepper)) return difference;
    draw(stepper, work);
    if ((!stepper.asynchronous() || stepper.drafted()) && stepper.outstanding()) {
      if (auto difference = take_all(stepper, work)) return difference;
    }
    stepper.settle_drafts();
    if (work.cancels_swapped) cancel_swapped(stepper);
    // An audit waits for all that was enqueued.
    if (!stepper.asynchronous() || step % 4 == 0) SLUICE_RETURN_IF_ERROR(stepper.audit());
  }
  return std::optional<Found>();
}

}  // namespace

Result<LawReport> check_scheduling_law(Runner& runner, std::span<const std::vector<TokenId>> prompts,
                                       const LawOptions& options) {
  const int pages = runner.pools().latents().total() - 1;
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
    std::optional<Found> difference = checker.run(work);
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
      std::optional<Found> still = checker.run(smaller);
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
