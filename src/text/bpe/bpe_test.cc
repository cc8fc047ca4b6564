#include "text/bpe/bpe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>

#include "text/bpe/bpe_vocabulary.h"

namespace sluice::bpe_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(BpeAlphabet, EveryByteHasACharacterOfItsOwn) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) {
    std::string bytes;
    const std::string character = alphabet_character(static_cast<unsigned char>(byte));
    ASSERT_TRUE(append_alphabet_bytes(character, bytes));
    ASSERT_EQ(bytes, std::string(1, static_cast<char>(byte)));
    all += character;
  }
  std::string bytes;
  EXPECT_TRUE(append_alphabet_bytes(all, bytes));
  EXPECT_EQ(bytes.size(), 256U);
  EXPECT_EQ(alphabet_character(' '), "Ġ");
  EXPECT_EQ(alphabet_character('\n'), "Ċ");
}

TEST(BpeAlphabet, OtherCharactersAreRefusedAndLeaveTheOutputAlone) {
  std::string bytes = "before";
  EXPECT_FALSE(append_alphabet_bytes("ab c", bytes));
  EXPECT_FALSE(append_alphabet_bytes("ab｜", bytes));
  EXPECT_FALSE(append_alphabet_bytes("a\xFF", bytes));
  EXPECT_EQ(bytes, "before");
}

TEST(BpeVocabulary, FindsWhatWasAddedAcrossGrowthAndGaps) {
  BpeVocabulary vocabulary;
  for (std::int32_t i = 0; i < 5000; ++i) vocabulary.add(2 * i, "token" + std::to_string(i), true);
  vocabulary.add(1, "hidden", false);
  vocabulary.add(3, "token7", true);  // the first keeps the bytes
  EXPECT_EQ(vocabulary.size(), 9999);
  for (std::int32_t i = 0; i < 5000; ++i) {
    ASSERT_EQ(vocabulary.find("token" + std::to_string(i)), 2 * i);
    ASSERT_EQ(vocabulary.bytes(2 * i), "token" + std::to_string(i));
  }
  EXPECT_EQ(vocabulary.find("hidden"), kNoToken);
  EXPECT_EQ(vocabulary.bytes(1), "hidden");
  EXPECT_EQ(vocabulary.bytes(3), "token7");
  EXPECT_FALSE(vocabulary.has_id(5));
  EXPECT_FALSE(vocabulary.has_id(-1));
  EXPECT_EQ(vocabulary.bytes(1 << 30), "");
  EXPECT_EQ(BpeVocabulary().find("a"), kNoToken);
}

// A vocabulary of all bytes, and rules by text.
class BpeRules : public testing::Test {
 protected:
  BpeRules() {
    for (int byte = 0; byte < 256; ++byte) vocabulary_.add(byte, std::string(1, static_cast<char>(byte)), true);
  }

  void add(const std::string& left, const std::string& right) {
    if (vocabulary_.find(left + right) == kNoToken) vocabulary_.add(vocabulary_.size(), left + right, true);
    rules_.emplace_back(vocabulary_.find(left), vocabulary_.find(right));
  }

  Bpe build(bool ignore_merges = false) {
    Bpe bpe = Bpe::create(vocabulary_, ignore_merges, 0);
    for (const auto& [left, right] : rules_) bpe.add_merge(left, right, joined(left, right));
    return bpe;
  }

  std::vector<std::string> tokens(const Bpe& bpe, std::string_view word) {
    std::vector<std::int32_t> ids;
    bpe.encode_word(word, scratch_, ids);
    std::vector<std::string> texts;
    for (const std::int32_t id : ids) texts.emplace_back(vocabulary_.bytes(id));
    return texts;
  }

  // The definition: the pair of lowest rank, leftmost of equals, again and again. A later rule for a pair replaces.
  std::vector<std::string> naive(std::string_view word) {
    std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> ranks;
    for (std::size_t i = 0; i < rules_.size(); ++i) ranks[rules_[i]] = i;
    std::vector<std::int32_t> ids;
    for (const char c : word) ids.push_back(static_cast<unsigned char>(c));
    while (true) {
      std::size_t best = rules_.size(), place = 0;
      for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
        const auto rule = ranks.find({ids[i], ids[i + 1]});
        if (rule != ranks.end() && rule->second < best) best = rule->second, place = i;
      }
      if (best == rules_.size()) break;
      ids[place] = joined(ids[place], ids[place + 1]);
      ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(place) + 1);
    }
    std::vector<std::string> texts;
    for (const std::int32_t id : ids) texts.emplace_back(vocabulary_.bytes(id));
    return texts;
  }

  std::int32_t joined(std::int32_t left, std::int32_t right) {
    return vocabulary_.find(std::string(vocabulary_.bytes(left)) + std::string(vocabulary_.bytes(right)));
  }

  BpeVocabulary vocabulary_;
  std::vector<std::pair<std::int32_t, std::int32_t>> rules_;
  BpeScratch scratch_;
};

TEST_F(BpeRules, TheLowestRankGoesFirstAndOfEqualsTheLeftmost) {
  add("b", "c");
  add("a", "b");
  add("a", "a");
  const Bpe bpe = build();
  EXPECT_THAT(tokens(bpe, "abc"), ElementsAre("a", "bc"));
  EXPECT_THAT(tokens(bpe, "aaa"), ElementsAre("aa", "a"));
  EXPECT_THAT(tokens(bpe, "aaab"), ElementsAre("aa", "ab"));
  EXPECT_THAT(tokens(bpe, ""), ElementsAre());
  EXPECT_THAT(tokens(bpe, "x"), ElementsAre("x"));
}

TEST_F(BpeRules, OfTwoRulesForAPairTheLaterCounts) {
  add("a", "b");
  add("b", "c");
  add("a", "b");
  EXPECT_THAT(tokens(build(), "abc"), ElementsAre("a", "bc"));
}

TEST_F(BpeRules, IgnoreMergesTakesAWholeWordThatMergingWouldNotReach) {
  add("a", "b");
  vocabulary_.add(1000, "abcd", true);
  EXPECT_THAT(tokens(build(false), "abcd"), ElementsAre("ab", "c", "d"));
  scratch_ = BpeScratch();
  const Bpe bpe = build(true);
  EXPECT_THAT(tokens(bpe, "abcd"), ElementsAre("abcd"));
  EXPECT_THAT(tokens(bpe, "abcda"), ElementsAre("ab", "c", "d", "a"));
}

TEST_F(BpeRules, EveryLengthAgreesWithTheDefinitionCachedOrNot) {
  constexpr unsigned kSeed = 20240607;
  std::mt19937 random(kSeed);
  for (int round = 0; round < 30; ++round) {
    rules_.clear();
    std::vector<std::string> known = {"a", "b", "c"};
    for (int i = 0; i < 25; ++i) {
      const std::string left = known[random() % known.size()], right = known[random() % known.size()];
      add(left, right);
      if (left.size() + right.size() < 8) known.push_back(left + right);
    }
    const Bpe bpe = build();
    scratch_ = BpeScratch();
    for (int i = 0; i < 60; ++i) {
      std::string word;
      for (std::size_t n = random() % 120; n > 0; --n) word += static_cast<char>('a' + random() % 3);
      const auto expected = naive(word);
      ASSERT_EQ(tokens(bpe, word), expected) << "seed " << kSeed << ", round " << round << ": " << word;
      ASSERT_EQ(tokens(bpe, word), expected) << "the second time: " << word;
    }
  }
}

// The words of a vocabulary without the byte "x", in which "ab" and "a" + unknown are merged.
std::vector<std::int32_t> encode_without_x(std::string_view word, std::int32_t unknown) {
  BpeVocabulary incomplete;
  for (int byte = 0; byte < 256; ++byte) {
    if (byte != 'x') incomplete.add(byte, std::string(1, static_cast<char>(byte)), true);
  }
  incomplete.add(256, "ab", true);
  incomplete.add(257, "<unk>", false);
  EXPECT_FALSE(has_every_byte(incomplete));
  Bpe bpe = Bpe::create(incomplete, false, 0, unknown);
  bpe.add_merge('a', 'b', 256);
  BpeScratch scratch;
  std::vector<std::int32_t> ids, again;
  bpe.encode_word(word, scratch, ids);
  bpe.encode_word(word, scratch, again);  // from the cache
  EXPECT_EQ(ids, again);
  return ids;
}

TEST_F(BpeRules, AByteWithoutATokenStandsForNothingOrIsUnknown) {
  using ::testing::ElementsAre;
  using ::testing::IsEmpty;
  EXPECT_THAT(encode_without_x("x", kNoToken), IsEmpty());
  EXPECT_THAT(encode_without_x("xxxx", kNoToken), IsEmpty());
  EXPECT_THAT(encode_without_x("axb", kNoToken), ElementsAre(256));
  EXPECT_THAT(encode_without_x("xaxxbx", kNoToken), ElementsAre(256));
  EXPECT_THAT(encode_without_x("x", 257), ElementsAre(257));
  EXPECT_THAT(encode_without_x("xabx", 257), ElementsAre(257, 256, 257));
  const std::string longest(60, 'x');
  EXPECT_THAT(encode_without_x(longest + "a" + longest + "b", kNoToken), ElementsAre(256));
  EXPECT_THAT(encode_without_x(longest, kNoToken), IsEmpty());
  EXPECT_EQ(encode_without_x(longest, 257), std::vector<std::int32_t>(60, 257));
}

TEST_F(BpeRules, BytesThatNeverOccurInUtf8NeedNoToken) {
  BpeVocabulary some;
  for (int byte = 0; byte < 256; ++byte) {
    if (byte != 0xC0 && byte != 0xFF && byte != 0xE3) some.add(byte, std::string(1, static_cast<char>(byte)), true);
  }
  EXPECT_FALSE(has_every_byte(some));
  some.add(0xE3, "\xE3", true);
  EXPECT_TRUE(has_every_byte(some));
}

}  // namespace
}  // namespace sluice::bpe_test
