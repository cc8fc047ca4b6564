#include "engine/law_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/test_seed_testing.h"
#include "engine/fake_model_testing.h"
#include "engine/law_schedule.h"

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

std::unique_ptr<Runner> make_runner(const FakeModel::Settings& settings) {
  EngineOptions options;
  options.threads = 1;
  options.max_num_seqs = 8;
  options.max_num_batched_tokens = 1024;
  options.kv_cache_memory = 8 << 20;
  return Runner::create(std::make_unique<FakeModel>(settings), nullptr, options).value();
}

TEST(LawCheckTest, TheRowLawHoldsOnRandomSchedules) {
  const auto prompts = make_prompts();
  for (const int window : {1, 128, 130, 300}) {
    auto runner = make_runner({.window_tokens = window, .on_logits = nullptr});
    const LawOptions options{.seed = test_seed(), .schedules = 150, .progress = nullptr};
    const auto report = check_row_law(*runner, prompts, options);
    ASSERT_TRUE(report.ok()) << "SLUICE_TEST_SEED=" << options.seed << ": " << report.status().message();
    EXPECT_FALSE(report->difference.has_value()) << report->difference->text;
    EXPECT_EQ(report->schedules, 150);
    EXPECT_GT(report->comparisons, 20000);
    EXPECT_EQ(runner->pools().bytes_used(), 0U);
  }
}

TEST(LawCheckTest, AFaultIsFoundAndShrunk) {
  auto runner = make_runner({.forgetful_rows = 3, .on_logits = nullptr});
  const auto prompts = make_prompts();
  const auto report = check_row_law(*runner, prompts, {.seed = 5, .schedules = 100, .progress = nullptr});
  ASSERT_TRUE(report.ok()) << report.status().message();
  ASSERT_TRUE(report->difference.has_value());
  const std::string& text = report->difference->text;
  EXPECT_THAT(text, HasSubstr("seed 5 schedule"));
  // One sequence is left, whose piece of three rows is followed by one other piece.
  EXPECT_THAT(text, HasSubstr(" 3 rows;\n"));
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 4) << text;
  EXPECT_EQ(runner->pools().bytes_used(), 0U);
  // The schedule runs again from its number alone.
  const auto again =
      check_row_law(*runner, prompts,
                    {.seed = 5, .first_schedule = report->difference->schedule, .schedules = 1, .progress = nullptr});
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->difference->text, text);
}

TEST(LawCheckTest, SchedulesAreValidAndVaried) {
  const auto prompts = make_prompts();
  const LawOptions options{.seed = 9, .progress = nullptr};
  int alone = 0, company = 0, forgotten = 0, closed_early = 0, single_rows = 0;
  for (int i = 0; i < 200; ++i) {
    const LawSchedule schedule = make_law_schedule(prompts, options, i);
    std::vector<int> rows(schedule.prompts.size());
    for (const LawStep& step : schedule.steps) {
      (step.pieces.size() == 1 ? alone : company)++;
      for (const LawPiece& piece : step.pieces) {
        ASSERT_GE(piece.rows, 1);
        forgotten += !piece.keep;
        single_rows += piece.rows == 1;
        if (piece.keep) rows[static_cast<std::size_t>(piece.sequence)] += piece.rows;
      }
    }
    for (std::size_t s = 0; s < rows.size(); ++s) {
      const auto length = static_cast<int>(prompts[static_cast<std::size_t>(schedule.prompts[s])].size());
      ASSERT_GE(rows[s], 1);
      ASSERT_LE(rows[s], length);
      closed_early += rows[s] < length;
    }
  }
  for (const int count : {alone, company, forgotten, closed_early, single_rows}) EXPECT_GT(count, 30);
}

}  // namespace
}  // namespace sluice
