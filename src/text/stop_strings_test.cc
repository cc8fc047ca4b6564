#include "text/stop_strings.h"

#include <gtest/gtest.h>

#include <random>

#include "base/sanitizer_testing.h"
#include "base/test_seed_testing.h"

namespace sluice::stop_strings_test {
namespace {

// By definition: the first end of any stop string, and of those that end there the longest.
std::string cut(const std::string& text, const std::vector<std::string>& stops) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::size_t longest = 0;
    for (const std::string& stop : stops) {
      if (!stop.empty() && end >= stop.size() && text.compare(end - stop.size(), stop.size(), stop) == 0) {
        longest = std::max(longest, stop.size());
      }
    }
    if (longest > 0) return text.substr(0, end - longest);
  }
  return text;
}

TEST(StopMatcherTest, StopsAcrossPieces) {
  StopMatcher matcher({"END"});
  EXPECT_EQ(matcher.push("abc E"), "abc ");
  EXPECT_EQ(matcher.push("N"), "");
  EXPECT_FALSE(matcher.stopped());
  EXPECT_EQ(matcher.push("D and more"), "");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.push("more"), "");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcherTest, TheStopMayBePartOfTheText) {
  StopMatcher matcher({"END", "N"}, /*shows_stop=*/true);
  EXPECT_EQ(matcher.push("abc E"), "abc ");
  EXPECT_EQ(matcher.push("ND and more"), "EN") << "the one that is completed first";
  EXPECT_TRUE(matcher.stopped());
  StopMatcher cut({"END"}, /*shows_stop=*/true);
  EXPECT_EQ(cut.push("abc EN"), "abc ");
  EXPECT_EQ(cut.push("D and more"), "END");
  EXPECT_EQ(cut.push("more") + cut.finish(), "");
}

TEST(StopMatcherTest, ReleasesWhatWasNoStop) {
  StopMatcher matcher({"END"});
  EXPECT_EQ(matcher.push("EN"), "");
  EXPECT_EQ(matcher.push("TER E"), "ENTER ");
  EXPECT_EQ(matcher.finish(), "E");
}

TEST(StopMatcherTest, WithoutStopsEverythingPasses) {
  StopMatcher matcher({""});
  EXPECT_EQ(matcher.push("abc"), "abc");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcherTest, RandomTextsAndCuts) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  const auto draw = [&](std::size_t most) {
    std::string text(random() % (most + 1), ' ');
    for (char& c : text) c = static_cast<char>('a' + random() % 2);
    return text;
  };
  for (int round = 0; round < random_cases(20000); ++round) {
    std::vector<std::string> stops(random() % 4);
    for (std::string& stop : stops) stop = draw(9);
    // Mostly beginnings of stop strings, so that near misses are common.
    std::string text = draw(4);
    for (const std::string& stop : stops) {
      for (int i = 0; i < 4; ++i) text += stop.substr(0, random() % (stop.size() + 1));
    }
    StopMatcher matcher(stops);
    std::string shown;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t length = 1 + random() % 5;
      shown += matcher.push(std::string_view(text).substr(at, length));
      at += length;
    }
    if (!matcher.stopped()) shown += matcher.finish();
    ASSERT_EQ(shown, cut(text, stops)) << "text " << text << ", stops " << ::testing::PrintToString(stops);
  }
}

}  // namespace
}  // namespace sluice::stop_strings_test
