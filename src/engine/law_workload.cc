#include "engine/law_workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <tuple>
#include <utility>

#include "engine/law_digest.h"
#include "engine/sampler.h"
#include "engine/stepper.h"

namespace sluice {
namespace {

struct WorkRequest {
  int prompt = 0, max_tokens = 1, n = 1, priority = 0;
  int arrives = 0, cancelled = -1;  // steps
  bool greedy = true;
  bool salted = false;
};

struct Workload {
  EngineOptions options;
  int threads = 1, hidden_pages = 0;
  bool caching = true;
  std::vector<WorkRequest> requests;

  std::string text() const;
};

std::string Workload::text() const {
  std::string text = fmt::format(
      "  --max-num-batched-tokens {} --max-num-seqs {} --scheduling-policy {} --long-prefill-token-threshold {} "
      "--{}enable-mixed-prefill-decode --{}enable-prefix-caching --force-preempt-every {}, {} threads, {} pages "
      "fewer\n",
      options.max_num_batched_tokens, options.max_num_seqs, options.scheduling_policy,
      options.long_prefill_token_threshold, options.enable_mixed_prefill_decode ? "" : "no-", caching ? "" : "no-",
      options.force_preempt_every, threads, hidden_pages);
  for (const WorkRequest& r : requests) {
    text += fmt::format("  prompt {}: {} tokens, n {}, priority {}, {}{}, arrives at step {}{}\n", r.prompt,
                        r.max_tokens, r.n, r.priority, r.greedy ? "greedy" : "sampled", r.salted ? ", salted" : "",
                        r.arrives, r.cancelled >= 0 ? fmt::format(", cancelled at step {}", r.cancelled) : "");
  }
  return text;
}

Workload make_workload(std::span<const std::vector<TokenId>> prompts, const LawOptions& laws, const Runner& runner,
                       int number) {
  std::mt19937_64 random(laws.seed * 31 + static_cast<std::uint64_t>(number) * 0x9E3779B97F4A7C15U + 7);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); };
  const auto pick = [&](auto... values) {
    const std::vector<int> all{values...};
    return all[static_cast<std::size_t>(below(static_cast<int>(all.size())))];
  };
  Workload work;
  EngineOptions& o = work.options;
  o.max_num_batched_tokens = pick(1, 3, 7, 64, 100, 128, 129, 200, 512, 700);
  o.max_num_seqs = pick(1, 2, 3, 8, 8, 8);
  const char* policies[] = {"fair", "fcfs", "priority"};
  o.scheduling_policy = policies[below(3)];
  o.long_prefill_token_threshold = below(3) == 0 ? 1 + below(200) : 0;
  o.enable_mixed_prefill_decode = below(4) != 0;
  o.force_preempt_every = below(3) == 0 ? (o.max_num_batched_tokens < 64 ? 40 : 2) + below(20) : 0;
  o.swap_space = below(2);  // more than none: the runner's own
  work.caching = below(5) != 0;
  work.threads = laws.thread_counts[static_cast<std::size_t>(below(static_cast<int>(laws.thread_counts.size())))];

  const int count = 2 + below(7);
  int rows = 0, longest = 0;
  for (int i = 0; i < count || (rows < laws.min_rows && i < laws.max_sequences); ++i) {
    WorkRequest r;
    r.prompt = i > 0 && below(3) == 0 ? work.requests.back().prompt : below(static_cast<int>(prompts.size()));
    const int length = static_cast<int>(prompts[static_cast<std::size_t>(r.prompt)].size());
    // One row a step is slow: such a budget gets short prompts only.
    if (o.max_num_batched_tokens < 64 && length > 200) {
      r.prompt = 0;
      for (std::size_t p = 0; p < prompts.size(); ++p) {
        if (prompts[p].size() <= 130 && prompts[p].size() > 64) r.prompt = static_cast<int>(p);
      }
    }
    r.max_tokens = 1 + below(12);
    if (below(4) == 0 || o.max_num_batched_tokens < 64) r.max_tokens += 130;
    r.n = below(4) == 0 ? 2 + below(2) : 1;
    r.priority = below(3) - 1;
    r.arrives = below(2) * below(20);
    r.cancelled = below(6) == 0 ? r.arrives + below(12) : -1;
    r.greedy = below(2) == 0;
    r.salted = below(5) == 0;
    const int all = static_cast<int>(prompts[static_cast<std::size_t>(r.prompt)].size()) + r.max_tokens;
    rows += all;
    longest = std::max(longest, all);
    work.requests.push_back(r);
  }
  // From room for all to room for little more than the longest.
  const int pages = runner.pools().latents().total() - 1, needed = blocks_for(longest) + 1;
  if (pages > needed && below(3) != 0) {
    const int wanted = std::max(needed, below(2) != 0 ? blocks_for(rows) / pick(1, 2, 3) : needed + below(6));
    work.hidden_pages = std::max(0, pages - wanted);
  }
  return work;
}

struct Generated {
  std::vector<TokenId> tokens;
  std::vector<std::uint64_t> digests;
};

class Checker {
 public:
  Checker(Runner& runner, std::span<const std::vector<TokenId>> prompts, LawReport* report)
      : runner_(runner), prompts_(prompts), report_(*report) {}

  // What differs, if anything.
  Result<std::optional<std::string>> run(const Workload& work);

 private:
  struct Choice {
    int request = 0, choice = 0;
    const Generated* expected = nullptr;
    std::size_t generated = 0;
  };

  static SamplingParams sampling_of(const WorkRequest& r, int choice) {
    SamplingParams params;
    params.temperature = r.greedy ? 0.0F : 1.0F;
    params.seed = choice_seed(static_cast<std::uint64_t>(r.prompt) + 1000, choice);
    return params;
  }
  Result<const Generated*> alone(const WorkRequest& r, int choice);
  Status begin(Stepper& stepper, const Workload& work, int request, int choice);
  std::optional<std::string> take(Stepper& stepper, const Workload& work, SequenceId id, std::size_t row);
  Result<std::optional<std::string>> drive(Stepper& stepper, const Workload& work);
  void cancel(Stepper& stepper, int request);

  Runner& runner_;
  std::span<const std::vector<TokenId>> prompts_;
  LawReport& report_;
  Sampler sampler_;
  std::map<std::tuple<int, bool, int>, Generated> alone_;  // prompt, greedy, choice -> as long as was ever wanted
  std::map<std::int32_t, Choice> live_;                    // by SequenceId
  std::vector<bool> cancelled_;
};

// The request by itself, with nothing cached and one row after the other.
Result<const Generated*> Checker::alone(const WorkRequest& r, int choice) {
  constexpr int kLongest = 143;
  Generated& result = alone_[{r.prompt, r.greedy, r.greedy ? 0 : choice}];
  if (!result.tokens.empty()) return &result;
  const auto& prompt = prompts_[static_cast<std::size_t>(r.prompt)];
  SLUICE_ASSIGN_OR_RETURN(const StateSlot slot, runner_.open());
  std::vector<TokenId> next = prompt;
  Position position = 0;
  Status status;
  while (status.ok() && static_cast<int>(result.tokens.size()) < kLongest) {
    const int last = static_cast<int>(next.size()) - 1;
    const StepSpan span{.sequence = slot, .ids = next, .logit_rows = {&last, 1}};
    status = runner_.run_step({&span, 1});
    position += static_cast<Position>(next.size());
    Sampled sampled;
    if (status.ok()) status = sampler_.sample(runner_.logits(0), sampling_of(r, choice), position, &sampled);
    result.digests.push_back(bit_digest(runner_.logits(0)));
    result.tokens.push_back(sampled.token);
    next.assign(1, sampled.token);
  }
  runner_.close(slot);
  SLUICE_RETURN_IF_ERROR(status);
  return &result;
}

Status Checker::begin(Stepper& stepper, const Workload& work, int request, int choice) {
  const WorkRequest& r = work.requests[static_cast<std::size_t>(request)];
  SLUICE_ASSIGN_OR_RETURN(const Generated* expected,
                          alone_.contains({r.prompt, r.greedy, r.greedy ? 0 : choice})
                              ? Result<const Generated*>(&alone_[{r.prompt, r.greedy, r.greedy ? 0 : choice}])
                              : Result<const Generated*>(internal_error("no reference")));
  NewSequence sequence;
  sequence.prompt = prompts_[static_cast<std::size_t>(r.prompt)];
  sequence.max_tokens = r.max_tokens;
  sequence.priority = r.priority;
  if (r.salted) sequence.cache_salt = "salt";
  const SequenceId id = stepper.add(std::move(sequence));
  live_[id.value] = {request, choice, expected, 0};
  return {};
}

// The next token of a sequence, from its row of logits. Says what differs.
std::optional<std::string> Checker::take(Stepper& stepper, const Workload& work, SequenceId id, std::size_t row) {
  Choice& c = live_[id.value];
  const WorkRequest& r = work.requests[static_cast<std::size_t>(c.request)];
  ++report_.comparisons;
  Sampled sampled;
  const Status status = sampler_.sample(runner_.logits(row), sampling_of(r, c.choice),
                                        static_cast<Position>(stepper.tokens(id).size()), &sampled);
  const bool same_logits = bit_digest(runner_.logits(row)) == c.expected->digests[c.generated];
  if (!status.ok() || !same_logits || sampled.token != c.expected->tokens[c.generated]) {
    return fmt::format("token {} of the answer to prompt {} (request {}, choice {}): {} {}, alone {}", c.generated,
                       r.prompt, c.request, c.choice,
                       same_logits ? "the same logits, but token" : "other logits, token", sampled.token,
                       c.expected->tokens[c.generated]);
  }
  ++c.generated;
  stepper.append(id, sampled.token);
  if (static_cast<int>(c.generated) < r.max_tokens) return std::nullopt;
  live_.erase(id.value);
  stepper.end(id);
  return std::nullopt;
}

void Checker::cancel(Stepper& stepper, int request) {
  cancelled_[static_cast<std::size_t>(request)] = true;
  for (auto it = live_.begin(); it != live_.end();) {
    if (it->second.request != request) {
      ++it;
      continue;
    }
    stepper.end(SequenceId(it->first));
    it = live_.erase(it);
    ++report_.aborts;
  }
}

Result<std::optional<std::string>> Checker::run(const Workload& work) {
  for (const WorkRequest& r : work.requests) {
    for (int choice = 0; choice < r.n; ++choice) SLUICE_RETURN_IF_ERROR(alone(r, choice).status());
  }
  if (runner_.threads() != work.threads) runner_.set_threads(work.threads);
  runner_.prefix_cache().reset();
  runner_.prefix_cache().set_enabled(work.caching);
  live_.clear();
  cancelled_.assign(work.requests.size(), false);
  Result<std::optional<std::string>> found = std::optional<std::string>();
  {
    Stepper stepper(&runner_, work.options, work.hidden_pages);
    found = drive(stepper, work);
    EngineStats stats;
    stepper.fill(&stats);
    report_.preemptions += static_cast<int>(stats.preemptions_recompute);
    report_.swaps += static_cast<int>(stats.preemptions_swap);
    report_.resumed_tokens += static_cast<std::int64_t>(stats.cache.resumed_tokens);
  }
  runner_.prefix_cache().set_enabled(true);
  if (found.ok() && !*found) {
    SLUICE_RETURN_IF_ERROR(runner_.audit());
    if (runner_.pools().latents().used() + runner_.pools().windows().used() + runner_.pools().slots().used() > 0) {
      return internal_error("pages are still in use after the last request ended");
    }
  }
  return found;
}

Result<std::optional<std::string>> Checker::drive(Stepper& stepper, const Workload& work) {
  constexpr int kMostSteps = 100000;
  const int requests = static_cast<int>(work.requests.size());
  int arrived = 0;
  for (int step = 0; arrived < requests || !stepper.idle(); ++step) {
    if (step > kMostSteps) return internal_error("the requests do not end");
    for (int i = 0; i < requests; ++i) {
      const WorkRequest& r = work.requests[static_cast<std::size_t>(i)];
      if (r.arrives == step) {
        ++arrived;
        SLUICE_RETURN_IF_ERROR(
            stepper.check(static_cast<int>(prompts_[static_cast<std::size_t>(r.prompt)].size()), r.max_tokens));
        SLUICE_RETURN_IF_ERROR(begin(stepper, work, i, 0));
      }
      if (r.cancelled == step) cancel(stepper, i);
    }
    if (stepper.idle()) continue;
    SLUICE_RETURN_IF_ERROR(stepper.step());
    const std::vector<SequenceId> sampled(stepper.sampled().begin(), stepper.sampled().end());
    for (std::size_t row = 0; row < sampled.size(); ++row) {
      const Choice c = live_[sampled[row].value];
      const WorkRequest& r = work.requests[static_cast<std::size_t>(c.request)];
      for (int choice = 1; c.choice == 0 && c.generated == 0 && choice < r.n; ++choice) {
        const SequenceId child = stepper.fork(sampled[row]);
        if (!child) {
          SLUICE_RETURN_IF_ERROR(begin(stepper, work, c.request, choice));
          continue;
        }
        ++report_.forks;
        live_[child.value] = {c.request, choice, &alone_[{r.prompt, r.greedy, r.greedy ? 0 : choice}], 0};
        if (auto difference = take(stepper, work, child, row)) return difference;
      }
      if (auto difference = take(stepper, work, sampled[row], row)) return difference;
    }
    SLUICE_RETURN_IF_ERROR(stepper.audit());
  }
  return std::optional<std::string>();
}

}  // namespace

Result<LawReport> check_scheduling_law(Runner& runner, std::span<const std::vector<TokenId>> prompts,
                                       const LawOptions& options) {
  LawReport report;
  Checker checker(runner, prompts, &report);
  for (int number = options.first_schedule; number < options.first_schedule + options.schedules; ++number) {
    Workload work = make_workload(prompts, options, runner, number);
    const auto failed = [&](const Workload& w) -> std::optional<std::string> {
      const Result<std::optional<std::string>> found = checker.run(w);
      return found.ok() ? *found : std::optional(found.status().message());
    };
    std::optional<std::string> difference = failed(work);
    ++report.schedules;
    if (options.progress) options.progress(report.schedules);
    if (!difference) continue;
    for (std::size_t i = 0; i < work.requests.size() && work.requests.size() > 1;) {
      Workload smaller = work;
      smaller.requests.erase(smaller.requests.begin() + static_cast<std::ptrdiff_t>(i));
      std::optional<std::string> still = failed(smaller);
      if (!still) {
        ++i;
        continue;
      }
      work = std::move(smaller);
      difference = std::move(still);
    }
    report.difference = LawDifference{.schedule = number, .prompt = 0, .position = 0, .first_value = {}, .text = {}};
    report.difference->text = fmt::format("seed {} workload {}: {}; the smallest workload found:\n{}", options.seed,
                                          number, *difference, work.text());
    return report;
  }
  return report;
}

}  // namespace sluice
