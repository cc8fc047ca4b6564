#include "text/pretokenizer/pretokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include "base/utf8.h"
#include "text/pretokenizer/pretokenizer_regex.h"

namespace sluice::pretokenizer_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Words = std::vector<std::string>;

Result<Pretokenizer> parse(std::string_view json_text) {
  return Pretokenizer::from_json(boost::json::parse(json_text), "key 'pre_tokenizer'");
}

Words words_of(const Pretokenizer& pretokenizer, std::string_view text) {
  PretokenizerScratch scratch;
  Words words;
  const Status status = pretokenizer.split(text, 0, scratch, [&](std::string_view word) { words.emplace_back(word); });
  EXPECT_TRUE(status.ok()) << status.message();
  return words;
}

constexpr std::string_view kByteLevel = R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false})";

std::string sequence(std::string_view stage, std::string_view last = kByteLevel) {
  return R"({"type": "Sequence", "pretokenizers": [)" + std::string(stage) + ", " + std::string(last) + "]}";
}

Words split(std::string_view pattern, std::string_view behavior, std::string_view text, bool invert = false) {
  const std::string stage = R"({"type": "Split", "pattern": )" + std::string(pattern) + R"(, "behavior": ")" +
                            std::string(behavior) + R"(", "invert": )" + (invert ? "true}" : "false}");
  Result<Pretokenizer> pretokenizer = parse(sequence(stage));
  EXPECT_TRUE(pretokenizer.ok()) << pretokenizer.status().message();
  return pretokenizer.ok() ? words_of(*pretokenizer, text) : Words();
}

constexpr std::string_view kDash = R"({"String": "-"})";

TEST(Pretokenizer, SplitBehaviors) {
  constexpr std::string_view kText = "the-final--countdown";
  EXPECT_THAT(split(kDash, "Isolated", kText), ElementsAre("the", "-", "final", "-", "-", "countdown"));
  EXPECT_THAT(split(kDash, "Removed", kText), ElementsAre("the", "final", "countdown"));
  EXPECT_THAT(split(kDash, "MergedWithPrevious", kText), ElementsAre("the-", "final-", "-", "countdown"));
  EXPECT_THAT(split(kDash, "MergedWithNext", kText), ElementsAre("the", "-final", "-", "-countdown"));
  EXPECT_THAT(split(kDash, "Contiguous", kText), ElementsAre("the", "-", "final", "--", "countdown"));
}

TEST(Pretokenizer, SplitAtTheEndsAndInverted) {
  EXPECT_THAT(split(kDash, "MergedWithPrevious", "-a-"), ElementsAre("-", "a-"));
  EXPECT_THAT(split(kDash, "MergedWithNext", "-a-"), ElementsAre("-a", "-"));
  EXPECT_THAT(split(kDash, "Removed", "---"), ElementsAre());
  EXPECT_THAT(split(kDash, "Isolated", ""), ElementsAre());
  EXPECT_THAT(split(R"({"Regex": "[a-z]+"})", "Removed", "ab, cd.", true), ElementsAre("ab", "cd"));
  EXPECT_THAT(split(R"({"Regex": "[a-z]"})", "Contiguous", "ab, cd.", true), ElementsAre("ab", ", ", "cd", "."));
}

TEST(Pretokenizer, AStringIsNoRegularExpression) {
  EXPECT_THAT(split(R"({"String": "a.b"})", "Isolated", "axba.b"), ElementsAre("axb", "a.b"));
  EXPECT_THAT(split(R"({"String": "[("})", "Isolated", "x[(y"), ElementsAre("x", "[(", "y"));
}

TEST(Pretokenizer, APieceIsATextOfItsOwnToTheNextStage) {
  // The lookahead must not see the "b" that the first stage cut off.
  constexpr std::string_view kStages = R"json({"type": "Split", "pattern": {"String": "b"}, "behavior": "Isolated"},
      {"type": "Split", "pattern": {"Regex": "a(?!b)"}, "behavior": "Removed"})json";
  const auto pretokenizer = parse(sequence(kStages));
  ASSERT_TRUE(pretokenizer.ok()) << pretokenizer.status().message();
  EXPECT_THAT(words_of(*pretokenizer, "xab"), ElementsAre("x", "b"));
}

TEST(Pretokenizer, ByteLevelSplitsAsGpt2Did) {
  const auto pretokenizer = parse(R"({"type": "ByteLevel", "add_prefix_space": false})");
  ASSERT_TRUE(pretokenizer.ok());
  EXPECT_THAT(words_of(*pretokenizer, "I'm  12 years,\n\nold "),
              ElementsAre("I", "'m", " ", " 12", " years", ",", "\n", "\n", "old", " "));
}

TEST(Pretokenizer, APrefixSpaceGoesBeforeEveryPieceWithoutOne) {
  const std::string digits = R"({"type": "Digits", "individual_digits": false})";
  const auto pretokenizer = parse(sequence(digits, R"({"type": "ByteLevel", "use_regex": false})"));
  ASSERT_TRUE(pretokenizer.ok());
  EXPECT_THAT(words_of(*pretokenizer, "ab12 c"), ElementsAre(" ab", " 12", " c"));
  EXPECT_THAT(words_of(*pretokenizer, "\nx"), ElementsAre(" \nx"));
}

TEST(Pretokenizer, Digits) {
  EXPECT_THAT(words_of(*parse(sequence(R"({"type": "Digits", "individual_digits": true})")), "a12½b"),
              ElementsAre("a", "1", "2", "½", "b"));
  EXPECT_THAT(words_of(*parse(sequence(R"({"type": "Digits"})")), "a12½b"), ElementsAre("a", "12½", "b"));
}

TEST(Pretokenizer, EmptyMatchesSplitToo) {
  EXPECT_THAT(split(R"json({"Regex": "(?=[A-Z])"})json", "Isolated", "aBCd"), ElementsAre("a", "B", "Cd"));
  EXPECT_THAT(split(R"({"Regex": "x*"})", "Isolated", "axxé"), ElementsAre("a", "xx", "é"));
  EXPECT_THAT(split(R"({"Regex": "\\b"})", "Removed", "½ a_1!"), ElementsAre("½", " ", "a_1", "!"));
}

TEST(Pretokenizer, MetaspaceMarksSpacesAndTheStart) {
  const auto words = [](std::string_view scheme, std::string_view text) {
    const auto pretokenizer = parse(R"({"type": "Metaspace", "prepend_scheme": ")" + std::string(scheme) + "\"}");
    EXPECT_FALSE(pretokenizer->byte_level());
    return words_of(*pretokenizer, text);
  };
  EXPECT_THAT(words("always", "a  b"), ElementsAre("▁a", "▁", "▁b"));
  EXPECT_THAT(words("always", " a"), ElementsAre("▁a"));
  EXPECT_THAT(words("never", "a b"), ElementsAre("a", "▁b"));
  const auto first = parse(R"({"type": "Metaspace", "prepend_scheme": "first", "split": false})");
  EXPECT_THAT(words_of(*first, "a b"), ElementsAre("▁a▁b"));
  PretokenizerScratch scratch;
  Words later;
  EXPECT_TRUE(
      first->split("a b", std::nullopt, scratch, [&](std::string_view word) { later.emplace_back(word); }).ok());
  EXPECT_THAT(later, ElementsAre("a▁b"));
}

TEST(Pretokenizer, WhatIsNotSupportedIsNamed) {
  const auto message = [](std::string_view text) {
    const auto result = parse(text);
    return result.ok() ? std::string("ok") : result.status().message();
  };
  EXPECT_THAT(message(R"({"type": "UnicodeScripts"})"), HasSubstr("Sequence, Split, Digits, ByteLevel"));
  EXPECT_THAT(message(R"({"type": "UnicodeScripts"})"), HasSubstr("\"UnicodeScripts\""));
  EXPECT_THAT(message(R"({"type": "Metaspace", "replacement": "ab"})"), HasSubstr("key 'replacement'"));
  EXPECT_THAT(message(R"({"type": "Metaspace", "prepend_scheme": "last"})"), HasSubstr("key 'prepend_scheme'"));
  EXPECT_THAT(message(R"({"type": "FixedLength", "length": 0})"), HasSubstr("key 'length'"));
  EXPECT_THAT(message(sequence(kByteLevel)), HasSubstr("behind ByteLevel"));
  EXPECT_THAT(message(R"({"type": "Sequence"})"), HasSubstr("pretokenizers"));
  EXPECT_THAT(message(sequence(R"({"type": "Split", "pattern": {"String": "a"}, "behavior": "Odd"})")),
              HasSubstr("[0]: key 'behavior'"));
  EXPECT_THAT(message(sequence(R"({"type": "Split", "pattern": {"Regex": "(a"}, "behavior": "Isolated"})")),
              HasSubstr("regular expression"));
  EXPECT_THAT(message(sequence(R"({"type": "Split", "pattern": {}, "behavior": "Isolated"})")), HasSubstr("'Regex'"));
}

TEST(Pretokenizer, TrailingSpaceIsFoundInLinearTime) {
  constexpr std::string_view kPattern = R"({"Regex": "\\s+$"})";
  EXPECT_THAT(split(kPattern, "Isolated", "a  \n  \n b  "), ElementsAre("a", "  \n  ", "\n b", "  "));
  const std::string spaces(1000000, ' ');
  EXPECT_THAT(split(kPattern, "Isolated", spaces + "x"), ElementsAre(spaces + "x"));
}

TEST(PatternCheck, AcceptsWhatBothLibrariesReadAlike) {
  for (const std::string_view pattern :
       {R"(\p{N}{1,3})", "[一-龥぀-ゟ゠-ヿ]+", R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+)",
        R"((?i:'s|'t|'re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\s*[\r\n]|\s+(?!\S)|\s+$)", R"(\x{4E00}|\x41|(?<=a)b|(?>c)d)",
        "a{2}|b{2,}|c{2,3}"}) {
    const auto translated = translate_pattern(pattern);
    ASSERT_TRUE(translated.ok()) << translated.status().message();
    EXPECT_EQ(*translated, pattern);
  }
  EXPECT_EQ(*translate_pattern(R"([\p{Han}\P{^Greek}])"), R"([\p{sc:han}\p{sc:greek}])");
}

TEST(PatternCheck, TranslatesWhatTheyReadDifferently) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {R"([\p{L}\p{M}\p{N}\p{P}\p{S}\p{Z}&&[^\p{Han}a]])", R"([^\p{Cc}\p{Cf}\p{Cn}\p{Co}\p{Cs}\p{sc:han}a])"},
      {"[a-z&&[^aeiou]]", "(?:(?=[a-z])[^aeiou])"},
      {"[^a&&[b]]", "(?:(?!(?:(?=[a])[b]))(?s:.))"},
      {"[a[b-c]]", "[ab-c]"},
      {"[a[^b]]", "(?:[a]|[^b])"},
      {"[[:digit:]x]", R"([\p{Nd}x])"},
      {R"(\p{Uppercase_Letter})", R"(\p{Lu})"},
      {R"(\h\H)", "[0-9A-Fa-f][^0-9A-Fa-f]"},
      {"(?m:.)(?<name>a)", "(?s:.)(a)"},
      {"a{,2}|{x", R"(a{0,2}|\{x)"},
  };
  for (const auto& [pattern, expected] : cases) EXPECT_EQ(*translate_pattern(pattern), expected) << pattern;
}

TEST(PatternCheck, RefusesWhatTheyReadDifferently) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {R"(a\G)", "\"\\G\" at byte 1"},
      {R"([\R])", "\"\\R\""},
      {"[[:alfa:]]", "POSIX"},
      {R"([\w-a])", "range"},
      {"[]a]", "first character"},
      {"[^]a]", "first character"},
      {"[ab", "without its end"},
      {"a{2}+", "suffix"},
      {"a{2}?", "suffix"},
      {"(*UTF)a", "control verb"},
      {"(?~ab)", "group \"(?~a\""},
      {"a(?i)b", "group"},
      {R"(\p)", "property"},
      {R"(\p{a=b})", "property"},
      {R"(\pL)", "property"},
      {R"(\xC3)", "not ASCII"},
      {R"(\x{})", "malformed"},
      {R"(\x{1234567})", "malformed"},
      {"a\\", "backslash"},
      {R"(\K)", "escape"},
      {R"(\1)", "escape"},
  };
  for (const auto& [pattern, expected] : cases) {
    const auto translated = translate_pattern(pattern);
    ASSERT_FALSE(translated.ok()) << pattern;
    EXPECT_THAT(translated.status().message(), HasSubstr(std::string(expected))) << pattern;
  }
}

TEST(SplitRegex, BacktracksSoOftenAtMost) {
  const auto endless = SplitRegex::compile(R"((.*)*\p{N})", false);
  ASSERT_TRUE(endless.ok()) << endless.status().message();
  RegexScratch scratch;
  RegexMatch match;
  const auto found = endless->find(std::string(100, 'a'), 0, scratch, match);
  ASSERT_FALSE(found.ok());
  EXPECT_THAT(found.status().message(), ::testing::HasSubstr("cannot split 100 bytes of text into words: match limit"));
  const auto spaces = SplitRegex::compile(R"(\s+(?!\S)|\s+)", false);
  EXPECT_TRUE(*spaces->find(std::string(1 << 20, ' ') + "a", 0, scratch, match));
  EXPECT_EQ(match.end, (1U << 20) - 1);
}

TEST(RegexShape, KeepsLengthsAndReplacesNewCharactersByOnesOfTheirClass) {
  const auto letters = SplitRegex::compile(R"(\p{L})", false);
  RegexScratch scratch;
  std::size_t replaced = 0;
  for (char32_t code_point = 0; code_point <= 0x10FFFF; ++code_point) {
    if (code_point >= 0xD800 && code_point <= 0xDFFF) continue;
    std::string text, buffer;
    append_utf8(code_point, text);
    const std::string_view shape = regex_shape(text, buffer);
    ASSERT_EQ(shape.size(), text.size());
    ASSERT_EQ(valid_utf8_prefix(shape), shape.size());
    if (shape != text) ++replaced;
    // Long ranges of patterns that mean everything in them.
    const char32_t stand = decode_utf8(shape).code_point;
    ASSERT_EQ(stand >= 0x800 && stand <= 0x4E00, code_point >= 0x800 && code_point <= 0x4E00)
        << static_cast<std::uint32_t>(code_point);
  }
  EXPECT_EQ(replaced, 10303U);  // what Unicode 15 to 16 added, U+1171E and U+180E
  // A letter of Unicode 15 (CJK extension H), and a digit of Unicode 16 (Garay).
  std::string buffer;
  RegexMatch match{};
  EXPECT_TRUE(*letters->find(regex_shape("\U00031350", buffer), 0, scratch, match));
  EXPECT_FALSE(*letters->find(regex_shape("\U00010D40", buffer), 0, scratch, match));
  EXPECT_FALSE(*SplitRegex::compile(R"(\s)", false)->find(regex_shape("\u180e", buffer), 0, scratch, match));
}

}  // namespace
}  // namespace sluice::pretokenizer_test
