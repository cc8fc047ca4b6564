// Requests that pause: their tokens, and those of others, are the ones that they have alone.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "base/test_seed_testing.h"
#include "engine/engine_testing.h"

namespace sluice::engine_pause_test {
namespace {

constexpr SamplingParams kSampled{.temperature = 1, .seed = 5};

TEST(EnginePauseTest, APausedRequestMakesNoTokensAndGoesOnWhereItWas) {
  const auto prompt = random_tokens(40, 1), other = random_tokens(30, 2);
  Answer slow, quick;
  GatedEngine engine;
  const RequestId id = engine->submit(request(slow, prompt, 30, kSampled)).value();
  engine.gate().wait_for_step();
  ASSERT_TRUE(engine->submit(request(quick, other, 100, kSampled)).ok());
  engine.gate().pass(8);
  engine->set_paused(id, true);
  engine.gate().pass(5);  // planned tokens, which are being delivered, still come
  const std::size_t before = slow.tokens().size();
  engine.gate().pass(10);
  EXPECT_EQ(slow.tokens().size(), before);
  EXPECT_EQ(engine->stats().paused, 1);
  EXPECT_EQ(engine->stats().running, 2);
  engine->set_paused(id, false);
  engine.gate().open();
  slow.wait();
  quick.wait();
  EXPECT_EQ(slow.tokens(), alone(prompt, 30, kSampled));
  EXPECT_EQ(quick.tokens(), alone(other, 100, kSampled));
}

TEST(EnginePauseTest, TheLoopRestsWhileAllArePausedAndHearsOfTheEnd) {
  Answer slow;
  GatedEngine engine;
  const RequestId id = engine->submit(request(slow, random_tokens(40, 1), 400, kSampled)).value();
  engine.gate().wait_for_step();
  engine.gate().pass(3);
  engine->set_paused(id, true);
  engine.gate().open();
  ASSERT_TRUE(engine->ping(100));
  const std::uint64_t steps = engine->stats().steps;
  ASSERT_TRUE(engine->ping(100));
  EXPECT_LE(engine->stats().steps, steps + 1);
  EXPECT_FALSE(slow.finished());
  engine->cancel(id);
  EXPECT_EQ(slow.wait().reason, FinishReason::kCancelled);
  EXPECT_EQ(engine->stats().paused, 0);
}

TEST(EngineTurnTest, TheLoopSaysHowLongItHasBeenInAStep) {
  Answer answer;
  GatedEngine engine;
  ASSERT_TRUE(engine->submit(request(answer, random_tokens(10, 1), 5)).ok());
  engine.gate().wait_for_step();
  const auto deadline = std::chrono::steady_clock::now() + kTestPatience;
  while (engine->stats().turn_seconds < 0.06 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_GE(engine->stats().turn_seconds, 0.06);
  engine.gate().open();
  answer.wait();
  ASSERT_TRUE(engine->ping(100)) << "after the turn that ended the answer";
  for (int i = 0; i < 1000 && engine->stats().turn_seconds > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(engine->stats().turn_seconds, 0) << "it has nothing to do";
  const StepCounts counts = engine->stats().step_counts;
  EXPECT_EQ(std::accumulate(counts.by_seconds.begin(), counts.by_seconds.end(), std::uint64_t{0}),
            engine->stats().steps);
  EXPECT_GE(counts.rows, 14U) << "of the prompt, and of all tokens but the last";
  EXPECT_GE(counts.seconds, 0.02) << "a turn's step is most of it: the audit and the counts lie beside it";
}

// With random pauses, preemptions, swaps, forks and too little memory, in synchronous and asynchronous steps.
void expect_equal_answers(unsigned seed, bool asynchronous) {
  std::mt19937 random(seed);
  const auto below = [&random](unsigned n) { return random() % n; };
  EngineSetup options = small_options();
  options.audit = true;
  options.cache.swap_space = 1 << 20;
  options.scheduler.max_num_seqs = 4;
  options.scheduler.async_scheduling = asynchronous ? AsyncScheduling::kOn : AsyncScheduling::kOff;
  options.testing.force_preempt_every = below(2) == 0 ? 0 : 5;
  constexpr int kRequests = 6;
  std::vector<std::vector<TokenId>> prompts;
  std::vector<std::unique_ptr<Answer>> answers;
  std::vector<RequestId> ids;
  std::vector<int> tokens;
  auto engine = make_engine(options);
  for (int i = 0; i < kRequests; ++i) {
    prompts.push_back(random_tokens(20 + static_cast<int>(below(300)), seed + static_cast<unsigned>(i)));
    answers.push_back(std::make_unique<Answer>(i % 3 == 0 ? 2 : 1));
    tokens.push_back(20 + static_cast<int>(below(60)));
    ids.push_back(
        engine->submit(request(*answers.back(), prompts.back(), tokens.back(), kSampled, i % 3 == 0 ? 2 : 1)).value());
  }
  for (int i = 0; i < 60; ++i) {
    engine->set_paused(ids[below(kRequests)], below(2) == 0);
    if (below(3) == 0) {
      EXPECT_TRUE(engine->ping(100));
    }
  }
  for (const RequestId id : ids) engine->set_paused(id, false);
  for (std::size_t i = 0; i < kRequests; ++i) {
    answers[i]->wait();
    EXPECT_EQ(answers[i]->tokens(), alone(prompts[i], tokens[i], kSampled)) << "request " << i;
  }
  EXPECT_EQ(engine->stats().running + engine->stats().waiting + engine->stats().paused, 0);
}

TEST(EnginePauseTest, PausesChangeNoToken) {
  const unsigned seed = test_seed();
  for (unsigned i = 0; i < 8; ++i) {
    SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed + i);
    expect_equal_answers(seed + i, i % 2 == 1);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace sluice::engine_pause_test
