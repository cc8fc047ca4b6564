#include "sched/decode_turns.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "base/sanitizer_testing.h"
#include "base/test_seed_testing.h"

namespace sluice::decode_turns_test {
namespace {

// Serves the first n; returns their numbers.
std::vector<int> serve(DecodeTurns& turns, int n) {
  std::vector<int> served;
  for (int i = 0; i < n; ++i) served.push_back(turns[i].value);
  const std::set<int> chosen(served.begin(), served.end());
  turns.step([&chosen](SequenceId id) { return chosen.count(id.value) != 0; });
  return served;
}

using Served = std::vector<int>;

TEST(DecodeTurnsTest, AllAreDueWhenTheStepHoldsThem) {
  DecodeTurns turns(3);
  EXPECT_EQ(turns.due(), 0);
  for (int i = 0; i < 3; ++i) turns.add(SequenceId(i));
  for (int step = 0; step < 3; ++step) {
    EXPECT_EQ(turns.due(), 3);
    EXPECT_EQ(serve(turns, 3), (Served{0, 1, 2}));
  }
}

TEST(DecodeTurnsTest, FiveInStepsOfTwoLeaveARowToSpareInEveryRound) {
  DecodeTurns turns(2);
  for (int i = 0; i < 5; ++i) turns.add(SequenceId(i));
  int rows = 0;
  for (int step = 0; step < 30; ++step) {
    rows += turns.due();
    serve(turns, turns.due());
  }
  EXPECT_LE(rows, 51);  // out of 60
}

TEST(DecodeTurnsTest, AFullRoundHasNothingToSpare) {
  DecodeTurns turns(2);
  for (int i = 0; i < 4; ++i) turns.add(SequenceId(i));
  serve(turns, 2);
  for (int step = 0; step < 10; ++step) {
    EXPECT_EQ(turns.due(), 2);
    serve(turns, 2);
  }
}

TEST(DecodeTurnsTest, TheOneThatWaitedLongestGoesFirst) {
  DecodeTurns turns(2);
  for (int i = 0; i < 4; ++i) turns.add(SequenceId(i));
  EXPECT_EQ(serve(turns, 2), (Served{0, 1}));
  EXPECT_EQ(serve(turns, 2), (Served{2, 3}));
  EXPECT_EQ(serve(turns, 2), (Served{0, 1}));
  turns.remove(SequenceId(2));
  turns.add(SequenceId(9));
  EXPECT_EQ(serve(turns, 2), (Served{3, 0}));
}

TEST(DecodeTurnsTest, EverybodyIsServedWithinTheBoundOfItsLastTurn) {
  const unsigned first = test_seed();
  for (unsigned i = 0; i < random_cases(300U); ++i) {
    SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << first + i);
    std::mt19937 random(first + i);
    const auto below = [&random](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    const int per_step = 1 + below(7), crowd = 1 + below(40);
    DecodeTurns turns(per_step);
    std::map<int, int> deadlines;
    int next = 0;
    for (int now = 1; now < 300; ++now) {
      for (int n = below(4) == 0 ? below(9) : 0; n > 0 && turns.size() < crowd; --n) {
        turns.add(SequenceId(++next));
        deadlines[next] = now - 1 + (turns.size() + per_step - 1) / per_step;
      }
      for (int n = below(12) == 0 ? below(crowd) : below(2); n > 0 && turns.size() > 0; --n) {
        const SequenceId id = turns[below(turns.size())];
        turns.remove(id);
        deadlines.erase(id.value);
      }
      const int due = turns.due(), most = std::min(per_step, turns.size());
      ASSERT_LE(due, most);
      const int size = turns.size();
      for (const int id : serve(turns, below(3) == 0 ? due + below(most - due + 1) : due)) {
        ASSERT_GE(deadlines[id], now) << "too late";
        deadlines[id] = now + (size + per_step - 1) / per_step;
      }
      for (const auto& [id, deadline] : deadlines) ASSERT_GT(deadline, now) << "forgotten";
    }
  }
}

}  // namespace
}  // namespace sluice::decode_turns_test
