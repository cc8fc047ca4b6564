#include "grammar/regex.h"

#include <gtest/gtest.h>

#include <random>
#include <regex>
#include <string>

#include "base/test_seed_testing.h"

namespace sluice::regex_test {
namespace {

Dfa compiled(std::string_view pattern, bool search) {
  const auto expression = parse_regex(pattern, "pattern");
  EXPECT_TRUE(expression.ok()) << expression.status().message();
  if (!expression.ok()) return {};
  auto dfa = search ? search_match(*expression) : whole_match(*expression);
  EXPECT_TRUE(dfa.ok()) << dfa.status().message();
  return dfa.ok() ? *dfa : Dfa{};
}

bool finds(std::string_view pattern, std::string_view text) {
  return compiled(pattern, true).matches(text);
}

TEST(RegexTest, Search) {
  EXPECT_TRUE(finds("a+", "xxaayy"));
  EXPECT_FALSE(finds("^a*$", "aaab"));
  EXPECT_TRUE(finds("^a*$", ""));
  EXPECT_TRUE(finds("^(foo|ba[rz])$|^$", "baz"));
  EXPECT_FALSE(finds("^(foo|ba[rz])$|^$", "bax"));
  EXPECT_TRUE(finds("a|^b", "b"));
  EXPECT_FALSE(finds("x^b", "xb"));
  EXPECT_TRUE(finds("(^|,)b(,|$)", "a,b"));
  EXPECT_FALSE(finds("(^|,)b(,|$)", "a,bc"));
  EXPECT_TRUE(finds("^\\S(|(.|\\n)*\\S)$", "\xE2\x98\x83 x"));
  EXPECT_TRUE(finds("^\\u{1F600}[\\uD83D\\uDE01]\\x41\\cJ\\0$", std::string("\U0001F600\U0001F601A\n\0", 11)));
  EXPECT_TRUE(finds("^[\\w\\-.]+@[^\\s@]{2,}$", "a.b-c@de"));
  EXPECT_FALSE(finds("^.$", "\n"));
}

TEST(RegexTest, RefusesWhatItCannotExpress) {
  for (const char* pattern :
       {"(?=a)", "a(?!b)", "(?<=x)", "(a)\\1",     "\\bword", "\\p{L}", "a**", "a{2}{3}",     "{2}",   "*a",   "(a",
        "a)",    "[a",     "a{3,2}", "a{1000000}", "\\",      "[z-a]",  "^*",  "\\u{110000}", "\\xG0", "(?i)a"}) {
    const auto parsed = parse_regex(pattern, "pattern");
    EXPECT_FALSE(parsed.ok()) << pattern;
    EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(parse_regex("ab(?=c)", "/x/pattern").status().message(),
            "/x/pattern: at character 5: look-around is not supported");
}

TEST(RegexTest, LargeCountsAreRefusedInTime) {
  for (const char* pattern : {"(a{1000}){1000}", "((a|b){1,300}c?){1,300}", "(.*a.{20})", "[ab]*a[ab]{30}"}) {
    const auto expression = parse_regex(pattern, "pattern");
    ASSERT_TRUE(expression.ok());
    const auto dfa = search_match(*expression);
    EXPECT_TRUE(dfa.ok() || dfa.status().code() == StatusCode::kResourceExhausted) << dfa.status().message();
  }
}

// Random patterns over a few characters, with the standard library as the judge.
TEST(RegexTest, AgreesWithTheStandardLibrary) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  static constexpr const char* kParts[] = {"a",  "b",   "[ab]", "[^a]",        "(?:a|bc)", "(ab)",
                                           "a*", "b+?", "c?",   "(?:ab){1,2}", "^",        "$",
                                           ".",  "|",   "\\w",  "(?:^a|b$)",   "[a-c]{2}"};
  for (int i = 0; i < 400; ++i) {
    std::string pattern;
    for (auto parts = 1 + random() % 6; parts > 0; --parts) pattern += kParts[random() % std::size(kParts)];
    const std::regex standard(pattern, std::regex::ECMAScript);
    const Dfa search = compiled(pattern, true), whole = compiled(pattern, false);
    for (int t = 0; t < 60; ++t) {
      std::string text;
      for (auto n = random() % 7; n > 0; --n) text += "abcd"[random() % 4];
      EXPECT_EQ(search.matches(text), std::regex_search(text, standard)) << pattern << " in " << text;
      EXPECT_EQ(whole.matches(text), std::regex_match(text, standard)) << pattern << " is " << text;
    }
  }
}

TEST(DfaTest, Algebra) {
  const Dfa a = compiled("^[ab]*$", true), b = compiled("^.{2,3}$", true);
  const auto both = intersect(a, b), either = unite(a, b), only = subtract(a, b);
  ASSERT_TRUE(both.ok() && either.ok() && only.ok());
  for (const std::string text : {"", "a", "ab", "aba", "abab", "xy", "xyzt"}) {
    EXPECT_EQ(both->matches(text), a.matches(text) && b.matches(text)) << text;
    EXPECT_EQ(either->matches(text), a.matches(text) || b.matches(text)) << text;
    EXPECT_EQ(only->matches(text), a.matches(text) && !b.matches(text)) << text;
  }
  EXPECT_TRUE(subtract(a, a)->empty());
  EXPECT_EQ(list_texts(dfa_of({"x", "yes", "x", "no"}), 5), (std::vector<std::string>{"no", "x", "yes"}));
  EXPECT_EQ(list_texts(a, 5), std::nullopt);
  const Dfa two = *text_of_length(2, 2), most = *text_of_length(0, 3), least = *text_of_length(2, -1);
  for (const std::string text : {"", "é", "éa", "漢é", "漢é😀", "abcd"}) {
    const auto n = text.empty() ? 0 : text == "é" ? 1 : text == "éa" || text == "漢é" ? 2 : text == "漢é😀" ? 3 : 4;
    EXPECT_EQ(two.matches(text), n == 2) << text;
    EXPECT_EQ(most.matches(text), n <= 3) << text;
    EXPECT_EQ(least.matches(text), n >= 2) << text;
  }
  EXPECT_FALSE(most.matches("\xC3"));
}

}  // namespace
}  // namespace sluice::regex_test
