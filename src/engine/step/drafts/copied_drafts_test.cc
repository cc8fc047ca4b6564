#include "engine/step/drafts/copied_drafts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/test_seed_testing.h"

namespace sluice::copied_drafts_test {
namespace {

using ::testing::ElementsAre;

CopiedDrafts of(std::vector<TokenId> tokens, std::vector<TokenId> prediction = {}) {
  CopiedDrafts drafts;
  drafts.predict(prediction);
  drafts.append(tokens);
  return drafts;
}

std::vector<TokenId> copied(const CopiedDrafts& drafts, const CopiedDrafts::Match& match, std::size_t n) {
  std::vector<TokenId> to(n);
  to.resize(static_cast<std::size_t>(drafts.copy(match, to)));
  return to;
}

TEST(CopiedDraftsTest, GoesOnAsTheTextDidBehindTheLongestMatch) {
  const CopiedDrafts drafts = of({1, 2, 3, 4, 5, 2, 3, 9, 1, 2, 3});
  const CopiedDrafts::Match match = drafts.find();
  EXPECT_EQ(match.length, 3);  // 1 2 3, not the later 2 3
  EXPECT_THAT(copied(drafts, match, 3), ElementsAre(4, 5, 2));
}

TEST(CopiedDraftsTest, OfEqualMatchesTakesTheLatest) {
  const CopiedDrafts drafts = of({7, 1, 2, 3, 8, 1, 2, 4, 9, 1, 2});
  EXPECT_EQ(drafts.find().length, 2);
  EXPECT_THAT(copied(drafts, drafts.find(), 1), ElementsAre(4));
}

// Drafts are a function of the tokens, not of how many came at a time.
TEST(CopiedDraftsTest, PiecesAreAsTheWhole) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  const auto random_text = [&](std::size_t n) {
    std::vector<TokenId> text(n);
    for (TokenId& id : text) id = static_cast<TokenId>(random() % 6);
    return text;
  };
  for (const std::size_t predicted : {0, 40}) {
    const std::vector<TokenId> prediction = random_text(predicted), text = random_text(400);
    CopiedDrafts pieces;
    pieces.predict(prediction);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t n = std::min<std::size_t>(1 + random() % 5, text.size() - at);
      pieces.append(std::span(text).subspan(at, n));
      at += n;
      const CopiedDrafts whole = of({text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at)}, prediction);
      ASSERT_EQ(pieces.find().length, whole.find().length) << at;
      ASSERT_EQ(pieces.find().at, whole.find().at) << at;
    }
  }
}

TEST(CopiedDraftsTest, OneTokenIsNoMatch) {
  EXPECT_EQ(of({1, 2, 3, 2}).find().length, 0);
  EXPECT_EQ(of({}).find().length, 0);
  EXPECT_EQ(of({1}).find().length, 0);
}

TEST(CopiedDraftsTest, ContinuesARepetition) {
  const CopiedDrafts drafts = of({5, 1, 2, 1, 2});
  EXPECT_THAT(copied(drafts, drafts.find(), 5), ElementsAre(1, 2, 1, 2, 1));
  const CopiedDrafts same = of({3, 3, 3});
  EXPECT_THAT(copied(same, same.find(), 3), ElementsAre(3, 3, 3));
}

TEST(CopiedDraftsTest, APredictionIsTextToCopyFrom) {
  const CopiedDrafts drafts = of({9, 9, 4, 5}, {3, 4, 5, 6, 7});
  EXPECT_THAT(copied(drafts, drafts.find(), 8), ElementsAre(6, 7));  // to its end
  EXPECT_EQ(drafts.beginning().length, 0);
  const CopiedDrafts begun = of({9, 3}, {3, 4, 5});
  EXPECT_THAT(copied(begun, begun.beginning(), 3), ElementsAre(4, 5));
  EXPECT_EQ(of({1, 2}).beginning().length, 0);
  EXPECT_EQ(of({1, 6, 7}, {6, 7}).find().length, 2);
  EXPECT_THAT(copied(of({1, 6, 7}, {6, 7}), of({1, 6, 7}, {6, 7}).find(), 2), ElementsAre());
  EXPECT_TRUE(drafts.predicted(drafts.find()));
  const CopiedDrafts both = of({4, 5, 8, 1, 4, 5}, {3, 4, 5, 6});
  EXPECT_THAT(copied(both, both.find(), 1), ElementsAre(6)) << "of equal matches the prediction's";
  EXPECT_EQ(of({7}, {6, 7}).find().length, 0) << "a match does not reach over the beginning of the text";
}

TEST(CopiedDraftsTest, BehindAReplacedTokenThePredictionGoesOn) {
  const std::vector<TokenId> prediction{1, 2, 3, 4, 5, 6};
  const CopiedDrafts replaced = of({1, 2, 3, 9}, prediction);
  EXPECT_TRUE(replaced.find().skips);
  EXPECT_TRUE(replaced.predicted(replaced.find()));
  EXPECT_THAT(copied(replaced, replaced.find(), 8), ElementsAre(5, 6));
  EXPECT_THAT(copied(of({1, 2, 3, 4}, prediction), of({1, 2, 3, 4}, prediction).find(), 1), ElementsAre(5));
  EXPECT_FALSE(of({1, 2, 3, 4}, prediction).find().skips);
  EXPECT_EQ(of({1, 2, 3, 9, 9}, prediction).find().length, 0) << "more than one token is another text";
  EXPECT_EQ(of({3, 9}, prediction).find().length, 0) << "one token is no match before it either";
  EXPECT_EQ(of({5, 6, 9}, prediction).find().length, 0) << "behind the end of the prediction there is nothing";
  const CopiedDrafts own = of({2, 3, 9, 8, 1, 2, 3, 9}, prediction);
  EXPECT_TRUE(own.find().skips == false && own.find().length == 3) << "a match as long as the one before is surer";
  const CopiedDrafts longer = of({3, 9, 8, 1, 2, 3, 9}, prediction);
  EXPECT_THAT(copied(longer, longer.find(), 1), ElementsAre(5)) << "the longer context";
}

// Against a search of the whole text, however the tokens arrive.
TEST(CopiedDraftsTest, FindsTheLongestOfTheLatestPlaces) {
  const unsigned seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  int found = 0;
  for (int round = 0; round < 200; ++round) {
    const int letters = 2 + below(30);
    std::vector<TokenId> text;
    CopiedDrafts drafts;
    while (text.size() < 60) {
      std::vector<TokenId> more(static_cast<std::size_t>(1 + below(20)));
      for (TokenId& id : more) id = below(letters);
      drafts.append(more);
      text.insert(text.end(), more.begin(), more.end());
      const int n = static_cast<int>(text.size());
      CopiedDrafts::Match best;
      int visits = 0;
      for (int last = n - 2; last >= 1 && visits < CopiedDrafts::kMostVisits; --last) {
        int length = 0;
        while (length < CopiedDrafts::kMostMatch && last - length >= 0 &&
               text[static_cast<std::size_t>(last - length)] == text[static_cast<std::size_t>(n - 1 - length)]) {
          ++length;
        }
        visits += length >= 2;
        if (length >= 2 && length > best.length) best = {length, last + 1};
      }
      const CopiedDrafts::Match match = drafts.find();
      ASSERT_EQ(match.length, best.length);
      if (best.length == 0) continue;
      ++found;
      ASSERT_EQ(match.at, best.at);
    }
  }
  EXPECT_GT(found, 100);
}

}  // namespace
}  // namespace sluice::copied_drafts_test
