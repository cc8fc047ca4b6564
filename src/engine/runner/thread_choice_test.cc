#include "engine/runner/thread_choice.h"

#include <gmock/gmock.h>

namespace sluice::thread_choice_test {
namespace {

using ::testing::ElementsAre;

TEST(ThreadChoice, TriesProcessorsCoresAndParts) {
  EXPECT_THAT(thread_candidates(1, 1), ElementsAre(1));
  EXPECT_THAT(thread_candidates(2, 1), ElementsAre(2));
  EXPECT_THAT(thread_candidates(4, 4), ElementsAre(4, 2));
  EXPECT_THAT(thread_candidates(16, 16), ElementsAre(16, 8, 4));
  EXPECT_THAT(thread_candidates(16, 8), ElementsAre(16, 8, 4));
  EXPECT_THAT(thread_candidates(12, 8), ElementsAre(12, 8, 6, 3));
  EXPECT_THAT(thread_candidates(16, 2), ElementsAre(16, 8, 4, 2)) << "eight processors a core";
  EXPECT_THAT(thread_candidates(32, 8), ElementsAre(32, 16, 8));
}

TEST(ThreadChoice, TakesTheMostThatAreNotSlower) {
  EXPECT_EQ(best_threads(std::vector<TimedThreads>{{16, 1.02}, {8, 1.0}, {4, 1.5}}), 16);
  EXPECT_EQ(best_threads(std::vector<TimedThreads>{{16, 1.1}, {8, 1.0}, {4, 0.99}}), 8);
  EXPECT_EQ(best_threads(std::vector<TimedThreads>{{4, 1.0}, {8, 1.2}}), 4);
}

TEST(ThreadChoice, SaysWhatItTookAndWhatItTried) {
  EXPECT_EQ(thread_text(std::vector<TimedThreads>{{16, 0.0121}, {8, 0.011}, {4, 0.02}}, 8),
            "8 threads: 11.00 ms a token (16: 12.10, 4: 20.00)");
}

}  // namespace
}  // namespace sluice::thread_choice_test
