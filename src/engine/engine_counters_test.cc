// The engine's counters of prompts equal what its outputs say: each prompt counts once, even if it is preempted,
// swapped, cancelled or computed again.
#include <gtest/gtest.h>

#include <vector>

#include "engine/engine_testing.h"

namespace sluice::engine_counters_test {
namespace {

struct Case {
  const char* name;
  int force_preempt_every = 0;
  std::int64_t swap_space = 0;
  int places = 24;
  bool caching = true;
};

class EngineCountersTest : public ::testing::TestWithParam<Case> {};

EngineSetup setup_of(const Case& c) {
  EngineSetup options = small_options();
  options.scheduler.max_num_seqs = c.places;
  options.testing.force_preempt_every = c.force_preempt_every;
  options.cache.swap_space = c.swap_space;
  options.cache.enable_prefix_caching = c.caching;
  options.audit = true;
  return options;
}

// Some prompts have a common start, one comes twice, and some have four answers.
std::vector<Request> mixed_requests(std::vector<std::unique_ptr<Answer>>& answers) {
  const auto common = random_tokens(256, 7);
  std::vector<Request> requests;
  for (int i = 0; i < 12; ++i) {
    const int n = i % 4 == 1 ? 4 : 1;
    auto prompt = random_tokens(20 + 37 * i, 100 + static_cast<unsigned>(i));
    if (i % 3 == 0) prompt = joined(common, random_tokens(30 + i, 200 + static_cast<unsigned>(i)));
    if (i == 11) prompt = requests[9].prompt;
    answers.push_back(std::make_unique<Answer>(n));
    requests.push_back(request(*answers.back(), prompt, 12 + i, {.temperature = 0.8F, .seed = 5}, n));
  }
  return requests;
}

TEST_P(EngineCountersTest, APromptCountsOnce) {
  std::vector<std::unique_ptr<Answer>> answers;
  auto engine = make_engine(setup_of(GetParam()));
  const std::vector<Request> requests = mixed_requests(answers);
  std::uint64_t prompts = 0, made = 0, cached = 0;
  for (const Request& request : requests) {
    prompts += request.prompt.size();
    made += static_cast<std::uint64_t>(request.n * request.max_tokens);
    ASSERT_TRUE(engine->submit(request).ok());
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    cached += static_cast<std::uint64_t>(answers[i]->wait().cached_tokens);
    for (const Output& output : answers[i]->outputs()) {
      EXPECT_EQ(output.cached_tokens, answers[i]->outputs().front().cached_tokens) << "no usage changes in a stream";
    }
  }
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.cache.admissions, requests.size());
  EXPECT_EQ(stats.cache.prompt_tokens, prompts);
  EXPECT_EQ(stats.cache.resumed_tokens, cached);
  EXPECT_EQ(stats.prompt_tokens, prompts - cached);
  EXPECT_EQ(stats.generated_tokens, made);
  EXPECT_EQ(stats.finished_requests, requests.size());
  EXPECT_GE(stats.cache.prompt_tokens, stats.cache.matched_tokens);
  EXPECT_GE(stats.cache.matched_tokens, stats.cache.resumed_tokens);
  EXPECT_EQ(cached > 0, GetParam().caching);
  const bool preempts = GetParam().force_preempt_every > 0;
  EXPECT_EQ(stats.preemptions_recompute > 0, preempts);
  EXPECT_EQ(stats.preemptions_swap > 0, GetParam().swap_space > 0);
  EXPECT_EQ(stats.recomputed_tokens > 0, preempts || GetParam().places < 4);
}

// The counters include what a cancelled request had computed, and no lookup of a prompt that never got memory.
TEST_P(EngineCountersTest, OfWhatIsCancelled) {
  FakeModel::Settings settings;
  StepGate gate;
  settings.on_step = gate.hook();
  EngineSetup options = setup_of(GetParam());
  options.testing.force_preempt_every = 0;
  options.scheduler.max_num_seqs = 1;
  options.scheduler.max_num_batched_tokens = 64;
  Answer runs, waits;
  {
    auto engine = make_engine(options, settings);
    gate.close();
    const RequestId first = engine->submit(request(runs, random_tokens(300, 1), 5)).value();
    gate.pass(2);
    gate.wait_for_step();  // the third one is planned, and counted
    const RequestId second = engine->submit(request(waits, random_tokens(200, 2), 5, {}, 1)).value();
    engine->cancel(second);
    engine->cancel(first);
    gate.open();
    EXPECT_EQ(runs.wait().reason, FinishReason::kCancelled);
    EXPECT_EQ(waits.wait().reason, FinishReason::kCancelled);
    EXPECT_NE(runs.wait().admitted, std::chrono::steady_clock::time_point());
    EXPECT_EQ(waits.wait().admitted, std::chrono::steady_clock::time_point()) << "it never got memory";
    const EngineStats stats = engine->stats();
    EXPECT_EQ(stats.cache.admissions, 1U);
    EXPECT_EQ(stats.cache.prompt_tokens, 300U);
    EXPECT_EQ(stats.prompt_tokens, 3U * 64);
    EXPECT_EQ(stats.recomputed_tokens, 0U);
    EXPECT_EQ(stats.cancelled_requests, 2U);
  }
}

// Its other choices begin by themselves, and go on where the first one has stopped to count.
TEST(EngineCountersTest, OfAChoiceThatLeavesThePromptToOthers) {
  FakeModel::Settings settings;
  StepGate gate;
  settings.on_step = gate.hook();
  EngineSetup options = small_options();
  options.scheduler.max_num_batched_tokens = 64;
  options.cache.enable_prefix_caching = false;
  Answer answer(3);
  auto engine = make_engine(options, settings);
  gate.close();
  const RequestId id = engine->submit(request(answer, random_tokens(300, 1), 5, {.temperature = 0}, 3)).value();
  gate.pass(2);
  gate.wait_for_step();
  engine->cancel(id, 0);
  gate.open();
  EXPECT_EQ(answer.wait().reason, FinishReason::kCancelled);
  EXPECT_EQ(answer.wait(2).reason, FinishReason::kLength);
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.cache.admissions, 1U);
  EXPECT_EQ(stats.cache.prompt_tokens, 300U);
  EXPECT_EQ(stats.prompt_tokens, 300U);
  EXPECT_EQ(stats.recomputed_tokens, 3U * 64 + 300);
}

// The first choice ends before the prompt does, and another request goes on with it; then the two others begin.
TEST(EngineCountersTest, WhatOthersComputedMeanwhileCountsOnceForAllChoices) {
  FakeModel::Settings settings;
  StepGate gate;
  settings.on_step = gate.hook();
  EngineSetup options = small_options();
  options.scheduler.max_num_batched_tokens = 64;
  options.scheduler.scheduling_policy = SchedulingPolicy::kPriority;
  const std::vector<TokenId> prompt = random_tokens(260, 1);  // a step has room for the rows of all after its blocks
  Answer answer(3), same;
  auto engine = make_engine(options, settings);
  gate.close();
  Request worse = request(answer, prompt, 5, {.temperature = 0}, 3);
  worse.priority = 1;
  const RequestId id = engine->submit(std::move(worse)).value();
  gate.pass(2);
  gate.wait_for_step();  // the third one is planned, and 192 tokens are counted
  engine->cancel(id, 0);
  ASSERT_TRUE(engine->submit(request(same, prompt, 5)).ok());
  gate.open();
  EXPECT_EQ(same.wait().cached_tokens, 128);
  EXPECT_EQ(answer.wait(1).reason, FinishReason::kLength);
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.cache.resumed_tokens, 128U + (256 - 192));
}

INSTANTIATE_TEST_SUITE_P(All, EngineCountersTest,
                         ::testing::Values(Case{"Default"}, Case{"Uncached", 0, 0, 24, false},
                                           Case{"FewPlaces", 0, 0, 2}, Case{"FewPlacesUncached", 0, 0, 2, false},
                                           Case{"Preempted", 3}, Case{"PreemptedUncached", 3, 0, 24, false},
                                           Case{"PreemptedOften", 2, 0, 3}, Case{"Swapped", 3, 1 << 20}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace sluice::engine_counters_test
