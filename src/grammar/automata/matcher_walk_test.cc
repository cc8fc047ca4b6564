// Masks from what is shared by tokens, against a walk through the bytes of each token.
#include <gtest/gtest.h>

#include <random>
#include <span>
#include <string>

#include "base/test_seed_testing.h"
#include "grammar/automata/matcher_testing.h"
#include "grammar/gbnf.h"

namespace sluice::matcher_walk_test {
namespace {

std::vector<std::string> random_words(std::span<const char* const> pieces, std::size_t common, std::mt19937& random) {
  std::vector<std::string> words;
  for (int i = 0; i < 300; ++i) {
    std::string word;
    for (auto n = 1 + random() % 12; n > 0; --n) {
      word += pieces[random() % (random() % 3 == 0 ? pieces.size() : common)];
    }
    words.push_back(word);
  }
  return words;
}

// Some texts by chance: at each step a token is in the mask if and only if its bytes, one by one, can follow.
void check_texts(const std::string& grammar, const Vocabulary& vocabulary, int texts, std::mt19937& random) {
  SCOPED_TRACE(grammar);
  auto network = compile_gbnf(grammar);
  ASSERT_TRUE(network.ok()) << network.status().message();
  const auto masks = std::make_shared<TokenMasks>(vocabulary.trie, std::move(*network));
  for (int text = 0; text < texts; ++text) {
    Matcher matcher(masks);
    for (int step = 0; step < 8 && !matcher.ended(); ++step) {
      std::vector<std::uint32_t> bits(matcher.trie().words());
      if (!matcher.allowed(bits).ok()) break;
      std::vector<std::int32_t> can;
      for (std::int32_t id = 0; id < vocabulary.end(); ++id) {
        Matcher next = matcher;
        const bool accepts = next.accept(id);
        ASSERT_EQ(accepts, (bits[static_cast<std::size_t>(id) / 32] >> (id % 32) & 1) != 0)
            << "step " << step << ": '" << vocabulary.texts[static_cast<std::size_t>(id)] << "'";
        if (accepts) can.push_back(id);
      }
      if (can.empty()) break;
      matcher.accept(can[random() % can.size()]);
    }
  }
}

TEST(MatcherTest, PlainTokensAreWhatTheWalkAllows) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  static constexpr const char* kPieces[] = {"a",  "é", "漢",       "😀",   "\"",   "\\",
                                            "\n", " ", "\xF0\x9F", "\xC3", "\x7F", "/"};
  const Vocabulary vocabulary(random_words(kPieces, 4, random));
  for (const char* grammar : {R"(root ::= "\"" [^"\\\x00-\x1F]* "\"" "x")", R"(root ::= [^"\\\x00-\x1F]{0,5} "\"")",
                              "root ::= .{3,9}", R"(root ::= ([a-z] | [^"\\\x00-\x1F]{2})* )"}) {
    check_texts(grammar, vocabulary, 1, random);
  }
}

// Places that count characters take what they share from lists by length (run_masks.h).
TEST(MatcherTest, MasksWhereCharactersAreCountedAreThoseOfTheWalk) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  static constexpr const char* kPieces[] = {"a", "b", "h", "k", "z",    " ",    ",",
                                            "(", ")", "7", "é", "\xC3", "\xA9", "漢"};
  std::vector<std::string> words = random_words(kPieces, 7, random);
  for (const char* piece : kPieces) words.emplace_back(piece);
  // Enough that begins alike for one walk through it to serve several places.
  for (int i = 0; i < 5; ++i) {
    for (const std::string& word : random_words(kPieces, 7, random)) words.push_back(" " + word);
  }
  for (const char exit : {' ', ',', '(', ')'}) {  // each length at which a rule may end within a token
    for (const char behind : {' ', ',', '(', ')', 'a'}) {
      for (std::size_t n = 0; n < 13; ++n) words.push_back(std::string(n, 'a') + exit + behind);
    }
  }
  const Vocabulary vocabulary(words);
  for (const char* grammar :
       {"root ::= [a-z]{3,40}", "root ::= [a-z]{2,7} \" \" [a-z ]{1,9} \",\"", "root ::= [a-z]{5} [a-h]{0,9}",
        "root ::= ([a-z]{2,6} \" \"){1,5} [0-9]?", "root ::= [^,]{0,9} (\",\" [^,]{0,9}){2,4}", "root ::= .{4,20}",
        "root ::= [a-z]{3,} \" \" .{2,}", "root ::= [a-h]{2,9} | [a-z]{4,8} \",\" [a-z]*",
        // Rules that end within a token, and return to several places.
        "root ::= word (\",\" word)* | \"(\" word \")\" [ ,]*\nword ::= [a-z]{1,8} | \"(\" root \")\"",
        "root ::= r \" \" | r \")\"\nr ::= [a-z]{2,9} \",\" | \"(\" r \")\"", "root ::= ([a-k]{1,3} \" \"){2,9} \",\"",
        "root ::= (word{1,3} \" \")+\nword ::= [a-k] | \" \" word? \",\"",
        "root ::= a \" \" | a \"(\" root \")\"\na ::= b b?\nb ::= [a-z ]{2,11} \",\"?"}) {
    check_texts(grammar, vocabulary, 6, random);
  }
}

}  // namespace
}  // namespace sluice::matcher_walk_test
