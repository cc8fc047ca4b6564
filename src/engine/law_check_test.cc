#include "engine/law_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/test_seed_testing.h"
#include "engine/fake_model_testing.h"
#include "engine/law_schedule.h"
#include "engine/law_workload.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

std::vector<std::vector<TokenId>> make_prompts() {
  std::mt19937 random(1);
  std::vector<std::vector<TokenId>> prompts;
  for (const int n : {1, 3, 4, 5, 127, 128, 129, 256, 300, 720}) {
    auto& prompt = prompts.emplace_back(static_cast<std::size_t>(n));
    for (TokenId& id : prompt) id = static_cast<TokenId>(random() % 64);
  }
  prompts.push_back(prompts[8]);  // a common beginning
  prompts.back().resize(260);
  return prompts;
}

std::unique_ptr<Runner> make_runner(const FakeModel::Settings& settings, const char* fault = "") {
  EngineOptions options;
  options.threads = 1;
  options.max_num_seqs = 8;
  options.max_num_batched_tokens = 1024;
  options.kv_cache_memory = 8 << 20;
  options.swap_space = 64 << 20;
  options.audit = true;
  options.inject_fault = fault;
  return Runner::create(std::make_unique<FakeModel>(settings), nullptr, options).value();
}

TEST(LawCheckTest, TheRowLawHoldsOnRandomSchedules) {
  const auto prompts = make_prompts();
  for (const int window : {1, 128, 130, 300}) {
    auto runner = make_runner({.window_tokens = window, .on_logits = nullptr});
    LawOptions options;
    options.seed = test_seed();
    options.schedules = 60;
    const auto report = check_row_law(*runner, prompts, options);
    ASSERT_TRUE(report.ok()) << "SLUICE_TEST_SEED=" << options.seed << ": " << report.status().message();
    EXPECT_FALSE(report->difference.has_value()) << report->difference->text;
    EXPECT_EQ(report->schedules, 60);
    EXPECT_GT(report->comparisons, 50000);
    for (const int count : {report->preemptions, report->swaps, report->truncations, report->forks, report->aborts,
                            report->forgotten, static_cast<int>(report->resumed_tokens / 1000)}) {
      EXPECT_GT(count, 2);
    }
    EXPECT_EQ(runner->pools().bytes_used(), 0U);
  }
}

TEST(LawCheckTest, AFaultIsFoundAndShrunk) {
  auto runner = make_runner({.forgetful_rows = 3, .on_logits = nullptr});
  const auto prompts = make_prompts();
  LawOptions options;
  options.seed = 5;
  const auto report = check_row_law(*runner, prompts, options);
  ASSERT_TRUE(report.ok()) << report.status().message();
  ASSERT_TRUE(report->difference.has_value());
  const std::string& text = report->difference->text;
  EXPECT_THAT(text, HasSubstr("seed 5 schedule"));
  // One sequence is left, with a piece of three rows and one after it.
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 4) << text;
  EXPECT_EQ(runner->pools().bytes_used(), 0U);
  // The schedule runs again from its number alone.
  options.first_schedule = report->difference->schedule;
  options.schedules = 1;
  const auto again = check_row_law(*runner, prompts, options);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->difference->text, text);
}

TEST(LawCheckTest, SchedulesAreAsLargeAsPromised) {
  const auto prompts = make_prompts();
  LawOptions options;
  options.seed = 9;
  int company = 0, single_rows = 0;
  for (int i = 0; i < 200; ++i) {
    const LawSchedule schedule = make_law_schedule(prompts, options, i);
    ASSERT_GE(schedule.sequences.size(), 2U);
    ASSERT_LE(schedule.sequences.size(), 8U);
    int rows = 0;
    std::vector<int> at(schedule.sequences.size());
    for (const LawStep& step : schedule.steps) {
      company += step.pieces.size() > 1;
      for (const LawPiece& piece : step.pieces) {
        int& begin = at[static_cast<std::size_t>(piece.sequence)];
        ASSERT_GT(piece.end, begin);
        single_rows += piece.end == begin + 1;
        if (piece.keep) begin = piece.end;
      }
    }
    for (std::size_t s = 0; s < at.size(); ++s) {
      const auto length = static_cast<int>(prompts[static_cast<std::size_t>(schedule.sequences[s].prompt)].size());
      ASSERT_LE(at[s], length);
      rows += length;
    }
    EXPECT_GE(rows, 1500);
  }
  EXPECT_GT(company, 100);
  EXPECT_GT(single_rows, 100);
}

TEST(LawCheckTest, EveryInjectedFaultIsFound) {
  const auto prompts = make_prompts();
  for (const char* fault : {"skipped-write", "early-publication", "stale-hash", "leaked-reference"}) {
    auto runner = make_runner({.on_logits = nullptr}, fault);
    LawOptions options;
    options.seed = test_seed();
    const auto report = check_row_law(*runner, prompts, options);
    ASSERT_TRUE(report.ok()) << report.status().message();
    ASSERT_TRUE(report->difference.has_value()) << fault << ": SLUICE_TEST_SEED=" << options.seed;
    EXPECT_THAT(report->difference->text, HasSubstr("the smallest schedule found")) << fault;
  }
}

TEST(SchedulingLawTest, TheRealSchedulerGivesTheAnswersOfEachRequestAlone) {
  const auto prompts = make_prompts();
  auto runner = make_runner({.on_logits = nullptr});
  LawOptions options;
  options.seed = test_seed();
  options.schedules = 100;
  const auto report = check_scheduling_law(*runner, prompts, options);
  ASSERT_TRUE(report.ok()) << "SLUICE_TEST_SEED=" << options.seed << ": " << report.status().message();
  EXPECT_FALSE(report->difference.has_value()) << report->difference->text;
  for (const int count : {report->preemptions, report->swaps, report->forks, report->aborts,
                          static_cast<int>(report->resumed_tokens / 1000)}) {
    EXPECT_GT(count, 10);
  }
}

}  // namespace
}  // namespace sluice
