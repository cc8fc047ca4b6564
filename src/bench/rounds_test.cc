#include "bench/rounds.h"

#include <gmock/gmock.h>

#include <chrono>
#include <set>
#include <thread>

#include "base/test_paths_testing.h"
#include "bench/speed_case.h"
#include "engine/fake_model_testing.h"
#include "kernels/device/emulated_device.h"

namespace sluice::rounds_test {
namespace {

constexpr int kMostForks = 10, kMostCalls = 12;  // in a layer, for a step of one row

EngineSetup tiny_options() {
  EngineSetup options;
  options.model.folder = source_dir() + "/models/sluice-tiny-v4";
  options.machine.threads = 2;
  options.scheduler.max_num_seqs = 4;
  options.scheduler.max_num_batched_tokens = 64;
  options.cache.kv_cache_memory = 64 << 20;
  options.cache.enable_prefix_caching = false;
  return options;
}

class SpeedCasesTest : public ::testing::Test {
 protected:
  SpeedCasesTest() {
    auto loaded = Runner::load(options_);
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    runner_ = std::move(loaded).value();
  }
  EngineSetup options_ = tiny_options();
  std::unique_ptr<Runner> runner_;
};

TEST_F(SpeedCasesTest, CountsWhatEachStepDoes) {
  SpeedCases tests(runner_.get(), options_);
  std::vector<StepWork> prefill, decode, concurrent;
  ASSERT_TRUE(tests.run({.tokens = 100}, &prefill).ok());
  ASSERT_EQ(prefill.size(), 2U) << "64 rows and 36";
  EXPECT_EQ(prefill[0].head.bytes, 0) << "no logits before the end of a prompt";
  EXPECT_GT(prefill[1].head.bytes, 0);
  ASSERT_TRUE(tests.run({.kind = SpeedCase::Kind::kDecode, .tokens = 3, .depth = 4096}, &decode).ok());
  ASSERT_EQ(decode.size(), 3U);
  EXPECT_GT(decode[0].cache.bytes, prefill[1].cache.bytes);
  EXPECT_LT(decode[0].experts.bytes, prefill[0].experts.bytes);
  const SpeedCase together{.kind = SpeedCase::Kind::kConcurrent, .tokens = 5, .concurrency = 3, .prompt = 40};
  ASSERT_TRUE(tests.run(together, &concurrent).ok());
  ASSERT_EQ(concurrent.size(), 5U);
  EXPECT_GT(concurrent[0].experts.bytes, decode[0].experts.bytes);
  EXPECT_LE(concurrent[0].experts.bytes, 3 * decode[0].experts.bytes);
  EXPECT_TRUE(runner_->sequences().audit().ok());
}

TEST_F(SpeedCasesTest, CountsTheBytesOfTheCheckpoint) {
  double counted = 0;
  for (const BoundWeight& weight : runner_->load_report().weights) counted += static_cast<double>(weight.stored_bytes);
  EXPECT_EQ(counted, static_cast<double>(runner_->load_report().checkpoint_bytes));
}

TEST_F(SpeedCasesTest, FewerPlacesThanRequestsIsAnError) {
  SpeedCases tests(runner_.get(), options_);
  const SpeedCase many{.kind = SpeedCase::Kind::kConcurrent, .tokens = 5, .concurrency = 6, .prompt = 40};
  const Result<double> result = tests.run(many);
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.status().message(), ::testing::HasSubstr("places for 4 sequences at once, not for 6"));
  EXPECT_TRUE(runner_->sequences().audit().ok());
}

TEST(SpeedCasesOfFewRows, FirstAnswersThatEndBeforeTheLastPromptAreAnError) {
  EngineSetup options = tiny_options();
  options.scheduler.max_num_batched_tokens = 8;
  const auto runner = Runner::create(std::make_unique<FakeModel>(), nullptr, options).value();
  SpeedCases tests(runner.get(), options);
  const auto slow = tests.run({.kind = SpeedCase::Kind::kConcurrent, .tokens = 5, .concurrency = 4, .prompt = 3000});
  ASSERT_FALSE(slow.ok());
  EXPECT_THAT(slow.status().message(), ::testing::HasSubstr("--max-num-batched-tokens (steps have 8 rows)"));
}

TEST_F(SpeedCasesTest, WhatDoesNotFitIsLeftOutOfARound) {
  SpeedCases tests(runner_.get(), options_);
  const SpeedCase two{.kind = SpeedCase::Kind::kConcurrent, .tokens = 2, .concurrency = 2, .prompt = 8};
  SpeedCase six = two;
  six.concurrency = 6;
  const RoundsOptions options{.rounds = 1, .probe = [] { return MachineSpeed{.read_gbytes = 1}; }, .progress = {}};
  const auto result = run_rounds(tests, {six, two}, options);
  ASSERT_TRUE(result.ok()) << result.status().message();
  ASSERT_EQ(result->rows.size(), 1U);
  EXPECT_EQ(result->rows[0].test.concurrency, 2);
  EXPECT_GE(result->rows[0].routing.met, result->rows[0].routing.layers);
  const std::string text = to_text(*result);
  EXPECT_THAT(text, ::testing::HasSubstr("left out: 6 concurrent, 8 + 2: the cache has places for 4"));
  EXPECT_THAT(text, ::testing::HasSubstr("2 concurrent, 8 + 2: a layer met "));
  EXPECT_FALSE(run_rounds(tests, {six}, options).ok());
}

TEST_F(SpeedCasesTest, SyntheticStatesAreWholeAndAlwaysTheSame) {
  std::vector<std::vector<float>> seen;
  for (int i = 0; i < 2; ++i) {
    const StateSlot sequence = *runner_->sequences().open();
    ASSERT_TRUE(fill_with_random_state(*runner_, sequence, 1000).ok());
    EXPECT_EQ(runner_->sequences().position(sequence), 1000);
    const TokenId id = 7;
    const int row = 0;
    const StepSpan span{.sequence = sequence, .ids = {&id, 1}, .logit_rows = {&row, 1}};
    ASSERT_TRUE(runner_->run_step({&span, 1}).ok());
    seen.emplace_back(runner_->logits().all().begin(), runner_->logits().all().end());
    EXPECT_TRUE(runner_->sequences().audit().ok());
    runner_->sequences().close(sequence);
  }
  EXPECT_EQ(seen[0], seen[1]);
  EXPECT_GT(std::set<float>(seen[0].begin(), seen[0].end()).size(), 100U);
  for (const float logit : seen[0]) ASSERT_TRUE(std::isfinite(logit));
}

// Bounds the part of a step other than computing, so that forks and calls of one thread do not increase unseen.
TEST_F(SpeedCasesTest, StagesSumToTheStepAndForkSeldom) {
  SpeedCases tests(runner_.get(), options_);
  tests.measure_stages();
  constexpr int kSteps = 8;
  const auto seconds = tests.run({.kind = SpeedCase::Kind::kDecode, .tokens = kSteps, .depth = 16});
  ASSERT_TRUE(seconds.ok());
  const StageTime step = sum_of(tests.stages());
  EXPECT_LE(step.seconds, *seconds);
  EXPECT_NEAR(step.seconds, *seconds, 0.001);
  for (const StageTime& stage : tests.stages()) {
    EXPECT_GT(stage.seconds, 0);
    EXPECT_LE(stage.waiting + stage.alone, stage.seconds);
  }
  // The bounds are per layer; a product that is too small to be shared is a call instead of a fork.
  const int layers = runner_->model().config().num_hidden_layers;
  EXPECT_LE(step.forks, kMostForks * layers * kSteps);
  EXPECT_LE(step.forks + step.calls, (kMostForks + kMostCalls) * layers * kSteps);
  // Without being asked for, nothing is measured.
  SpeedCases others(runner_.get(), options_);
  ASSERT_TRUE(others.run({.kind = SpeedCase::Kind::kDecode, .tokens = 2}).ok());
  EXPECT_EQ(sum_of(others.stages()).forks, 0);
  EXPECT_EQ(runner_->exec().pool->meter(), nullptr);
}

// A device computes on when a call returns, and one that has broken down computes nothing, quickly.
TEST(SpeedCasesOnADevice, WaitForItAndHearThatItFailed) {
  EngineSetup options = tiny_options();
  options.machine.device = "emulated";
  FakeModel::Settings settings;
  settings.step_time = std::chrono::milliseconds(20);
  const auto runner = Runner::create(std::make_unique<FakeModel>(settings), nullptr, options).value();
  SpeedCases tests(runner.get(), options);
  const SpeedCase steps{.kind = SpeedCase::Kind::kDecode, .tokens = 3};
  const auto seconds = tests.run(steps);
  ASSERT_TRUE(seconds.ok()) << seconds.status().message();
  EXPECT_GE(*seconds, 0.06);
  static_cast<EmulatedDevice*>(runner->exec().device)->break_down();
  const auto broken = tests.run(steps);
  ASSERT_FALSE(broken.ok());
  EXPECT_THAT(broken.status().message(), ::testing::HasSubstr("told to break down"));
}

// Prompts that the device still computes when the host is done with them are not decoded tokens.
TEST(SpeedCasesOnADevice, TheClockStartsBehindThePrompts) {
  static constexpr double kPrompts = 0.4;  // seconds, of their last step
  EngineSetup options = tiny_options();
  options.machine.device = "emulated";
  FakeModel::Settings settings;
  settings.on_step = [](const StepTables& step) {
    if (step.rows() > 2) std::this_thread::sleep_for(std::chrono::duration<double>(kPrompts));
  };
  const auto runner = Runner::create(std::make_unique<FakeModel>(settings), nullptr, options).value();
  SpeedCases tests(runner.get(), options);
  const auto seconds = tests.run({.kind = SpeedCase::Kind::kConcurrent, .tokens = 3, .concurrency = 2, .prompt = 20});
  ASSERT_TRUE(seconds.ok()) << seconds.status().message();
  EXPECT_LT(*seconds, kPrompts / 2);
}

TEST_F(SpeedCasesTest, RoundsAndTheirReport) {
  SpeedCases tests(runner_.get(), options_);
  const MachineProbe probe(runner_->exec().pool, 1 << 20);
  int last_done = -1, last_total = 0;
  const RoundsOptions options{.rounds = 3,
                              .probe = [&] { return probe.measure(); },
                              .progress = [&](int done, int total) { last_done = done, last_total = total; }};
  const std::vector<SpeedCase> list{{.tokens = 64}, {.kind = SpeedCase::Kind::kDecode, .tokens = 4, .depth = 256}};
  auto result = run_rounds(tests, list, options);
  ASSERT_TRUE(result.ok()) << result.status().message();
  ASSERT_EQ(result->rows.size(), 2U);
  EXPECT_EQ(last_done, 6);
  EXPECT_EQ(last_total, 6);
  for (const SpeedRow& row : result->rows) {
    EXPECT_TRUE(row.runs.size() == 3U || row.voided == 3) << row.runs.size() << " " << row.voided;
    EXPECT_GE(row.runs.size(), 1U);
    EXPECT_GT(row.tokens_per_second(), 0);
    EXPECT_GT(row.bytes_per_token, row.cache_bytes_per_token);
  }
  EXPECT_GT(result->rows[1].bytes_per_token, result->rows[0].bytes_per_token);
  EXPECT_THAT(to_text(*result), ::testing::HasSubstr("depth: a synthetic state"));
  EXPECT_THAT(to_svg(*result, "title"), ::testing::HasSubstr("4 at 256"));
  EXPECT_THAT(to_text(*result), ::testing::Not(::testing::HasSubstr("waiting")));
}

TEST(MachineProbe, MeasuresWhatKernelsMayUse) {
  using enum CpuFeature;
  ThreadPool pool(2);
  const auto measure = [&pool](CpuFeatures features) { return MachineProbe(&pool, 1 << 20, features).measure(); };
  const CpuFeatures plain = cpu_features().without(kAvx512).without(kAvxVnni);
  const MachineSpeed avx2 = measure(plain), scalar = measure({});
  EXPECT_EQ(avx2.bf16_gflops + avx2.tiles_gflops, 0);
  EXPECT_EQ(avx2.f32_gflops > 0 && avx2.int8_gops > 0, plain.has(kAvx2));
  EXPECT_EQ(scalar.f32_gflops + scalar.bf16_gflops + scalar.int8_gops + scalar.tiles_gflops, 0);
  EXPECT_EQ(measure(cpu_features()).bf16_gflops > 0, cpu_features().has(kBf16Dot));
}

TEST(DeviceProbe, MeasuresMemoryAlone) {
  Result<DeviceProbe> probe = DeviceProbe::make(&cpu_device(), 1 << 20);
  ASSERT_TRUE(probe.ok());
  const MachineSpeed speed = probe->measure();
  EXPECT_GT(speed.read_gbytes, 0);
  EXPECT_EQ(speed.f32_gflops + speed.bf16_gflops + speed.int8_gops + speed.tiles_gflops, 0);
}

TEST(SpeedRow, MediansOfRatios) {
  SpeedRow row{.test = {.tokens = 100}, .runs = {}};
  row.runs = {{.seconds = 1, .floor_seconds = 0.5, .machine = {}},
              {.seconds = 2, .floor_seconds = 1.8, .machine = {}},
              {.seconds = 4, .floor_seconds = 2.4, .machine = {}}};
  EXPECT_DOUBLE_EQ(row.tokens_per_second(), 50);
  EXPECT_DOUBLE_EQ(row.percent_of_floor(), 60);
  EXPECT_DOUBLE_EQ(row.floor_tokens_per_second(), 100 / 1.8);
  EXPECT_DOUBLE_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_EQ(row.uneven(), 0);
  row.runs[1].machine.thread_ratio = 1.31;
  EXPECT_EQ(row.uneven(), 1);
  RoundsResult result;
  result.rows = {row};
  EXPECT_THAT(to_text(result), ::testing::HasSubstr("uneven 1"));
  result.rows[0].steps = 2;
  result.rows[0].runs[0].stages[static_cast<std::size_t>(StepStage::kHead)] = {
      .seconds = 0.6, .waiting = 0.3, .forks = 12};
  const StageTime head = result.rows[0].stages()[static_cast<std::size_t>(StepStage::kHead)];
  EXPECT_DOUBLE_EQ(head.seconds, 0.1);
  EXPECT_DOUBLE_EQ(head.waiting, 0.05);
  EXPECT_EQ(head.forks, 2);
  EXPECT_THAT(to_text(result), ::testing::HasSubstr("head           100.000    50.000"));
}

TEST(ThreadsText, ComparesWithFewerThreads) {
  const auto on = [](int threads, std::vector<double> seconds) {
    ThreadsResult of{.threads = threads, .result = {}};
    of.result.rows.push_back({.test = {.tokens = 100}, .runs = {{.seconds = seconds[0], .machine = {}}}});
    of.result.rows.push_back({.test = {.kind = SpeedCase::Kind::kDecode, .tokens = 8, .depth = 4096},
                              .runs = {{.seconds = seconds[1], .machine = {}}}});
    return of;
  };
  EXPECT_EQ(threads_text({on(2, {1, 1})}), "");
  const std::string text = threads_text({on(4, {1.05, 0.5}), on(1, {2, 1}), on(2, {1, 0.5})});
  EXPECT_EQ(text,
            "tokens/s, and beside it of the fastest of fewer threads, which was measured at another time\n"
            "threads                   4                 1                 2\n"
            "prefill 100            95.2 0.95!        50.0             100.0 2.00\n"
            "decode 8 at 4096       16.0 1.00          8.0              16.0 2.00\n"
            "!: slower by more than 3 %\n");
  std::vector<ThreadsResult> near{on(1, {2, 1}), on(2, {2.05, 1})};
  EXPECT_THAT(threads_text(near), ::testing::Not(::testing::HasSubstr("!")));
  near[0].result.rows[1].steady = false;
  EXPECT_THAT(threads_text(near), ::testing::HasSubstr("8.0 1.00?\n?: one"));
}

}  // namespace
}  // namespace sluice::rounds_test
