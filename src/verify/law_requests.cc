// Used by law_alone.h, law_borders.h and law_workload.h.
#include "verify/law_requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "cache/pages/page_geometry.h"
#include "engine/option_words.h"
#include "verify/law_schedule.h"

namespace sluice {

std::string Workload::text() const {
  const EngineSetup& o = options;
  std::string text = fmt::format(
      "  --max-num-batched-tokens {} --max-num-seqs {} --scheduling-policy {} --long-prefill-token-threshold {} "
      "--{}enable-mixed-prefill-decode --{}enable-prefix-caching --async-scheduling {} --force-preempt-every {} "
      "--swap-space {} --speculative {} --num-speculative-tokens {} --{}speculative-adaptive{}, {} threads",
      o.scheduler.max_num_batched_tokens, o.scheduler.max_num_seqs, word_of(o.scheduler.scheduling_policy),
      o.scheduler.long_prefill_token_threshold, o.scheduler.enable_mixed_prefill_decode ? "" : "no-",
      caching ? "" : "no-", word_of(o.scheduler.async_scheduling), o.testing.force_preempt_every, o.cache.swap_space,
      word_of(o.speculation.speculative), o.speculation.num_speculative_tokens,
      o.speculation.speculative_adaptive ? "" : "no-", right_drafts ? ", most drafts are right" : "", threads);
  if (pages > 0) text += fmt::format(", {} pages", pages);
  if (waits_every > 0) text += fmt::format(", step {} and its like wait for tokens", waits_every);
  text += cancels_swapped ? ", the second that is swapped out is cancelled\n" : "\n";
  for (const WorkRequest& r : requests) {
    text += fmt::format(
        "  prompt {}: {} tokens{}, n {}, priority {}, {}{}{}, arrives at step {}{}\n", r.prompt, r.max_tokens,
        r.stops_after > 0 ? fmt::format(", ends after {}", r.stops_after) : "", r.n, r.priority,
        r.greedy ? "greedy" : "sampled", r.salt.empty() ? "" : ", salt " + r.salt,
        (r.rules != 0 ? fmt::format(", rules {}", r.rules) : "") +
            (r.constraint != LawConstraint::kNone
                 ? fmt::format(", constraint {}, budget {}", static_cast<int>(r.constraint), r.budget)
                 : "") +
            (r.exports ? ", exports" : "") + (r.stays ? ", stays" : "") +
            (r.scored_from >= 0 ? fmt::format(", scored from {} with {} of its answer", r.scored_from, r.answered)
                                : ""),
        r.arrives, r.cancelled >= 0 ? fmt::format(", cancelled at step {}", r.cancelled) : "");
  }
  return text;
}

namespace {

enum class Situation { kPreemptions, kChoices, kStrangers, kAny };

class Maker {
 public:
  Maker(std::span<const std::vector<TokenId>> prompts, const LawOptions& laws, int pages, int number)
      : prompts_(prompts),
        short_prompts_(static_cast<int>(prompts.size()) - laws.long_prompts),
        laws_(laws),
        pages_(pages),
        number_(number),
        situation_(static_cast<Situation>(number % kLawSituations)),
        random_(laws.seed * 31 + static_cast<std::uint64_t>(number) * 0x9E3779B97F4A7C15U + 7) {}

  Workload make() {
    choose_options();
    switch (situation_) {
      case Situation::kPreemptions:
        preempt_often();
        break;
      case Situation::kChoices:
        add_choices_and_salts();
        break;
      case Situation::kStrangers:
        if (add_strangers()) return std::move(work_);
        break;
      case Situation::kAny:
        if (laws_.long_prompts > 0 && number_ % kLongPromptEvery == 3) add_long();
    }
    const int count = 2 + below(laws_.max_sequences - 1);
    while (requests() < count || (rows_ < laws_.min_rows && requests() < laws_.max_sequences)) add_any();
    // From room for all to room for little more than the longest.
    const bool clean = situation_ == Situation::kChoices ||
                       (situation_ == Situation::kPreemptions && (number_ / kLawSituations) % 2 == 0);
    if (!clean && !one_in(3)) {
      const int needed = blocks_for(longest_) + 1;
      limit_pages(std::max(needed, one_in(2) ? needed + below(6) : blocks_for(rows_) / pick(1, 2, 3)));
    }
    return std::move(work_);
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  bool one_in(int n) { return below(n) == 0; }
  template <class... Values>
  int pick(Values... values) {
    const std::vector<int> all{values...};
    return all[static_cast<std::size_t>(below(static_cast<int>(all.size())))];
  }
  int requests() const { return static_cast<int>(work_.requests.size()); }
  int length(int prompt) const { return static_cast<int>(prompts_[static_cast<std::size_t>(prompt)].size()); }

  void choose_options() {
    EngineSetup& o = work_.options;
    o.scheduler.max_num_batched_tokens = situation_ == Situation::kAny ? pick(1, 3, 7, 64, 100, 128, 129, 200, 512, 700)
                                                                       : pick(64, 100, 128, 129, 200, 512, 700);
    o.scheduler.max_num_seqs = pick(1, 2, 3, 8, 8, 8);
    o.scheduler.scheduling_policy = static_cast<SchedulingPolicy>(below(3));  // fair, fcfs or priority
    o.scheduler.long_prefill_token_threshold = one_in(3) ? 1 + below(200) : 0;
    o.scheduler.enable_mixed_prefill_decode = !one_in(4);
    o.testing.force_preempt_every = one_in(3) ? (o.scheduler.max_num_batched_tokens < 64 ? 40 : 2) + below(20) : 0;
    o.cache.swap_space = below(2);  // more than none: the runner's own
    o.scheduler.async_scheduling =
        (number_ + number_ / kLawSituations) % 2 == 1 ? AsyncScheduling::kOn : AsyncScheduling::kOff;
    const bool is_asynchronous = o.scheduler.async_scheduling == AsyncScheduling::kOn;
    o.speculation.speculative = is_asynchronous && one_in(2) ? Speculative::kOff : Speculative::kAuto;
    if (is_asynchronous) work_.waits_every = number_ / 2 % 2 == 0 ? 0 : 2 + number_ / 4 % 3;
    o.speculation.num_speculative_tokens = 1 + below(kMostDrafts);
    o.speculation.speculative_adaptive = one_in(3);
    work_.right_drafts = situation_ != Situation::kAny || one_in(2);
    work_.caching = !one_in(5);
    work_.threads = laws_.thread_counts[static_cast<std::size_t>(number_) % laws_.thread_counts.size()];
  }

  void preempt_often() {
    EngineSetup& o = work_.options;
    o.scheduler.max_num_seqs = pick(3, 8);
    o.scheduler.long_prefill_token_threshold = 0;
    o.testing.force_preempt_every = 1 + below(2);
    o.cache.swap_space = 1;
    work_.cancels_swapped = true;
    for (int i = 0; i < 3; ++i) {
      WorkRequest& r = add_any();
      r.max_tokens = std::max(r.max_tokens, 12);  // enough steps to be swapped out, be brought back and go on
      r.stops_after = 0;
      r.arrives = below(4);
      r.cancelled = -1;
    }
  }

  // The same prompt, after its blocks are cached: with another salt, and with its own.
  void add_choices_and_salts() {
    EngineSetup& o = work_.options;
    o.scheduler.max_num_batched_tokens = pick(512, 700);
    o.scheduler.max_num_seqs = 8;
    o.scheduler.long_prefill_token_threshold = 0;
    o.testing.force_preempt_every = (number_ / kLawSituations) % 2 == 0 ? 0 : o.testing.force_preempt_every;
    work_.caching = true;
    std::vector<int> long_enough;
    for (int p = 0; p < short_prompts_; ++p) {
      if (length(p) > 2 * kBlockTokens) long_enough.push_back(p);
    }
    if (long_enough.empty()) return;
    const int prompt = long_enough[static_cast<std::size_t>(below(static_cast<int>(long_enough.size())))];
    const std::string own = one_in(2) ? "" : "own";
    // Three answers that could go on, so that right drafts reach past their ends.
    const int ends = 6 + below(7);
    add({.prompt = prompt,
         .max_tokens = ends + kMostDrafts,
         .n = 3,
         .greedy = false,
         .stops_after = ends,
         .salt = own});
    add({.prompt = prompt, .max_tokens = 1 + below(4), .arrives = 3, .salt = "other"});
    add({.prompt = prompt, .max_tokens = 1 + below(4), .arrives = 4 + below(4), .greedy = one_in(2), .salt = own});
  }

  // Adds prompts that do not fit together: each leaves too many cached pages for the next one to have room.
  bool add_strangers() {
    std::vector<int> candidates;
    for (int p = 0; p < short_prompts_; ++p) {
      if (length(p) > kBlockTokens && length(p) % kBlockTokens != 0) candidates.push_back(p);
    }
    for (std::size_t i = candidates.size(); i > 1; --i) {
      std::swap(candidates[i - 1], candidates[static_cast<std::size_t>(below(static_cast<int>(i)))]);
    }
    const std::vector<int> strangers = strangers_of(prompts_, candidates);
    if (strangers.size() < 3) return false;
    work_.caching = true;
    work_.options.scheduler.max_num_batched_tokens =
        pick(64, 100);  // so that every prompt is cut within its first block
    for (int blocks = 0; requests() < laws_.max_sequences;) {
      if (requests() >= 3 && blocks > blocks_for(longest_) + laws_.blocks_to_evict && rows_ >= laws_.min_rows) break;
      const int prompt = strangers[static_cast<std::size_t>(requests()) % strangers.size()];
      add({.prompt = prompt, .max_tokens = 1 + below(12), .arrives = below(2) * below(20), .greedy = one_in(2)});
      blocks += blocks_for(length(prompt));
    }
    limit_pages(blocks_for(longest_) + 1);
    return true;
  }

  void add_long() {
    work_.options.scheduler.max_num_batched_tokens = pick(200, 512, 700);
    const int prompt = short_prompts_ + below(laws_.long_prompts);
    add({.prompt = prompt, .max_tokens = 1 + below(12), .n = 1 + below(2), .greedy = false});
    add({.prompt = prompt, .max_tokens = 1 + below(12), .arrives = below(30)});
  }

  WorkRequest& add_any() {
    const int budget = work_.options.scheduler.max_num_batched_tokens;
    WorkRequest r;
    r.prompt = requests() > 0 && one_in(3) ? work_.requests.back().prompt : below(short_prompts_);
    // One row a step is slow: such a budget gets short prompts only.
    if (budget < 64 && length(r.prompt) > 200) {
      r.prompt = 0;
      for (int p = 0; p < short_prompts_; ++p) {
        if (length(p) <= 130 && length(p) > 64) r.prompt = p;
      }
    }
    r.max_tokens = 1 + below(12);
    if (situation_ == Situation::kAny && (laws_.few_long_answers ? one_in(12) : one_in(4) || budget < 64)) {
      r.max_tokens += kBlockTokens + 2;
    }
    if (one_in(3)) r.stops_after = 1 + below(r.max_tokens);
    r.n = one_in(4) ? 2 + below(2) : 1;
    r.priority = below(3) - 1;
    r.arrives = below(2) * below(20);
    if (situation_ == Situation::kChoices) r.arrives += 4;  // the first request finds room for its choices
    r.cancelled = one_in(6) ? r.arrives + below(12) : -1;
    r.greedy = one_in(2);
    if (one_in(5)) r.salt = one_in(2) ? "own" : "other";
    return add(r);
  }

  WorkRequest& add(const WorkRequest& r) {
    const int all = length(r.prompt) + r.max_tokens;
    rows_ += all;
    longest_ = std::max(longest_, all);
    return work_.requests.emplace_back(r);
  }

  void limit_pages(int pages) {
    if (pages < pages_) work_.pages = pages;
  }

  std::span<const std::vector<TokenId>> prompts_;
  const int short_prompts_;  // the short prompts come first
  const LawOptions& laws_;
  const int pages_, number_;
  const Situation situation_;
  std::mt19937_64 random_;
  Workload work_;
  int rows_ = 0, longest_ = 0;  // rows of all requests; of the longest
};

// Adds scores. The workload's number alone decides which requests have them, so that all else is as without.
void add_scores(Workload& work, std::span<const std::vector<TokenId>> prompts, const LawOptions& laws, int number) {
  std::mt19937_64 random(laws.seed * 77 + static_cast<std::uint64_t>(number) * 0x2545F4914F6CDD1DU + 5);
  work.score_rows = static_cast<int>(random() % 3 == 0 ? 0 : 1 + random() % 40);
  for (WorkRequest& r : work.requests) {
    if (random() % 2 == 0) continue;
    const int length = static_cast<int>(prompts[static_cast<std::size_t>(r.prompt)].size());
    const int least = laws.every_row ? 0 : std::max(0, length - 32);  // a large vocabulary's take long
    r.scored_from = least + static_cast<int>(random() % static_cast<std::uint64_t>(length - least + 1));
    const int answer = r.stops_after > 0 ? r.stops_after : r.max_tokens;
    if (r.n == 1 && r.rules == 0 && !r.exports && answer > 1 &&
        number % kLawSituations == static_cast<int>(Situation::kAny)) {
      r.answered = static_cast<int>(random() % static_cast<std::uint64_t>(answer));
    }
  }
}

// Adds the bound answers that each workload has by construction; the other requests stay as they are.
void add_bound(Workload& work, std::span<const std::vector<TokenId>> prompts, const LawOptions& laws, int number) {
  std::mt19937_64 random(laws.seed * 55 + static_cast<std::uint64_t>(number) * 0xD1342543DE82EF95U + 3);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); };
  std::vector<int> short_prompts;
  for (std::size_t p = 0; p < prompts.size(); ++p) {
    if (prompts[p].size() > 1 && prompts[p].size() <= kBlockTokens + 2) short_prompts.push_back(static_cast<int>(p));
  }
  if (short_prompts.empty()) return;
  const auto add = [&](int tokens) -> WorkRequest& {
    WorkRequest& r = work.requests.emplace_back();
    r.prompt = short_prompts[static_cast<std::size_t>(below(static_cast<int>(short_prompts.size())))];
    r.max_tokens = tokens;
    // It arrives after the two that are swapped out first.
    r.arrives = (number % kLawSituations == static_cast<int>(Situation::kPreemptions) ? 16 : 4) + below(8);
    r.greedy = below(2) == 0;
    r.stays = true;
    return r;
  };
  const auto situation = static_cast<Situation>(number % kLawSituations);
  if (situation != Situation::kAny) {
    work.options.speculation.speculative_adaptive = false;  // by measured times it could be that no draft pays
    WorkRequest& r = add(14 + below(6));
    r.constraint = LawConstraint::kRuns;
    if (below(2) == 0) r.rules = 1 + random() % 1000;
  }
  switch (situation) {
    case Situation::kPreemptions: {
      WorkRequest& r = add(12);
      r.rules = 1 + random() % 1000;
      r.scored_from = 1;
      break;
    }
    case Situation::kChoices: {
      WorkRequest& r = add(10 + below(6));
      r.constraint = LawConstraint::kBudget;
      r.budget = below(6);
      r.n = 2;
      r.exports = true;
      break;
    }
    case Situation::kStrangers:
      add(2 + below(6)).exports = true;
      add(8);
      break;
    case Situation::kAny: {
      if (work.options.scheduler.async_scheduling == AsyncScheduling::kOff) {
        // This situation alone: the others have a step in flight, and so no drafts, or too many preemptions for any.
        work.options.speculation.speculative_adaptive = false;
        int& budget = work.options.scheduler.max_num_batched_tokens;
        budget = std::max(budget, 64);
        add(14 + below(6)).constraint = LawConstraint::kRuns;
      }
      WorkRequest& r = add(6 + below(6));
      r.scored_from = 0;
      r.answered = 1 + below(5);
      if (below(2) == 0) r.constraint = static_cast<LawConstraint>(1 + below(kLawConstraints - 1));
      r.budget = below(4);
    }
  }
}

// Binds some of the other requests whose answers nothing binds yet.
void bind_some(Workload& work, const LawOptions& laws, int number) {
  std::mt19937_64 random(laws.seed * 33 + static_cast<std::uint64_t>(number) * 0x9FB21C651E98DF25U + 9);
  for (WorkRequest& r : work.requests) {
    const std::uint64_t constraint = random() % 3 == 0 ? 1 + random() % (kLawConstraints - 1) : 0;
    const auto budget = static_cast<int>(random() % 8);
    const bool exports = random() % 4 == 0;
    r.constraint = static_cast<LawConstraint>(constraint);
    r.budget = r.constraint == LawConstraint::kBudget ? budget : 0;
    r.exports = exports;
  }
}

}  // namespace

Workload make_workload(std::span<const std::vector<TokenId>> prompts, const LawOptions& laws, int pages, int number) {
  Workload work = Maker(prompts, laws, pages, number).make();
  // From generators of their own, so that what the others are drawn from goes on as before. Drafts of answers with
  // rules are seldom right, so that these take more steps: the situations that are there by construction have none.
  const auto situation = static_cast<Situation>(number % kLawSituations);
  if (situation == Situation::kPreemptions) add_scores(work, prompts, laws, number);
  if (situation == Situation::kAny) {
    std::mt19937_64 random(laws.seed * 0x9E3779B97F4A7C15U + static_cast<std::uint64_t>(number) + 1);
    for (WorkRequest& request : work.requests) {
      const bool has_rules = random() % 2 == 0;
      const std::uint64_t rules = 1 + random() % 1000;
      if (has_rules) request.rules = rules;
    }
    bind_some(work, laws, number);
    add_scores(work, prompts, laws, number);
  }
  add_bound(work, prompts, laws, number);
  return work;
}

// Strong ones, as the requests are hot.
std::shared_ptr<const TokenRules> rules_of(std::uint64_t number, int vocab_size, bool changes_logits, bool bans) {
  std::mt19937_64 random(number);
  const auto one_in = [&](unsigned n) { return random() % n == 0; };
  const auto id = [&] { return static_cast<TokenId>(random() % static_cast<std::uint64_t>(vocab_size)); };
  auto rules = std::make_shared<TokenRules>();
  if (changes_logits) {
    rules->presence_penalty = one_in(2) ? 60.0F : 0.0F;
    rules->frequency_penalty = one_in(2) ? 25.0F : 0.0F;
    rules->repetition_penalty = one_in(2) ? 4.0F : 1.0F;
    for (int i = 0; i < 20 && one_in(4); ++i) rules->logit_bias.emplace_back(id(), 90.0F);
  }
  if (!bans) return rules;
  for (int i = 0; i < 8; ++i) {
    rules->bad_words.push_back({id()});
    rules->bad_words.push_back({id(), id()});
  }
  // Few tokens, so that they come again.
  for (int i = 0; i < 40; ++i) rules->allowed_token_ids.push_back(id());
  rules->min_tokens = static_cast<int>(random() % 4);
  return rules;
}

}  // namespace sluice
