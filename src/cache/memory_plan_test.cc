#include "cache/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/test_seed_testing.h"
#include "cache/pages/free_set.h"
#include "cache/pages/page_geometry.h"

namespace sluice::memory_plan_test {
namespace {

using ::testing::HasSubstr;

RowFormat bytes_format(int bytes) {
  return {.codec = RowCodec::kF32, .dims = bytes / 4, .rope_dims = 0, .data_bytes = bytes, .scale_bytes = 0};
}

CacheLayout layout(int latent_bytes, int window_bytes, int open_bytes, int window_tokens = 128) {
  CacheLayout l;
  if (latent_bytes > 0) {
    l.add({.kind = PlaneKind::kLatent,
           .name = "latent",
           .tokens_per_row = 4,
           .format = bytes_format(latent_bytes),
           .initial = {}});
  }
  if (window_bytes > 0) {
    l.add({.kind = PlaneKind::kWindow,
           .name = "window",
           .window_tokens = window_tokens,
           .format = bytes_format(window_bytes),
           .initial = {}});
  }
  if (open_bytes > 0) {
    l.add({.kind = PlaneKind::kOpen,
           .name = "open",
           .format = {},
           .initial = std::vector<std::byte>(static_cast<std::size_t>(open_bytes))});
  }
  return l;
}

TEST(PageGeometryTest, CountsPagesOfSpans) {
  const PageGeometry g{.resume_pages = 1};
  EXPECT_EQ(g.steady_window_pages(), 2);
  EXPECT_EQ(g.window_pages(0, 1), 1);
  EXPECT_EQ(g.window_pages(0, 128), 1);
  EXPECT_EQ(g.window_pages(0, 129), 2);
  EXPECT_EQ(g.window_pages(127, 1), 1);
  EXPECT_EQ(g.window_pages(128, 1), 2);
  EXPECT_EQ(g.window_pages(255, 1), 2);  // it sees 128 to 255, but going back to 128 needs the page before
  EXPECT_EQ(g.window_pages(100, 4096), 33);
  EXPECT_EQ(g.latent_pages(0), 0);
  EXPECT_EQ(g.latent_pages(129), 2);
  EXPECT_EQ((PageGeometry{.resume_pages = 0}.steady_window_pages()), 1);
  EXPECT_EQ((PageGeometry{.resume_pages = 2}.steady_window_pages()), 3);
  EXPECT_EQ((PageGeometry{.resume_pages = 1, .has_windows = false}.steady_window_pages()), 0);
  EXPECT_EQ((PageGeometry{.resume_pages = 1, .has_latents = false}.latent_pages(129)), 0);
}

TEST(PageGeometryTest, ResumingNeedsTheWindowBehindTheBoundary) {
  const auto resume_pages = [](int window_tokens) {
    return PageGeometry::of(layout(100, 50, 10, window_tokens)).resume_pages;
  };
  EXPECT_EQ(resume_pages(1), 0);
  EXPECT_EQ(resume_pages(2), 1);
  EXPECT_EQ(resume_pages(128), 1);
  EXPECT_EQ(resume_pages(129), 1);
  EXPECT_EQ(resume_pages(130), 2);
  EXPECT_EQ(resume_pages(400), 4);
}

TEST(PageGeometryTest, BoundsHoldEverywhere) {
  for (const int window : {1, 2, 64, 127, 128, 129, 130, 256, 257, 1000}) {
    const PageGeometry g = PageGeometry::of(layout(100, 50, 10, window));
    for (Position p = 0; p < 1500; p += 1 + p / 50) {
      ASSERT_LE(g.first_window_block(p), std::max(0, p - window + 1) / kBlockTokens);  // all that the row can see
      ASSERT_LE(g.window_pages(p, 1), g.steady_window_pages());
      ASSERT_LE(blocks_for(p) - g.first_window_block(p), g.steady_window_pages());
      for (const int rows : {1, 2, 127, 128, 129, 130, 500}) {
        ASSERT_LE(g.window_pages(p, rows), g.steady_window_pages() + g.extra_window_pages(rows)) << window << " " << p;
      }
      for (int pages = 1; pages < 6; ++pages) {
        const int rows = g.rows_within(p, pages);
        if (rows > 0) {
          ASSERT_LE(g.window_pages(p, rows), pages);
        }
        ASSERT_GT(g.window_pages(p, rows + 1), pages);
      }
    }
  }
}

TEST(MemoryPlanTest, WithoutPrefixCachingGivesNoMoreThanSequencesCanUse) {
  const auto plan = plan_memory(layout(100, 50, 10), {std::size_t{1} << 40, 8, 512, 4096, false});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->sequences, 8);
  EXPECT_EQ(plan->latent_pages, 8 * 32 + 1);
  EXPECT_EQ(plan->window_pages, 8 * 2 + 4 + 1);
}

TEST(MemoryPlanTest, FewerSequencesWhereTheBudgetIsSmall) {
  // A window page has 6,400 bytes, a latent page 3,200.
  const CacheLayout l = layout(100, 50, 10);
  const auto plan = plan_memory(l, {400'000, 64, 512, 100'000, false});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->sequences, 5);  // 5 * (2 * 6,400 + 16 * 3,200) + 5 * 6,400 are 352,000; more would cut the longest
  EXPECT_EQ(plan->window_pages, 5 * 2 + 4 + 1);
  EXPECT_GE(plan->latent_pages, 5 * 16);
  const auto shorter = plan_memory(l, {400'000, 64, 512, 4096, false});
  EXPECT_EQ(shorter->sequences, 18);  // two pages of each remain, and the self-test's: more than 4,096 tokens have
  EXPECT_GE(shorter->latent_pages, 37);
}

TEST(MemoryPlanTest, SequencesThatNeedPagesAloneAreAsManyAsHaveTwo) {
  const CacheLayout l = layout(100, 0, 0);
  EXPECT_EQ(plan_memory(l, {2'000'000, 256, 512, 1152, false})->sequences, 256);
  EXPECT_EQ(plan_memory(l, {500'000, 256, 512, 1152, false})->sequences, 76);  // two pages each, and the self-test's
  EXPECT_EQ(plan_memory(l, {40'000, 256, 512, 1152, false})->sequences, 5);
  EXPECT_EQ(plan_memory(l, {20'000, 256, 512, 1152, false})->sequences, 1);  // fewer than nine pages
}

TEST(MemoryPlanTest, PrefixCachingGetsTheRestAndAWindowPageForEverySixteenBlocks) {
  const CacheLayout l = layout(100, 50, 10);
  const MemoryRequest request{100'000'000, 8, 512, 4096, true};
  const auto plan = plan_memory(l, request);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->sequences, 8);
  const int cached_windows = plan->window_pages - (8 * 2 + 4 + 1);
  EXPECT_GT(plan->latent_pages, 8 * 32 + 1);
  EXPECT_NEAR(plan->latent_pages, cached_windows * 16, 32);
  EXPECT_GT(plan->total_bytes(), request.budget_bytes - 60'000);  // all of it but less than one group of pages
  EXPECT_EQ(plan->total_bytes(), plan->latent_bytes + plan->window_bytes + plan->open_bytes);
  EXPECT_EQ(plan->window_bytes, static_cast<std::size_t>(plan->window_pages) * l.window_page_bytes());
}

TEST(MemoryPlanTest, PrefixCachingWithoutAWindowPoolGivesAllToTheLatents) {
  const auto plan = plan_memory(layout(100, 0, 0), {10'000'000, 8, 512, 4096, true});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->window_pages, 0);
  EXPECT_EQ(plan->latent_pages, (10'000'000 - 4096 - 64) / 3200);
}

TEST(MemoryPlanTest, PrefixCachingWithoutALatentPoolGivesAllToTheWindows) {
  const auto plan = plan_memory(layout(0, 50, 0), {10'000'000, 8, 512, 4096, true});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->latent_pages, 0);
  EXPECT_EQ(plan->window_pages, (10'000'000 - 4096 - 64) / 6400);
}

TEST(MemoryPlanTest, NoPoolHasMorePagesThanCanBeCounted) {
  const auto plan = plan_memory(layout(100, 50, 10), {std::size_t{1} << 40, 8, 512, 4096, true});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->latent_pages, FreeSet::kMaxSize);
  EXPECT_LE(plan->window_pages, FreeSet::kMaxSize);
}

TEST(MemoryPlanTest, TooSmallABudgetIsRefusedWithTheLeastThatWorks) {
  const CacheLayout l = layout(100, 50, 10);
  const auto refused = plan_memory(l, {1000, 4, 512, 4096});
  EXPECT_THAT(refused.status().message(), HasSubstr("--kv-cache-memory: expected at least 30"));
  std::size_t low = 1000, high = 1 << 20;
  while (high - low > 1) {
    const std::size_t middle = (low + high) / 2;
    (plan_memory(l, {middle, 4, 512, 4096}).ok() ? high : low) = middle;
  }
  EXPECT_THAT(refused.status().message(), HasSubstr(std::to_string(high) + " bytes"));
  const auto least = plan_memory(l, {high, 4, 512, 4096});
  EXPECT_EQ(least->sequences, 1);
  EXPECT_EQ(least->window_pages, 3);
  EXPECT_EQ(least->latent_pages, 2);
}

TEST(MemoryPlanTest, WindowsOfALongStepTakeAtMostHalfOfASmallBudget) {
  // A window page has 6,400 bytes, a latent page 3,200; the sequence's own windows and the self-test's are three.
  const auto plan = plan_memory(layout(100, 50, 10), {60'000, 4, 5000, 100'000, false});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->sequences, 1);
  EXPECT_EQ(plan->window_pages, 4);
  EXPECT_EQ(plan->latent_pages, 9);
}

TEST(MemoryPlanTest, NeverExceedsTheBudget) {
  const unsigned seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  const auto below = [&](unsigned n) { return static_cast<int>(random() % n); };
  int planned = 0;
  for (int i = 0; i < 3000; ++i) {
    const CacheLayout l = layout(4 * below(50), 4 * below(50), below(3000), 1 + below(400));
    const MemoryRequest request{random() % (std::size_t{1} << (14 + below(12))),
                                1 + below(100),
                                1 + below(5000),
                                1 + below(70000),
                                below(2) == 0,
                                below(9)};
    const auto plan = plan_memory(l, request);
    if (!plan.ok()) continue;
    ++planned;
    ASSERT_LE(plan->total_bytes(), request.budget_bytes);
    ASSERT_GE(plan->sequences, 1);
    ASSERT_LE(plan->sequences, request.max_seqs);
    ASSERT_EQ(plan->open_states, 2 + request.draft_tokens);
    const auto states = static_cast<std::size_t>((plan->sequences + 1) * plan->open_states);
    ASSERT_EQ(plan->open_bytes, states * l.open_bytes());
    const PageGeometry g = PageGeometry::of(l);
    if (g.has_windows) {
      ASSERT_GE(plan->window_pages, plan->sequences * g.steady_window_pages() + 1);
    }
    if (g.has_latents) {
      ASSERT_GE(plan->latent_pages, 2);
    }
  }
  EXPECT_GT(planned, 1000);
}

}  // namespace
}  // namespace sluice::memory_plan_test
