// The law of scores: an answer's tokens have the same log-probabilities, bit for bit, when drawn and when later scored
// as a prompt. It holds whatever is cached, cut, preempted or computed at the same time.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <random>

#include "base/test_seed_testing.h"
#include "engine/engine_testing.h"

namespace sluice::engine_scores_test {
namespace {

struct Case {
  const char* name;
  void (*change)(EngineSetup&);
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

std::uint32_t bits(float value) {
  std::uint32_t word = 0;
  std::memcpy(&word, &value, sizeof(word));
  return word;
}

// Everything that is reported for one request.
struct Report {
  std::vector<Output> outputs;
  std::vector<TokenId> tokens(int choice) const {
    std::vector<TokenId> ids;
    for (const Output& output : outputs) {
      if (output.choice == choice && output.token) ids.push_back(*output.token);
    }
    return ids;
  }
  std::vector<PromptLogprob> drawn(int choice) const {
    std::vector<PromptLogprob> drawn;
    for (const Output& output : outputs) {
      if (output.choice == choice && output.token) drawn.push_back({output.logprob, 0, output.top});
    }
    return drawn;
  }
};

class Reports {
 public:
  Request request(std::vector<TokenId> prompt, int max_tokens, SamplingParams sampling, int n = 1) {
    Request r;
    r.prompt = std::move(prompt);
    r.max_tokens = max_tokens;
    r.sampling = sampling;
    r.n = n;
    const std::lock_guard made(mutex_);  // others are answered already
    reports_.emplace_back();
    ++open_;
    r.on_output = [this, report = &reports_.back(), left = n](Output output) mutable {
      const std::lock_guard lock(mutex_);
      left -= output.finished;
      open_ -= left == 0 && output.finished;
      report->outputs.push_back(std::move(output));
      changed_.notify_all();
    };
    return r;
  }
  std::deque<Report>& wait() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kTestPatience, [&] { return open_ == 0; }));
    return reports_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Report> reports_;
  int open_ = 0;
};

void expect_same(const std::vector<PromptLogprob>& drawn, std::span<const PromptLogprob> scored) {
  ASSERT_EQ(drawn.size(), scored.size());
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(bits(drawn[i].logprob), bits(scored[i].logprob));
    ASSERT_EQ(drawn[i].top.size(), scored[i].top.size());
    for (std::size_t t = 0; t < drawn[i].top.size(); ++t) {
      EXPECT_EQ(drawn[i].top[t].token, scored[i].top[t].token);
      EXPECT_EQ(bits(drawn[i].top[t].logprob), bits(scored[i].top[t].logprob));
    }
  }
}

class EngineScoresTest : public ::testing::TestWithParam<Case> {};

TEST_P(EngineScoresTest, ScoresAreThoseOfTheDraws) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  EngineSetup options = small_options();
  options.scheduler.max_num_seqs = 6;
  GetParam().change(options);
  Reports asked, rescored;
  auto engine = make_engine(options);
  constexpr int kLengths[] = {1, 5, 127, 128, 129, 300, 400};
  constexpr int kTop = 3, kTokens = 40, kChoices = 2;
  std::vector<std::vector<TokenId>> prompts;
  for (const int length : kLengths) prompts.push_back(random_tokens(length, static_cast<unsigned>(random())));
  for (const auto& prompt : prompts) {
    const SamplingParams sampling{.temperature = 1.5F, .seed = random(), .top_logprobs = kTop};
    Request r = asked.request(prompt, kTokens, sampling, kChoices);
    r.prompt_logprobs = random() % 2 == 0 ? kTop : -1;  // scores of the prompt change nothing
    ASSERT_TRUE(engine->submit(std::move(r)).ok());
  }
  const auto& answers = asked.wait();
  // Each answer follows its prompt and is scored from some position on; the cache, if there is one, has most of it.
  struct Ask {
    std::size_t prompt;
    int choice, start;
  };
  std::vector<Ask> asks;
  for (int round = 0; round < 3; ++round) {
    for (std::size_t p = 0; p < prompts.size(); ++p) {
      for (int choice = 0; choice < kChoices; ++choice) {
        std::vector<TokenId> text = joined(prompts[p], answers[p].tokens(choice));
        const int start =
            round == 0 ? kLengths[p] : static_cast<int>(random() % static_cast<unsigned>(kLengths[p] + 1));
        Request r = rescored.request(text, round == 1 ? 0 : 3, {.temperature = 1, .seed = random()});
        r.prompt_logprobs = kTop;
        r.prompt_logprobs_start = start;
        asks.push_back({p, choice, start});
        ASSERT_TRUE(engine->submit(std::move(r)).ok());
      }
    }
  }
  const auto& reports = rescored.wait();
  for (std::size_t i = 0; i < asks.size(); ++i) {
    const auto& [p, choice, start] = asks[i];
    SCOPED_TRACE(testing::Message() << "prompt " << p << " choice " << choice << " from " << start);
    const Output& first = reports[i].outputs.front();
    ASSERT_NE(first.prompt_logprobs, nullptr);
    EXPECT_EQ(first.prompt_logprobs->start, std::max(1, start));
    const std::size_t behind = static_cast<std::size_t>(kLengths[p] - first.prompt_logprobs->start);
    ASSERT_EQ(first.prompt_logprobs->tokens.size(), behind + kTokens);
    expect_same(answers[p].drawn(choice), std::span(first.prompt_logprobs->tokens).subspan(behind));
    const std::vector<TokenId> text = joined(prompts[p], answers[p].tokens(choice));
    for (std::size_t t = 0; t < first.prompt_logprobs->tokens.size(); ++t) {
      const PromptLogprob& token = first.prompt_logprobs->tokens[t];
      EXPECT_GE(token.rank, 1);
      const TokenId own = text[static_cast<std::size_t>(first.prompt_logprobs->start) + t];
      EXPECT_EQ(token.rank == 1, own == token.top[0].token);
    }
    // The prompt's own, in whatever run they were asked for.
    const auto& own = answers[p].outputs.front().prompt_logprobs;
    if (own == nullptr) continue;
    EXPECT_EQ(own->tokens.size(), static_cast<std::size_t>(kLengths[p] - 1));
    expect_same({own->tokens.begin() + first.prompt_logprobs->start - 1, own->tokens.end()},
                std::span(first.prompt_logprobs->tokens).first(behind));
  }
  const EngineStats stats = engine->stats();
  if (options.cache.enable_prefix_caching) {
    EXPECT_GT(stats.cache.resumed_tokens, 0U);
  }
  if (options.testing.force_preempt_every > 0) {
    EXPECT_GT(stats.preemptions_recompute + stats.preemptions_swap, 0U);
  }
}

constexpr Case kCases[] = {
    {"default", [](EngineSetup&) {}},
    {"small_chunks", [](EngineSetup& o) { o.scheduler.max_num_batched_tokens = 7; }},
    {"no_cache", [](EngineSetup& o) { o.cache.enable_prefix_caching = false; }},
    {"preempted", [](EngineSetup& o) { o.testing.force_preempt_every = 2; }},
    {"swapped",
     [](EngineSetup& o) {
       o.testing.force_preempt_every = 3;
       o.cache.swap_space = 4 << 20;
     }},
    {"threads", [](EngineSetup& o) { o.machine.threads = 3; }},
    {"drafts",
     [](EngineSetup& o) {
       o.speculation.speculative = Speculative::kNgram;
       o.scheduler.async_scheduling = AsyncScheduling::kOff;
     }},
    {"later",
     [](EngineSetup& o) {
       o.machine.device = "emulated";
       o.scheduler.async_scheduling = AsyncScheduling::kOn;
     }},
};
INSTANTIATE_TEST_SUITE_P(Engine, EngineScoresTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

// Experts of all positions but the last one's, whatever was cached, cut, forked or computed again.
std::vector<std::uint16_t> experts_of(const Report& report, int choice) {
  std::vector<std::uint16_t> experts;
  for (const Output& output : report.outputs) {
    if (output.choice != choice || output.exported == nullptr) continue;
    EXPECT_EQ(output.exported->expert_layers, std::vector<int>{0});
    EXPECT_EQ(output.exported->experts.size(), static_cast<std::size_t>(output.exported->rows) * 2);
    experts.insert(experts.end(), output.exported->experts.begin(), output.exported->experts.end());
  }
  return experts;
}

FakeModel::Settings with_experts() {
  FakeModel::Settings settings;
  settings.experts = 40;
  return settings;
}

TEST_P(EngineScoresTest, ExpertsAreThoseOfTheRequestAlone) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  EngineSetup options = small_options();
  options.scheduler.max_num_seqs = 6;
  GetParam().change(options);
  constexpr int kLengths[] = {1, 127, 128, 300, 300, 400}, kTokens = 30, kChoices = 2;
  const auto run = [&](Engine& engine, Reports& reports, std::size_t i) {
    const auto prompt = random_tokens(kLengths[i], seed + static_cast<unsigned>(kLengths[i]));
    Request r = reports.request(prompt, kTokens, {.temperature = 1.5F, .seed = seed + i}, kChoices);
    r.return_routed_experts = true;
    ASSERT_TRUE(engine.submit(std::move(r)).ok());
  };
  Reports together;
  auto engine = make_engine(options, with_experts());
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < std::size(kLengths); ++i) run(*engine, together, i);
  }
  const auto& found = together.wait();
  EngineSetup plain = small_options();
  plain.cache.enable_prefix_caching = false;
  auto by_itself = make_engine(plain, with_experts());
  for (std::size_t i = 0; i < std::size(kLengths); ++i) {
    Reports alone;
    run(*by_itself, alone, i);
    const Report& expected = alone.wait()[0];
    for (int choice = 0; choice < kChoices; ++choice) {
      const auto experts = experts_of(expected, choice);
      EXPECT_EQ(experts.size(), static_cast<std::size_t>(kLengths[i] + kTokens - 1) * 2);
      for (std::size_t round = 0; round < 2; ++round) {
        EXPECT_EQ(experts_of(found[round * std::size(kLengths) + i], choice), experts) << i << ' ' << choice;
      }
    }
  }
}

TEST(EngineScores, BlocksOfOtherWeightsHaveOtherNames) {
  auto runner = Runner::create(std::make_unique<FakeModel>(), nullptr, small_options()).value();
  const BlockHash unnamed = runner->cache().root("");
  runner->replace_model(std::make_unique<FakeModel>(), "a");
  const BlockHash a = runner->cache().root("");
  runner->replace_model(std::make_unique<FakeModel>(), "b");
  EXPECT_NE(runner->cache().root(""), a);
  runner->replace_model(std::make_unique<FakeModel>(), "a");
  EXPECT_EQ(runner->cache().root(""), a);
  EXPECT_NE(a, unnamed);
  EXPECT_EQ(runner->load_report().weights_version, "a");
}

TEST(EngineScores, WhatAModelLacksIsRefused) {
  auto engine = make_engine();
  Reports reports;
  Request r = reports.request({1, 2}, 1, {});
  r.return_routed_experts = true;
  EXPECT_EQ(engine->submit(r).status().message(), "return_routed_experts: this model has no routed experts");
  r.return_routed_experts = false, r.return_sparse_indices = true;
  EXPECT_EQ(engine->submit(r).status().message(), "return_sparse_indices: this model has no indexers");
}

TEST(EngineScores, WhatIsAskedForIsChecked) {
  auto engine = make_engine();
  Reports reports;
  Request r = reports.request({1, 2}, 1, {});
  r.prompt_logprobs = 21;
  const auto refused = engine->submit(std::move(r));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().message(), "prompt_logprobs: expected -1 (off) to 20, found 21");
}

TEST(EngineScores, NothingIsAskedForIsNothingComputed) {
  auto engine = make_engine();
  Reports reports;
  ASSERT_TRUE(engine->submit(reports.request({1, 2, 3}, 0, {})).ok());
  Request one = reports.request({1}, 0, {});
  one.prompt_logprobs = 2;
  ASSERT_TRUE(engine->submit(std::move(one)).ok());
  const auto& all = reports.wait();
  EXPECT_EQ(all[0].outputs.size(), 1U);
  EXPECT_EQ(all[0].outputs[0].prompt_logprobs, nullptr);
  EXPECT_FALSE(all[1].outputs[0].token);
  ASSERT_NE(all[1].outputs[0].prompt_logprobs, nullptr);
  EXPECT_TRUE(all[1].outputs[0].prompt_logprobs->tokens.empty());
}

}  // namespace
}  // namespace sluice::engine_scores_test
