#include "verify/law_check.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>

#include "base/sanitizer_testing.h"
#include "base/test_seed_testing.h"
#include "engine/fake_model_testing.h"
#include "verify/law_requests.h"
#include "verify/law_schedule.h"
#include "verify/verify.h"

namespace sluice::law_check_test {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::vector<TokenId>> make_prompts() {
  std::mt19937 random(1);
  std::vector<std::vector<TokenId>> prompts;
  for (const int n : {1, 3, 4, 5, 127, 128, 129, 256, 300, 720}) {
    auto& prompt = prompts.emplace_back(static_cast<std::size_t>(n));
    for (TokenId& id : prompt) id = static_cast<TokenId>(random() % 64);
  }
  for (const int common : {257, 131}) {  // then they part
    auto& prompt = prompts.emplace_back(prompts[8]);
    prompt.resize(290);
    for (auto id = prompt.begin() + common; id != prompt.end(); ++id) *id = (*id + 1) % 64;
  }
  return prompts;
}

std::unique_ptr<Runner> make_runner(const FakeModel::Settings& settings, const char* fault = "") {
  EngineSetup options;
  options.machine.threads = 1;
  options.scheduler.max_num_seqs = 8;
  options.scheduler.max_num_batched_tokens = 1024;
  options.cache.kv_cache_memory = 8 << 20;
  options.cache.swap_space = 64 << 20;
  options.audit = true;
  options.speculation = {
      .speculative = Speculative::kNgram, .num_speculative_tokens = kMostDrafts, .speculative_adaptive = true};
  options.testing.inject_fault = fault;
  FakeModel::Settings with_experts = settings;
  with_experts.experts = 8;
  return Runner::create(std::make_unique<FakeModel>(std::move(with_experts)), nullptr, options).value();
}

using Check = Result<LawReport> (*)(Runner&, std::span<const std::vector<TokenId>>, const LawOptions&);

struct Half {
  const char* name;
  Check check;
  std::vector<std::string> never;  // counts of what only the other half does
};

const Half kRows{"rows", check_row_law, {std::begin(kOfSchedulingOnly), std::end(kOfSchedulingOnly)}};
const Half kScheduling{"scheduling", check_scheduling_law, {std::begin(kOfRowsOnly), std::end(kOfRowsOnly)}};

void expect_all_counts_above(std::int64_t least, const LawReport& report, const Half& half) {
  for (const LawCount& count : kLawCounts) {
    const bool never = std::find(half.never.begin(), half.never.end(), count.name) != half.never.end();
    if (never) continue;
    EXPECT_GT(report.*count.value, least) << half.name << ": " << count.name;
  }
  EXPECT_THAT(report.thread_counts, ElementsAre(1, 2, 4)) << half.name;
}

TEST(LawCheckTest, TheRowLawHoldsOnRandomSchedules) {
  const auto prompts = make_prompts();
  for (const int window : {1, 128, 130, 300}) {
    auto runner = make_runner({.window_tokens = window, .on_logits = nullptr});
    LawOptions options;
    options.seed = test_seed();
    options.schedules = kSanitized ? kLawSituations : 40;
    options.chooses_from = 300;
    const auto report = check_row_law(*runner, prompts, options);
    ASSERT_TRUE(report.ok()) << "SLUICE_TEST_SEED=" << options.seed << ": " << report.status().message();
    EXPECT_FALSE(report->difference.has_value()) << report->difference->text;
    EXPECT_EQ(report->schedules, options.schedules);
    EXPECT_GT(report->comparisons, 750 * options.schedules);
    expect_all_counts_above(kSanitized ? 0 : 2, *report, kRows);
    EXPECT_EQ(runner->cache().pools().bytes_used(), 0U);
  }
}

TEST(SchedulingLawTest, TheRealSchedulerGivesTheAnswersOfEachRequestAlone) {
  const auto prompts = make_prompts();
  auto runner = make_runner({.on_logits = nullptr});
  LawOptions options;
  options.seed = test_seed();
  options.schedules = random_cases(100);
  options.chooses_from = 300;
  const auto report = check_scheduling_law(*runner, prompts, options);
  ASSERT_TRUE(report.ok()) << "SLUICE_TEST_SEED=" << options.seed << ": " << report.status().message();
  EXPECT_FALSE(report->difference.has_value()) << report->difference->text;
  if (kSanitized) return expect_all_counts_above(0, *report, kScheduling);
  expect_all_counts_above(10, *report, kScheduling);
  EXPECT_GT(report->ruled, 100) << "tokens with penalties, biases and bans";
  EXPECT_GT(report->scored, 1000) << "tokens of prompts";
  EXPECT_GT(report->scored_answers, 20) << "tokens of answers, scored behind their prompt";
  EXPECT_GT(report->constrained, 500) << "tokens that a grammar allowed";
  // Few answers have many of these: a draw has 1,600 +- 500 and 800 +- 280 of them.
  EXPECT_GT(report->budgeted, 50) << "tokens of answers whose reasoning has a budget";
  EXPECT_GT(report->forced, 10) << "tokens that were the only ones allowed";
  EXPECT_GT(report->exported_experts, 1000) << "positions";
}

// The scheduling half compares the logits of every draw: logits that are wrong only in company are found by that,
// whatever else would notice it later.
TEST(SchedulingLawTest, LogitsThatDependOnTheCompanyAreFound) {
  const auto prompts = make_prompts();
  bool company = false;
  auto runner = make_runner({.on_step = [&](const StepTables& step) { company = step.spans.size() > 1; },
                             .on_logits =
                                 [&](TokenId, Position, float* logits) {
                                   if (company) logits[0] += 0x1p-21F;
                                 }});
  LawOptions options;
  options.seed = test_seed();
  options.schedules = 1;
  options.shrink = false;
  int by_logits = 0;  // elsewhere a score or an observer differs first
  for (int i = 0; i < 2 * kLawSituations; ++i, ++options.first_schedule) {
    const auto report = check_scheduling_law(*runner, prompts, options);
    ASSERT_TRUE(report.ok()) << "SLUICE_TEST_SEED=" << options.seed;
    if (report->difference) by_logits += report->difference->text.find(", alone ") != std::string::npos;
  }
  EXPECT_GT(by_logits, 0) << "SLUICE_TEST_SEED=" << options.seed;
}

// Every situation comes by construction, not by chance, in any kLawSituations consecutive schedules. SLUICE_LAW_RUNS:
// the number of seeds.
TEST(LawCheckTest, AFewSchedulesHaveEverySituation) {
  const auto prompts = make_prompts();
  const char* given = std::getenv("SLUICE_LAW_RUNS");
  const int runs = given != nullptr ? std::atoi(given) : random_cases(10);
  for (const Half& half : {kRows, kScheduling}) {
    auto runner = make_runner({.on_logits = nullptr});
    LawOptions options;
    options.seed = test_seed();
    options.chooses_from = 200;
    std::vector<std::string> missing;
    for (int i = 0; i < runs; ++i, ++options.seed) {
      SCOPED_TRACE(::testing::Message() << "SLUICE_TEST_SEED=" << options.seed);
      options.first_schedule = i * (kLawSituations + 1);
      options.schedules = kLawSituations;
      const auto report = half.check(*runner, prompts, options);
      ASSERT_TRUE(report.ok()) << report.status().message();
      ASSERT_FALSE(report->difference.has_value()) << report->difference->text;
      for (const LawCount& count : kLawCounts) {
        if ((*report).*count.value > 0 || std::ranges::find(half.never, count.name) != half.never.end()) continue;
        missing.push_back(fmt::format("{} of seed {} from {} on", count.name, options.seed, options.first_schedule));
      }
      EXPECT_THAT(report->thread_counts, ElementsAre(1, 2, 4));
    }
    EXPECT_THAT(missing, ::testing::IsEmpty()) << half.name;
  }
}

// Four brief schedules are not certain to have evictions: their few sequences may leave too few pages.
TEST(LawCheckTest, BriefSchedulesHaveEverySituationToo) {
  const auto prompts = brief_law_prompts(64);
  for (const Half& half : {kRows, kScheduling}) {
    auto runner = make_runner({.on_logits = nullptr});
    LawOptions options;
    make_brief(&options);
    options.seed = test_seed();
    options.chooses_from = 200;
    options.schedules = random_cases(10) * kLawSituations;
    const auto report = half.check(*runner, prompts, options);
    ASSERT_TRUE(report.ok()) << "SLUICE_TEST_SEED=" << options.seed << ": " << report.status().message();
    EXPECT_FALSE(report->difference.has_value()) << report->difference->text;
    EXPECT_NE(report->digest, 0U);
    if (!kSanitized) expect_all_counts_above(0, *report, half);
  }
}

TEST(LawCheckTest, ABudgetOfTimeStillHasEverySituation) {
  const auto prompts = make_prompts();
  for (const Half& half : {kRows, kScheduling}) {
    auto runner = make_runner({.on_logits = nullptr});
    LawOptions options;
    options.seed = test_seed();
    options.seconds = 1e-9;
    EXPECT_EQ(half.check(*runner, prompts, options)->schedules, kLawSituations);
    options.seconds = 1e9;
    options.schedules = 6;
    EXPECT_EQ(half.check(*runner, prompts, options)->schedules, 6);
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
  EXPECT_EQ(runner->cache().pools().bytes_used(), 0U);
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

struct InjectedFault {
  const char* name;
  const char* seen_by_rows;        // in the text of the difference; null: not at all
  const char* seen_by_scheduling;  // likewise
  const char* or_seen = nullptr;   // by either, if that comes first
};

// The check that finds a fault is part of the test: comparing logits, the audit between two steps, the names of blocks.
constexpr InjectedFault kInjected[] = {
    {"skipped-write", "are not those of the prompt alone", ", alone ", "is not that of it alone"},
    {"early-insertion", "is inserted, but only", "is inserted, but only"},
    {"stale-hash", "audit: ", "audit: ", ", alone "},
    {"leaked-reference", "owners but its count says", "owners but its count says"},
    {"ignored-salt", nullptr, "other of its salt has more than 0 in common"},
};

TEST(LawCheckTest, EitherHalfFindsEveryInjectedFault) {
  constexpr int kFew = 5 * kLawSituations;  // twice and more what the worst of many seeds needed
  const auto prompts = make_prompts();
  for (const InjectedFault& fault : kInjected) {
    for (const Half& half : {kRows, kScheduling}) {
      const char* seen = half.check == check_row_law ? fault.seen_by_rows : fault.seen_by_scheduling;
      auto runner = make_runner({.on_logits = nullptr}, fault.name);
      LawOptions options;
      options.seed = test_seed();
      options.schedules = kFew;
      const auto report = half.check(*runner, prompts, options);
      const std::string what = fmt::format("{}, {}: SLUICE_TEST_SEED={}", fault.name, half.name, options.seed);
      ASSERT_TRUE(report.ok()) << what << report.status().message();
      ASSERT_EQ(report->difference.has_value(), seen != nullptr) << what;
      if (seen == nullptr) continue;
      fmt::print("{}: schedule {}\n", what, report->schedules);
      // A skipped write may happen when the block is computed again.
      const auto again = HasSubstr("with other bytes than");
      const auto first = HasSubstr(fault.or_seen != nullptr ? fault.or_seen : seen);
      EXPECT_THAT(report->difference->text, AnyOf(HasSubstr(seen), again, first)) << what;
      EXPECT_THAT(report->difference->text, HasSubstr("the smallest ")) << what;
    }
  }
}

TEST(LawCheckTest, SwapSpaceLeftBehindIsADifference) {
  const auto prompts = make_prompts();
  for (const Half& half : {kRows, kScheduling}) {
    auto runner = make_runner({.on_logits = nullptr});
    ASSERT_TRUE(runner->cache().swap_space().store(std::vector<std::byte>(100)).ok());
    LawOptions options;
    options.schedules = 1;
    const auto report = half.check(*runner, prompts, options);
    ASSERT_TRUE(report.ok() && report->difference.has_value()) << half.name;
    EXPECT_THAT(report->difference->text, HasSubstr("swap space"));
  }
}

// With few rows compared, those that close an entry are among them.
TEST(LawCheckTest, RowsThatCloseEntriesAreAlwaysCompared) {
  const auto prompts = make_prompts();
  for (const int wrong : {3, 19, 127}) {
    bool company = false;
    auto runner = make_runner({.on_step = [&](const StepTables& step) { company = step.spans.size() > 1; },
                               .on_logits =
                                   [&](TokenId, Position p, float* logits) {
                                     if (company && p % 128 == wrong) logits[0] += 1.0F;
                                   }});
    LawOptions options;
    options.seed = test_seed();
    options.every_row = false;
    const auto report = check_row_law(*runner, prompts, options);
    ASSERT_TRUE(report.ok() && report->difference.has_value()) << wrong << ": SLUICE_TEST_SEED=" << options.seed;
    EXPECT_EQ(report->difference->position % 128, wrong);
  }
}

TEST(LawCheckTest, ALongPromptIsForEveryEighthSchedule) {
  auto prompts = make_prompts();
  prompts.emplace_back(3000, 1);
  const int last = static_cast<int>(prompts.size()) - 1;
  LawOptions options;
  options.seed = test_seed();
  options.long_prompts = 1;
  const auto has_it = [&](const auto& list) {
    return std::any_of(list.begin(), list.end(), [&](const auto& item) { return item.prompt == last; });
  };
  for (int number = 0; number < 3 * kLongPromptEvery; ++number) {
    EXPECT_EQ(has_it(make_law_schedule(prompts, options, number).sequences), number % kLongPromptEvery == 3) << number;
    EXPECT_EQ(has_it(make_workload(prompts, options, 1000, number).requests), number % kLongPromptEvery == 3) << number;
  }
  options.first_schedule = 3;
  options.schedules = 1;
  options.chooses_from = 1000;
  for (const Half& half : {kRows, kScheduling}) {
    auto runner = make_runner({.on_logits = nullptr});
    const auto report = half.check(*runner, prompts, options);
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_FALSE(report->difference.has_value()) << report->difference->text;
    EXPECT_GT(report->choosing_rows, 0) << half.name << ": SLUICE_TEST_SEED=" << options.seed;
  }
}

TEST(VerifyTest, PromptsBeginAlikeAndPart) {
  const auto prompts = law_prompts(64);
  std::vector<int> common;
  for (std::size_t i = 12; i < prompts.size(); ++i) {
    int most = 0;
    for (std::size_t j = 0; j < 12; ++j) most = std::max(most, common_tokens(prompts[i], prompts[j]));
    common.push_back(most);
  }
  EXPECT_THAT(common, ElementsAre(400, 250, 131));
}

TEST(VerifyTest, ALongPromptMakesTheIndexerChoose) {
  const auto layout = [](int most_read, int tokens_per_row) {
    CacheLayout layout;
    PlaneSpec latent;
    latent.kind = PlaneKind::kLatent;
    latent.tokens_per_row = tokens_per_row;
    latent.most_read = most_read;
    layout.add(std::move(latent));
    return layout;
  };
  EXPECT_EQ(chooses_from(layout(0, 4)), 0);
  EXPECT_EQ(long_prompt_tokens(layout(0, 4)), 0);
  EXPECT_EQ(chooses_from(layout(64, 4)), 259);  // 65 entries: the shorter prompts are long enough
  EXPECT_EQ(long_prompt_tokens(layout(64, 4)), 0);
  EXPECT_EQ(chooses_from(layout(512, 4)), 2051);
  EXPECT_EQ(chooses_from(layout(2048, 1)), 2048);
  for (const auto& [most_read, tokens_per_row] : {std::pair(512, 4), {1024, 4}, {2048, 1}}) {
    const CacheLayout choosing = layout(most_read, tokens_per_row);
    const int tokens = long_prompt_tokens(choosing);
    EXPECT_GT(tokens, chooses_from(choosing) + 200);
    EXPECT_EQ(law_prompts(64, tokens).back().size(), static_cast<std::size_t>(tokens));
    EXPECT_GT(law_options({}, choosing)->model.max_model_len, tokens + 100);
  }
  EXPECT_EQ(long_prompt_tokens(layout(4096, 4)), 0);  // 16,387 tokens: too many
}

}  // namespace
}  // namespace sluice::law_check_test
