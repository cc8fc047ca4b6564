// The bounds of a matcher: how deep rules nest, how ambiguous texts are, and how much work one mask takes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/sanitizer_testing.h"
#include "grammar/automata/matcher_testing.h"
#include "grammar/gbnf.h"

namespace sluice::matcher_bounds_test {
namespace {

// At the most rules that may be open a text can still be completed, and lists do not count.
TEST(MatcherTest, NestingIsBoundedWithoutDeadEnds) {
  const Vocabulary vocabulary({"(", ")", "((", "))", "x,", "((((", "x"});
  auto network = compile_gbnf("root ::= \"(\" root? \")\" | list\nlist ::= \"x\" | \"x,\" list");
  ASSERT_TRUE(network.ok()) << network.status().message();
  const auto masks = std::make_shared<TokenMasks>(vocabulary.trie, std::move(*network));
  Matcher deep(masks);
  int open = 0;
  while (deep.accept(0)) ++open;
  EXPECT_GT(open, kMaxRuleDepth - 3);
  EXPECT_FALSE(allowed_of(deep).contains(2));
  for (; open > 0; --open) {
    ASSERT_TRUE(allowed_of(deep).contains(1));
    ASSERT_TRUE(deep.accept(1));
  }
  EXPECT_TRUE(deep.complete());
  Matcher list(masks);
  for (int i = 0; i < 3000; ++i) ASSERT_TRUE(list.accept(4));
  ASSERT_TRUE(list.accept(6));
  EXPECT_TRUE(list.complete());
}

// Behind n letters the text can be read in n ways, as the counted part may have begun at each of them.
TEST(MatcherTest, WhatIsTooAmbiguousIsAnErrorOfThatTextAlone) {
  const Vocabulary vocabulary({"a", "b", std::string(100, 'a'), "("});
  auto network = compile_gbnf("root ::= [ab]* \"a\" [ab]{4000} r\nr ::= \"(\" r? \")\"");
  ASSERT_TRUE(network.ok()) << network.status().message();
  Matcher matcher(std::make_shared<TokenMasks>(vocabulary.trie, std::move(*network)));
  const Matcher other = matcher;
  std::vector<std::uint32_t> bits(matcher.trie().words());
  Status status;
  int tokens = 0;
  for (; status.ok() && tokens < 60; ++tokens) {
    ASSERT_TRUE(matcher.accept(2));
    status = matcher.allowed(bits);
  }
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("too ambiguous: the answer can be read in more than 3000 ways"), std::string::npos)
      << status.message();
  EXPECT_NEAR(tokens, 30, 2);  // some 3,000 letters
  EXPECT_FALSE(matcher.complete());
  // No other matcher is hurt: not a copy, and not the same answer a few tokens before.
  Matcher fresh = other;
  EXPECT_TRUE(fresh.allowed(bits).ok());
  matcher.rollback(3);
  EXPECT_TRUE(matcher.allowed(bits).ok()) << "a token before";
  // One that a token makes too ambiguous takes the token, and no other.
  for (int i = 0; i < 3; ++i) matcher.accept(2);
  EXPECT_FALSE(matcher.accept(0) && matcher.accept(0));
}

TEST(MatcherTest, TheWorkForOneMaskIsBounded) {
  std::vector<std::string> words;  // each walks on for itself
  for (int i = 0; i < 8192; ++i) {
    std::string word(13, 'a');
    for (int bit = 0; bit < 13; ++bit) word[static_cast<std::size_t>(bit)] = (i >> bit & 1) != 0 ? 'a' : 'b';
    words.push_back(word);
  }
  const Vocabulary vocabulary(words);
  auto network = compile_gbnf("root ::= [ab]* \"a\" [ab]{4000} r\nr ::= \"(\" r? \")\"");
  ASSERT_TRUE(network.ok()) << network.status().message();
  const auto masks = std::make_shared<TokenMasks>(vocabulary.trie, std::move(*network));
  ParseSets sets(masks->network());
  SetId set = sets.start();
  for (int i = 0; i < 2500; ++i) set = sets.step(set, 'a');
  ASSERT_GE(set, 0);
  std::vector<std::uint32_t> bits(vocabulary.trie->words());
  EXPECT_EQ(masks->allowed(sets, set, bits), TokenMasks::Found::kTooMany);
  EXPECT_EQ(masks->allowed(sets, set, bits), TokenMasks::Found::kTooMany) << "what is known counts as well";
  EXPECT_LT(sets.bytes() + masks->bytes(), std::size_t{512} << 20);
}

// Whether a text is too ambiguous is up to the grammar, whichever others the vocabulary had to serve before.
TEST(MatcherTest, WhatOthersCountedDecidesNothing) {
  std::vector<std::string> words{"zzzzz"};
  for (char exit = '!'; exit <= '8'; ++exit) words.push_back(exit + std::string("abababababab"));
  const Vocabulary fresh(words), used(words);
  for (std::size_t i = 0; i <= kMostTokenRuns; ++i) {
    ByteClass others;
    for (std::size_t byte = 0; byte < 9; ++byte) others.set(128 + i + byte);
    used.trie->runs(others);
  }
  std::set<TokenMasks::Found> found;
  for (int alike = 600; alike <= (kSanitized ? 600 : 2400); alike += alike / 3) {
    std::string grammar = "root ::= p | p2 \"!\" | p3 \"?\" | p4 \".\"", rules;
    for (const char* p : {"p", "p2", "p3", "p4"}) rules += fmt::format("\n{} ::= [a-z]{{3,40}} [!-8] r", p);
    for (int i = 0; i < alike; ++i) {
      grammar += fmt::format("{} [ab]{{14}} r{}", i > 0 ? " |" : "\nr ::=", i);
      rules += fmt::format("\nr{} ::= \"(\" r{}? \")\" \"{}\"", i, i, i);
    }
    const auto network = compile_gbnf(grammar + rules);
    ASSERT_TRUE(network.ok()) << network.status().message();
    std::vector<TokenMasks::Found> both;
    for (const Vocabulary* vocabulary : {&fresh, &used}) {
      const TokenMasks masks(vocabulary->trie, *network);
      ParseSets sets(*network);
      SetId set = sets.start();
      for (int n = 0; n < 5; ++n) set = sets.step(set, 'z');
      std::vector<std::uint32_t> bits(vocabulary->trie->words());
      both.push_back(masks.allowed(sets, set, bits));
    }
    EXPECT_EQ(both[0], both[1]) << alike;
    found.insert(both[0]);
  }
  if (!kSanitized) {
    EXPECT_EQ(found, (std::set{TokenMasks::Found::kSome, TokenMasks::Found::kTooMany}));
  }
}

}  // namespace
}  // namespace sluice::matcher_bounds_test
