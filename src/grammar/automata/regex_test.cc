#include "grammar/automata/regex.h"

#include <gtest/gtest.h>

#include <random>
#include <regex>
#include <string>

#include "base/sanitizer_testing.h"
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
        "a)",    "[a",     "a{3,2}", "a{1000000}", "\\",      "[z-a]",  "^*",  "\\u{110000}", "\\xG0", "(?s)a"}) {
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
  for (int i = 0; i < random_cases(400); ++i) {
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

// The same texts as before, and some text distinguishes any two states.
TEST(DfaTest, ReducedToTheFewestStates) {
  std::mt19937 random(test_seed());
  for (int round = 0; round < random_cases(300); ++round) {
    Dfa given;
    given.states.resize(2 + random() % 40);
    for (std::size_t s = 0; s < given.states.size(); ++s) {
      given.states[s].accept = random() % 4 == 0;
      const bool chain = round % 3 == 0;  // whose states differ by long texts only
      for (const char byte : {'a', 'b', 'd'}) {
        if (!chain && random() % 4 == 0) continue;
        const std::size_t to = chain ? std::min(s + 1, given.states.size() - 1) : random() % given.states.size();
        given.states[s].edges.push_back(
            {static_cast<std::uint8_t>(byte), static_cast<std::uint8_t>(byte), static_cast<std::int32_t>(to)});
      }
      if (chain) given.states[s].accept = s + 1 == given.states.size();
    }
    const Dfa found = reduce(given);
    for (int i = 0; i < 200; ++i) {
      std::string text(random() % 50, 'a');
      for (char& c : text) c = "abcd"[random() % 4];
      EXPECT_EQ(found.matches(text), given.matches(text)) << text << ", round " << round;
    }
    // Pairs that differ, until there are no more.
    const std::size_t n = found.states.size();
    std::vector<std::vector<bool>> differ(n, std::vector<bool>(n));
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t p = 0; p < n; ++p) {
        for (std::size_t q = 0; q < n; ++q) {
          bool apart = differ[p][q] || found.states[p].accept != found.states[q].accept;
          for (const std::uint8_t byte : {'a', 'b', 'c', 'd'}) {
            const auto to_p = found.step(static_cast<std::int32_t>(p), byte),
                       to_q = found.step(static_cast<std::int32_t>(q), byte);
            apart = apart || to_p.has_value() != to_q.has_value() ||
                    (to_p && differ[static_cast<std::size_t>(*to_p)][static_cast<std::size_t>(*to_q)]);
          }
          changed = changed || apart != differ[p][q];
          differ[p][q] = apart;
        }
      }
    }
    for (std::size_t p = 0; p < n; ++p) {
      for (std::size_t q = 0; q < p; ++q) EXPECT_TRUE(differ[p][q]) << p << " and " << q << ", round " << round;
    }
  }
}

}  // namespace
}  // namespace sluice::regex_test
