#include "files/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <limits>
#include <random>

namespace sluice::json_test {
namespace {

using ::testing::HasSubstr;

std::string error_of(std::string_view text, JsonLimits limits = {}) {
  const auto result = parse_json(text, "body", limits);
  return result.ok() ? "(accepted)" : result.status().message();
}

// dump_json_python(parse(text))
std::string python(std::string_view text) {
  auto result = parse_json(text, "body");
  return result.ok() ? dump_json_python(*result) : result.status().message();
}

TEST(ParseJson, KeepsKeyOrderAndKinds) {
  auto value = parse_json(R"( {"z":1,"a":[true,null,-2.5,"x"],"m":18446744073709551615} )", "body");
  ASSERT_TRUE(value.ok()) << value.status().message();
  EXPECT_EQ(dump_json(*value), R"({"z":1,"a":[true,null,-2.5,"x"],"m":18446744073709551615})");
}

TEST(ParseJson, ErrorsNameLineAndColumn) {
  EXPECT_THAT(error_of("{\"a\": 1,\n  \"b\": x}"), HasSubstr("body: line 2, column 8: "));
  EXPECT_THAT(error_of("{\"a\": 1,\n  \"b\": x}"), HasSubstr("found 'x'"));
  EXPECT_THAT(error_of("[\"\xC3\xA4\xC3\xB6\", !]"), HasSubstr("line 1, column 8"));
  EXPECT_THAT(error_of("[1, 2"), HasSubstr("line 1, column 6: invalid JSON (incomplete): the text ends too early"));
  EXPECT_THAT(error_of(""), HasSubstr("line 1, column 1"));
  EXPECT_THAT(error_of("[1] \n x"), HasSubstr("line 2, column 2: unexpected text after the JSON value: found 'x'"));
}

TEST(ParseJson, RefusesDuplicateKeysAtEveryDepth) {
  EXPECT_THAT(error_of(R"({"a":1,"a":2})"), HasSubstr("line 1, column 10: duplicate key \"a\""));
  EXPECT_THAT(error_of(R"([{"b":{"a":1,"c":2,"a":2}}])"), HasSubstr("duplicate key \"a\""));
  EXPECT_THAT(error_of(R"({"a\u0062":1,"ab":2})"), HasSubstr("duplicate key \"ab\""));
  EXPECT_EQ(python(R"({"a":{"a":1},"b":{"a":2}})"), R"({"a": {"a": 1}, "b": {"a": 2}})");
}

TEST(ParseJson, RefusesWhatIsNotJson) {
  for (const char* text : {"{'a':1}", "[1,]",        "{\"a\":1,}",   "NaN",     "Infinity",      "-",     "01",
                           "1.",      ".5",          "+1",           "0x10",    "tru",           "[1 2]", "\"\t\"",
                           "\"\\x\"", "\"\\ud800\"", "\"\\udc00x\"", "// c\n1", "/* c */ 1",     "\"abc", "{\"a\"}",
                           "{1:2}",   "]",           "1e400",        "-1e400",  "\xEF\xBB\xBF{}"}) {
    EXPECT_FALSE(parse_json(text, "body").ok()) << text;
  }
}

// Texts that Python's json module writes and reads, and no other reader accepts.
TEST(ParseJson, TextsOfPython) {
  const auto python_text = [](std::string_view text) {
    auto result = parse_json(text, "file", {.of_python = true});
    return result.ok() ? dump_json_python(*result) : result.status().message();
  };
  EXPECT_EQ(python_text(R"({"a":NaN,"b":[Infinity,-Infinity],"c":1e400,"d":-1e999,"e":1e-400})"),
            R"({"a": NaN, "b": [Infinity, -Infinity], "c": Infinity, "d": -Infinity, "e": 0.0})");
  EXPECT_EQ(python_text(R"({"NaN":"NaN, \"Infinity\" \\"})"), R"({"NaN": "NaN, \"Infinity\" \\"})");
  EXPECT_EQ(python_text(R"(["\ud800","x\udc00y","\ud83d\ude00","\ud800\ud83d\ude00","\\ud800"])"),
            "[\"\xEF\xBF\xBD\", \"x\xEF\xBF\xBDy\", \"\xF0\x9F\x98\x80\", "
            "\"\xEF\xBF\xBD\xF0\x9F\x98\x80\", \"\\\\ud800\"]");
  EXPECT_THAT(python_text("[NaN, Infinity,\n -Infinity, x]"), HasSubstr("file: line 2, column 13: "));
  EXPECT_THAT(python_text("[Infinity, NaN, NaN, x]"), HasSubstr("line 1, column 22"));
  for (const char* text : {"[nan]", "[Infinit]", "[NaNa]", "[+Infinity]", "[--Infinity]", "\"\\", "\"\\u", "\"\\ud8",
                           "\"\\ud800", "Na", "\"\x80\"", "{\"a\":1,\"a\":2}"}) {
    EXPECT_FALSE(parse_json(text, "file", {.of_python = true}).ok()) << text;
  }
}

TEST(ParseJson, RefusesInvalidUtf8) {
  for (const char* bytes : {"\x80", "\xC3", "\xC0\xAF", "\xE0\x80\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xFF",
                            "\xF0\x80\x80\xAF", "\xE2\x82"}) {
    const std::string quoted = std::string("\"") + bytes + "\"";
    EXPECT_FALSE(parse_json(quoted, "body").ok()) << testing::PrintToString(quoted);
    EXPECT_FALSE(parse_json("{" + quoted + ":1}", "body").ok()) << testing::PrintToString(quoted);
  }
  EXPECT_EQ(python("\"\xF0\x9F\x98\x80\""), "\"\xF0\x9F\x98\x80\"");
}

TEST(ParseJson, LimitsDepth) {
  const auto nested = [](int depth) {
    return std::string(static_cast<std::size_t>(depth), '[') + std::string(static_cast<std::size_t>(depth), ']');
  };
  EXPECT_EQ(error_of(nested(128)), "(accepted)");
  EXPECT_THAT(error_of(nested(129)), HasSubstr("nested deeper than 128 levels"));
  EXPECT_THAT(error_of(nested(100000)), HasSubstr("nested deeper than 128 levels"));
  EXPECT_THAT(error_of(nested(4), {.max_depth = 3}), HasSubstr("nested deeper than 3 levels"));
}

// Expected texts: json.dumps(json.loads(text), ensure_ascii=False) of CPython 3.11.
TEST(DumpJsonPython, NumbersAsRepr) {
  const std::pair<const char*, const char*> cases[] = {
      {"1.0", "1.0"},
      {"-0.0", "-0.0"},
      {"-0", "0"},
      {"0.1", "0.1"},
      {"1e-4", "0.0001"},
      {"1e-5", "1e-05"},
      {"0.000012345", "1.2345e-05"},
      {"1E5", "100000.0"},
      {"1e15", "1000000000000000.0"},
      {"1e16", "1e+16"},
      {"12345678901234567.0", "1.2345678901234568e+16"},
      {"1e22", "1e+22"},
      {"1e100", "1e+100"},
      {"1.7976931348623157e308", "1.7976931348623157e+308"},
      {"5e-324", "5e-324"},
      {"1e-400", "0.0"},
      {"-1e-400", "-0.0"},
      {"2.2250738585072014e-308", "2.2250738585072014e-308"},
      {"3.141592653589793", "3.141592653589793"},
      {"0.30000000000000004", "0.30000000000000004"},
      {"123456.789", "123456.789"},
      {"9007199254740993.0", "9007199254740992.0"},
      {"100", "100"},
      {"-9223372036854775808", "-9223372036854775808"},
      {"8.41e21", "8.41e+21"},
      {"1.00000000000000011102230246251565", "1.0"},
      {"1.00000000000000011102230246251566", "1.0000000000000002"},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(python(text), expected) << text;
}

TEST(DumpJsonPython, StringsAndStructure) {
  EXPECT_EQ(python(R"({"a":[],"b":{},"c":[1,[2]],"d":null,"e":true,"f":false})"),
            R"({"a": [], "b": {}, "c": [1, [2]], "d": null, "e": true, "f": false})");
  EXPECT_EQ(python(R"("\u0000\u001f\u007f\n\r\t\b\f\/\"\\")"), "\"\\u0000\\u001f\x7F\\n\\r\\t\\b\\f/\\\"\\\\\"");
  EXPECT_EQ(python(R"("\u4e2d\u00e9 \ud83d\ude00 \u2028")"), "\"\u4e2d\u00e9 \U0001F600 \u2028\"");
}

TEST(DumpJson, CompactAndStrict) {
  const boost::json::value value = {{"p", -0.7}, {"n", std::numeric_limits<double>::quiet_NaN()}, {"s", "a\nb"}};
  EXPECT_EQ(dump_json(value), R"({"p":-0.7,"n":null,"s":"a\nb"})");
  EXPECT_EQ(dump_json_python({std::numeric_limits<double>::infinity()}), "[Infinity]");
}

TEST(DumpJson, RandomDoublesReadBackExactly) {
  constexpr unsigned kSeed = 20240607;
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 20000; ++i) {
    const auto number = std::bit_cast<double>(random());
    if (!std::isfinite(number)) continue;
    std::string text;
    append_json_number(text, number);
    auto value = parse_json(text, "number");
    ASSERT_TRUE(value.ok()) << text << " seed " << kSeed;
    ASSERT_EQ(std::bit_cast<std::uint64_t>(value->get_double()), std::bit_cast<std::uint64_t>(number)) << text;
  }
}

// Any text gives a value or an error, and a value survives a round trip.
TEST(ParseJson, SurvivesRandomMutations) {
  constexpr unsigned kSeed = 7;
  std::mt19937 random(kSeed);
  const std::string original = R"({"a":[1,2.5e3,"x\u00e9\ud83d\ude00\n"],"b":{"c":null,"d":[true,false]},"e":-12})";
  const std::string alphabet = "{}[]\",:\\u0123456789eE+-.tfn \n\x80\xC3\xFF";
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  for (int i = 0; i < 20000; ++i) {
    std::string text = original;
    for (std::size_t edits = 1 + below(4); edits > 0; --edits) {
      const std::size_t at = below(text.size());
      const char c = alphabet[below(alphabet.size())];
      if (below(3) == 0) {
        text.erase(at, 1 + below(3));
      } else if (below(2) == 0) {
        text[at] = c;
      } else {
        text.insert(at, 1, c);
      }
      if (text.empty()) text.push_back(' ');
    }
    auto value = parse_json(text, "body");
    if (!value.ok()) continue;
    auto again = parse_json(dump_json(*value), "body");
    ASSERT_TRUE(again.ok()) << text << " seed " << kSeed;
    ASSERT_EQ(dump_json(*again), dump_json(*value)) << text << " seed " << kSeed;
  }
}

TEST(DescribeJson, ShortensOnCharacterBoundaries) {
  EXPECT_EQ(describe_json(nullptr), "nothing");
  const boost::json::value abc = "abc";
  EXPECT_EQ(describe_json(&abc), "\"abc\"");
  std::string umlauts;
  for (int i = 0; i < 100; ++i) umlauts += "\u00e4";
  const boost::json::value long_text = boost::json::string(umlauts);
  std::string shown = describe_json(&long_text);
  EXPECT_LT(shown.size(), 70U);
  shown.push_back('"');
  EXPECT_TRUE(parse_json(shown, "shown").ok());
}

TEST(DumpJson, StringsAndKeysAreUtf8WhateverTheyWereMadeOf) {
  const boost::json::value value = {{"\xFF key", "caf\xC3\xA9 \xE2\x82 \xED\xA0\x80 \xC0\xAF\xF0\x9F"}};
  const std::string lost = "\xEF\xBF\xBD";
  EXPECT_EQ(dump_json(value), "{\"" + lost + " key\":\"caf\xC3\xA9 " + lost + " " + lost + lost + lost + " " + lost +
                                  lost + lost + "\"}");
  EXPECT_TRUE(parse_json(dump_json(value), "it").ok());
}

}  // namespace
}  // namespace sluice::json_test
