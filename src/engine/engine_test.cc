#include "sluice/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <deque>
#include <limits>
#include <random>
#include <thread>

#include "engine/engine_testing.h"

namespace sluice::engine_test {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

TEST(EngineTest, AnswersAreThoseOfTheRequestAlone) {
  constexpr int kRequests = 12;
  std::vector<Answer> answers(kRequests);
  auto engine = make_engine();
  for (int i = 0; i < kRequests; ++i) {
    const SamplingParams sampling{.temperature = i % 2 == 0 ? 0.0F : 0.8F, .seed = static_cast<std::uint64_t>(i)};
    ASSERT_TRUE(
        engine->submit(request(answers[static_cast<std::size_t>(i)], random_tokens(1 + i * 37, 1), 5 + i, sampling))
            .ok());
  }
  for (int i = 0; i < kRequests; ++i) {
    Answer& answer = answers[static_cast<std::size_t>(i)];
    const Output last = answer.wait();
    EXPECT_EQ(last.reason, FinishReason::kLength);
    for (const Output& output : answer.outputs()) EXPECT_NE(output.weights_version, nullptr);
    const SamplingParams sampling{.temperature = i % 2 == 0 ? 0.0F : 0.8F, .seed = static_cast<std::uint64_t>(i)};
    EXPECT_EQ(answer.tokens(), alone(random_tokens(1 + i * 37, 1), 5 + i, sampling)) << i;
  }
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.finished_requests, static_cast<std::uint64_t>(kRequests));
  EXPECT_EQ(stats.prompt_tokens + stats.cache.resumed_tokens, static_cast<std::uint64_t>(12 + 37 * 66));
  EXPECT_EQ(stats.generated_tokens, static_cast<std::uint64_t>(12 * 5 + 66));
  EXPECT_EQ(stats.cache_bytes_used, 0);
  EXPECT_GT(stats.cache_bytes_total, 0);
  EXPECT_LE(stats.cache_bytes_total, 4 << 20);
  EXPECT_LT(stats.seconds_since_last_token, 60);
}

TEST(EngineTest, AnEndTokenIsTheLastOne) {
  const auto all = alone({5, 6, 7}, 20, {.temperature = 0});
  ASSERT_EQ(all.size(), 20U);
  Answer answer;
  auto engine = make_engine();
  Request r = request(answer, {5, 6, 7}, 20);
  r.stop_token_ids = {all[6], 63};
  ASSERT_TRUE(engine->submit(std::move(r)).ok());
  const Output last = answer.wait();
  EXPECT_EQ(last.reason, FinishReason::kStop);
  EXPECT_EQ(last.token, all[6]);
  const auto first = static_cast<std::ptrdiff_t>(std::find(all.begin(), all.end(), all[6]) - all.begin());
  EXPECT_EQ(answer.tokens(), std::vector<TokenId>(all.begin(), all.begin() + first + 1));
}

// The model's own end tokens end nothing by themselves: whoever submits names those that count.
TEST(EngineTest, EndTokensAreTheCallersChoice) {
  const auto all = alone({5, 6, 7}, 40, {.temperature = 0});
  auto runner = Runner::create(std::make_unique<FakeModel>(), nullptr, small_options()).value();
  Answer answer;
  auto engine = start_engine(std::move(runner), small_options(), {all[3]}).value();
  EXPECT_EQ(engine->end_token_ids(), std::vector<std::int32_t>{all[3]});
  ASSERT_TRUE(engine->submit(request(answer, {5, 6, 7}, 40)).ok());
  EXPECT_EQ(answer.wait().reason, FinishReason::kLength);
  EXPECT_EQ(answer.tokens(), all);
}

// The first token is the last one, after a prompt in pieces, from the cache, or preempted on the way.
TEST(EngineTest, TheEndComesWithTheFirstToken) {
  const auto prompt = random_tokens(300, 1);
  const TokenId first = alone(prompt, 1, {.temperature = 0})[0];
  for (const int every : {0, 1, 3}) {
    EngineSetup options = small_options();
    options.testing.force_preempt_every = every;
    auto engine = make_engine(options);
    for (const bool stops : {false, true, true}) {
      Answer answer;
      Request r = request(answer, prompt, stops ? 100 : 1);
      if (stops) r.stop_token_ids = {first};
      ASSERT_TRUE(engine->submit(std::move(r)).ok());
      EXPECT_EQ(answer.wait().reason, stops ? FinishReason::kStop : FinishReason::kLength);
      EXPECT_EQ(answer.tokens(), std::vector<TokenId>{first});
    }
    EXPECT_EQ(engine->stats().finished_requests, 3U);
    EXPECT_EQ(engine->stats().cache_bytes_used, 0);
  }
}

TEST(EngineTest, NoTokensAskedForIsAnEndAtOnce) {
  Answer answer;
  auto engine = make_engine();
  ASSERT_TRUE(engine->submit(request(answer, {1}, 0)).ok());
  const Output last = answer.wait();
  EXPECT_EQ(last.reason, FinishReason::kLength);
  EXPECT_FALSE(last.token.has_value());
}

TEST(EngineTest, LogprobsComeWhenAskedFor) {
  Answer answer;
  auto engine = make_engine();
  ASSERT_TRUE(engine->submit(request(answer, {1, 2}, 1, {.temperature = 0, .top_logprobs = 3})).ok());
  const Output last = answer.wait();
  ASSERT_EQ(last.top.size(), 3U);
  EXPECT_EQ(last.top[0].token, *last.token);
  EXPECT_EQ(last.top[0].logprob, last.logprob);
  EXPECT_LT(last.logprob, 0.0F);
}

TEST(EngineTest, RefusesWhatCanNeverRun) {
  EngineSetup options = small_options();
  options.model.max_model_len = 2000;
  options.scheduler.max_num_seqs = 1;
  options.cache.kv_cache_memory = 12 << 10;
  Answer answer;  // outlives the engine, as in every test here
  auto engine = make_engine(options);
  EXPECT_EQ(engine->max_model_len(), 2000);
  EXPECT_EQ(engine->vocab_size(), 64);
  const auto message = [&](std::vector<TokenId> prompt, int max_tokens, SamplingParams sampling = {}) {
    const auto result = engine->submit(request(answer, std::move(prompt), max_tokens, sampling));
    EXPECT_FALSE(result.ok());
    return result.ok() ? "" : result.status().message();
  };
  EXPECT_THAT(message({}, 1), HasSubstr("at least one token"));
  EXPECT_THAT(message({1, 64}, 1), HasSubstr("expected token ids in [0, 64), found 64 at index 1"));
  EXPECT_THAT(message({-1}, 1), HasSubstr("found -1 at index 0"));
  EXPECT_THAT(message({1}, -1), HasSubstr("max_tokens"));
  EXPECT_THAT(message({1}, 1, {.temperature = -1}), HasSubstr("temperature"));
  EXPECT_THAT(message(random_tokens(2001, 1), 1), HasSubstr("at most 2000 tokens"));
  EXPECT_THAT(message(random_tokens(1999, 1), 2), HasSubstr("prompt (1999 tokens) + max_tokens (2) = 2001"));
  EXPECT_THAT(message({1}, std::numeric_limits<int>::max()), HasSubstr("= 2147483648"));
  EXPECT_THAT(message(random_tokens(1900, 1), 100), HasSubstr("--kv-cache-memory"));
}

// Neither those that run nor those that come after it wait for one that is refused, and it holds no memory.
TEST(EngineTest, ARefusedRequestHoldsNothingUp) {
  EngineSetup options = small_options();
  options.scheduler.max_num_seqs = 1;
  Answer running, next, refused;
  GatedEngine engine(options);
  ASSERT_TRUE(engine->submit(request(running, random_tokens(10, 1), 5)).ok());
  engine.gate().wait_for_step();
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(engine->submit(request(refused, random_tokens(5000, 1), 5)).ok());
    EXPECT_FALSE(engine->submit(request(refused, {}, 5)).ok());
  }
  EXPECT_EQ(engine->stats().waiting, 0);
  ASSERT_TRUE(engine->submit(request(next, random_tokens(10, 2), 5)).ok());
  engine.gate().open();
  EXPECT_EQ(running.wait().reason, FinishReason::kLength);
  EXPECT_EQ(next.wait().reason, FinishReason::kLength);
  EXPECT_FALSE(refused.finished());
  EXPECT_EQ(engine->stats().steps, 10U) << "five of each";
  EXPECT_EQ(engine->stats().cache_bytes_used, 0);
}

TEST(EngineTest, ABadRowEndsItsOwnRequestOnly) {
  FakeModel::Settings settings;
  settings.on_logits = [](TokenId token, Position, float* logits) {
    if (token == 63) logits[3] = std::nanf("");
  };
  Answer good, bad;
  auto engine = make_engine(small_options(), settings);
  ASSERT_TRUE(engine->submit(request(good, {1, 2, 3}, 3)).ok());
  ASSERT_TRUE(engine->submit(request(bad, {1, 2, 63}, 3)).ok());
  const Output last = bad.wait();
  EXPECT_EQ(last.reason, FinishReason::kError);
  EXPECT_THAT(last.status.message(), HasSubstr("not numbers"));
  EXPECT_NE(good.wait().reason, FinishReason::kError);
}

TEST(EngineTest, CancelFreesWithinAStep) {
  FakeModel::Settings settings;
  std::vector<std::size_t> spans;  // the number of spans of each step
  settings.on_step = [&spans](const StepTables& step) { spans.push_back(step.spans.size()); };
  Answer first, second;
  GatedEngine engine(small_options(), settings);
  const auto submit = [&](Answer& answer, unsigned seed) {
    return engine->submit(request(answer, random_tokens(100, seed), 3000)).value();
  };
  const RequestId first_id = submit(first, 1);
  engine.gate().wait_for_step();
  const RequestId second_id = submit(second, 2);
  engine.gate().pass(9);  // step 10 is planned and waits
  const std::int64_t used = engine->stats().cache_bytes_used;
  engine->cancel(first_id);
  engine->cancel(first_id);
  engine->cancel(99);
  engine.gate().pass();
  ASSERT_TRUE(first.finished());
  EXPECT_EQ(first.wait().reason, FinishReason::kCancelled);
  EXPECT_EQ(first.tokens().size(), tests_asynchronous() ? 8U : 9U)
      << "the tenth step is its last: it has one token from each but the first";
  const EngineStats stats = engine->stats();
  EXPECT_LT(stats.cache_bytes_used, used);
  EXPECT_GT(stats.cache_bytes_used, 0);
  EXPECT_EQ(stats.cancelled_requests, 1U);
  engine->cancel(second_id);
  engine.gate().open();
  EXPECT_EQ(second.wait().reason, FinishReason::kCancelled);
  ASSERT_EQ(spans.size(), 11U) << "no step begins after the last cancellation";
  EXPECT_EQ(spans[9], 2U);
  EXPECT_EQ(spans[10], 1U);
  EXPECT_EQ(engine->stats().cache_bytes_used, 0);
  EXPECT_EQ(engine->stats().running, 0);
  EXPECT_EQ(engine->stats().cancelled_requests, 2U);
}

// For the thread sanitizer: the numbers are read by others while the engine's thread writes them. They never go back.
TEST(EngineTest, StatsAreReadWhileItRuns) {
  std::deque<Answer> answers(20);
  auto engine = make_engine();
  std::atomic<bool> done{false};
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      EngineStats before;
      while (!done) {
        const EngineStats now = engine->stats();
        ASSERT_GE(now.steps, before.steps);
        ASSERT_GE(now.generated_tokens, before.generated_tokens);
        ASSERT_GE(now.finished_requests, before.finished_requests);
        before = now;
      }
    });
  }
  for (auto& answer : answers) ASSERT_TRUE(engine->submit(request(answer, random_tokens(100, 1), 20)).ok());
  for (auto& answer : answers) answer.wait();
  done = true;
  for (auto& reader : readers) reader.join();
  EXPECT_EQ(engine->stats().generated_tokens, 400U);
}

TEST(EngineTest, ARequestMayCancelItselfAndWaitingOnesCanBeCancelled) {
  EngineSetup options = small_options();
  options.scheduler.max_num_seqs = 1;
  FakeModel::Settings settings;
  settings.step_time = 1ms;  // the second request must not be through before it is cancelled
  Answer first, second;
  std::atomic<RequestId> first_id{0};
  auto engine = make_engine(options, settings);
  Request r = request(first, {1}, 4000);
  r.on_output = [&, sink = first.sink()](Output output) {
    const bool end = output.finished;
    sink(std::move(output));
    if (!end) engine->cancel(first_id);
  };
  const auto waiting = [&] {
    first_id = engine->submit(std::move(r)).value();
    return engine->submit(request(second, {2}, 4000)).value();
  }();
  EXPECT_EQ(first.wait().reason, FinishReason::kCancelled);
  engine->cancel(waiting);
  EXPECT_EQ(second.wait().reason, FinishReason::kCancelled);
}

TEST(EngineTest, WaitsForMemoryInOrder) {
  EngineSetup options = small_options();
  options.model.max_model_len = 1024;
  options.cache.kv_cache_memory = 64 << 10;
  std::vector<Answer> answers(6);
  auto engine = make_engine(options);
  for (auto& answer : answers) ASSERT_TRUE(engine->submit(request(answer, random_tokens(500, 1), 200)).ok());
  const auto expected = alone(random_tokens(500, 1), 200, {.temperature = 0});
  for (auto& answer : answers) {
    EXPECT_EQ(answer.wait().reason, FinishReason::kLength);
    EXPECT_EQ(answer.tokens(), expected);
  }
  EXPECT_EQ(engine->stats().cache_bytes_used, 0);
}

TEST(EngineTest, SelfTestsPassWhileTheCacheIsFull) {
  EngineSetup options = small_options();
  options.scheduler.max_num_seqs = 1;
  options.cache.kv_cache_memory = 16 << 10;
  FakeModel::Settings settings;
  settings.step_time = 1ms;
  Answer answer;
  GatedEngine engine(options, settings);
  engine.gate().open();
  EXPECT_TRUE(engine->self_test(60));
  EXPECT_LT(engine->stats().seconds_since_last_token, 60);
  engine.gate().close();
  ASSERT_TRUE(engine->submit(request(answer, random_tokens(120, 1), 700)).ok());
  engine.gate().wait_for_step();
  EXPECT_FALSE(engine->self_test(0)) << "the step has not ended";
  for (int i = 0; i < 3; ++i) {
    engine.gate().pass(5);
    EXPECT_FALSE(engine->self_test(0));
  }
  EXPECT_EQ(engine->stats().running, 1);
  engine.gate().open();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(engine->self_test(60));
}

TEST(EngineTest, ASlowStepFailsTheSelfTest) {
  FakeModel::Settings settings;
  settings.step_time = 300ms;
  auto engine = make_engine(small_options(), settings);
  EXPECT_FALSE(engine->self_test(0.02));
  EXPECT_GT(engine->stats().seconds_since_last_token, 1e6);
}

TEST(EngineTest, TheEndOfTheEngineCancelsWhatRunsAndWaits) {
  std::vector<Answer> answers(8);
  auto engine = make_engine();
  for (auto& answer : answers) ASSERT_TRUE(engine->submit(request(answer, random_tokens(10, 1), 4000)).ok());
  engine.reset();
  for (auto& answer : answers) EXPECT_EQ(answer.wait().reason, FinishReason::kCancelled);
}

TEST(EngineTest, ManyThreadsSubmitAndCancel) {
  EngineSetup options = small_options();
  options.machine.threads = 2;
  options.cache.kv_cache_memory = 256 << 10;
  auto engine = make_engine(options);
  constexpr unsigned kClients = 6, kRequests = 25;
  std::atomic<int> cancelled{0}, ended{0};
  std::vector<std::thread> clients;
  for (unsigned c = 0; c < kClients; ++c) {
    clients.emplace_back([&, c] {
      std::mt19937 random(c);
      for (unsigned i = 0; i < kRequests; ++i) {
        Answer answer;
        const auto prompt = random_tokens(static_cast<int>(1 + random() % 300), random() % 8);
        const auto id =
            engine->submit(request(answer, prompt, static_cast<int>(1 + random() % 60), {.temperature = 1, .seed = i}));
        ASSERT_TRUE(id.ok()) << id.status().message();
        if (random() % 3 == 0) {
          answer.wait_for_tokens(random() % 5);
          engine->cancel(*id);
        }
        if (random() % 8 == 0) {
          EXPECT_TRUE(engine->self_test(60));
        }
        static_cast<void>(engine->stats());
        (answer.wait().reason == FinishReason::kCancelled ? cancelled : ended)++;
      }
    });
  }
  for (auto& client : clients) client.join();
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.finished_requests, static_cast<std::uint64_t>(ended.load()));
  EXPECT_EQ(stats.cancelled_requests, static_cast<std::uint64_t>(cancelled.load()));
  EXPECT_EQ(ended + cancelled, static_cast<int>(kClients * kRequests));
  EXPECT_EQ(stats.cache_bytes_used, 0);
  EXPECT_EQ(stats.running + stats.waiting, 0);
}

}  // namespace
}  // namespace sluice::engine_test
