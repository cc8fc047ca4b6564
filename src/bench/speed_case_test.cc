#include "bench/speed_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

// Steps of one row and `drafts` more, as a bench of that many tokens makes them.
int steps_for(int tokens, double acceptance, int drafts) {
  int steps = 0;
  for (int done = 0; done < tokens; ++steps) {
    done += 1 + right_drafts(acceptance, done, std::min(drafts, tokens - done - 1));
  }
  return steps;
}

// A bench of few tokens has the steps that its acceptance means, not more or less of them by chance.
TEST(SpeedCase, TheShareOfRightDraftsIsTheOneAskedFor) {
  for (const double acceptance : {0.1, 0.5, 0.75, 0.8, 0.9, 0.97}) {
    int right = 0;
    for (int token = 0; token < 400; ++token) right += right_drafts(acceptance, token, 1);
    EXPECT_EQ(right, std::lround(400 * acceptance)) << acceptance;
    EXPECT_NEAR(steps_for(60, acceptance, 1) * (1 + acceptance) / 60, 1, 0.07) << acceptance;
    const double of_two = 1 + acceptance + acceptance * acceptance;
    EXPECT_NEAR(steps_for(400, acceptance, 2) * of_two / 400, 1, 0.07) << acceptance;
  }
  EXPECT_EQ(steps_for(48, 0, 3), 48);
  EXPECT_EQ(steps_for(48, 1, 3), 12);
}

}  // namespace
}  // namespace sluice
