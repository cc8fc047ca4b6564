#include "cache/pages/free_set.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "base/test_seed_testing.h"

namespace sluice::free_set_test {
namespace {

TEST(FreeSetTest, IsASetThatKnowsItsLowestMember) {
  const unsigned seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  for (const int size : {0, 1, 63, 64, 65, 4096, 4097, 300000}) {
    FreeSet set(size);
    std::set<int> expected;
    for (int i = 0; i < size; ++i) expected.insert(expected.end(), i);
    for (int i = 0; i < 3000 && size > 0; ++i) {
      // Runs of the lowest ones empty whole words; the others come from anywhere.
      const int member = i % 3 == 0 ? static_cast<int>(random() % static_cast<unsigned>(size)) : set.lowest();
      if (member < 0) continue;
      ASSERT_EQ(set.contains(member), expected.count(member) == 1);
      if (set.contains(member)) {
        set.erase(member);
        expected.erase(member);
      } else {
        set.insert(member);
        expected.insert(member);
      }
      ASSERT_EQ(set.lowest(), expected.empty() ? -1 : *expected.begin());
      ASSERT_EQ(set.count(), static_cast<int>(expected.size()));
    }
    if (size == 0) {
      EXPECT_EQ(set.lowest(), -1);
    }
  }
}

TEST(FreeSetDeathTest, NothingIsFreedOrTakenTwice) {
  FreeSet set(2);
  EXPECT_DEATH(set.insert(1), "freed twice");
  set.erase(1);
  EXPECT_DEATH(set.erase(1), "taken that is not free");
}

}  // namespace
}  // namespace sluice::free_set_test
