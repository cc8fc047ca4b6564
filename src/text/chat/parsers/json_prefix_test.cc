#include "text/chat/parsers/json_prefix.h"

#include <gtest/gtest.h>

#include <random>

#include "base/test_seed_testing.h"
#include "files/json.h"

namespace sluice::json_prefix_test {
namespace {

using Status = JsonPrefix::Status;

struct Reading {
  std::size_t used = 0;
  std::string taken;
  std::string completion;
  Status status = Status::kOpen;
};

Reading read(std::string_view text) {
  JsonPrefix json;
  Reading reading;
  reading.used = json.push(text);
  json.finish();
  reading.taken = json.take();
  reading.completion = json.completion();
  reading.status = json.status();
  return reading;
}

TEST(JsonPrefix, WholeValues) {
  for (const std::string text : {R"({"a": [1, -2.5e+3, true, null, "x\n\u00e9\ud83d\ude00"], "b": {}})", "[]", "12",
                                 "\"x\"", "false", "0.5", "{ }", "[ 1 , 2 ]"}) {
    const Reading reading = read(text);
    EXPECT_EQ(reading.used, text.size()) << text;
    EXPECT_EQ(reading.taken, text);
    EXPECT_EQ(reading.completion, "") << text;
    EXPECT_EQ(reading.status, Status::kComplete) << text;
  }
}

TEST(JsonPrefix, WhatCannotBeClosedIsHeldBack) {
  const std::vector<std::vector<std::string>> cases = {{R"({"a": "x)", R"({"a": "x)", "\"}"},
                                                       {R"({"a": "x\)", R"({"a": "x)", "\"}"},
                                                       {R"({"a": "x\u00e)", R"({"a": "x)", "\"}"},
                                                       {R"({"a": "x\ud83d)", R"({"a": "x)", "\"}"},
                                                       {R"({"a": 1)", "{", "}"},
                                                       {R"({"a": 1,)", R"({"a": 1)", "}"},
                                                       {R"({"a": 1, "b)", R"({"a": 1)", "}"},
                                                       {R"({"a": 1, "b":)", R"({"a": 1)", "}"},
                                                       {R"([[1, tr)", "[[1", "]]"},
                                                       {"[1, ", "[1", "]"},
                                                       {"", "", "null"},
                                                       {"  ", "", "null"},
                                                       {"-", "", "null"}};
  for (const auto& c : cases) {
    const Reading reading = read(c[0]);
    EXPECT_EQ(reading.taken, c[1]) << c[0];
    EXPECT_EQ(reading.completion, c[2]) << c[0];
    EXPECT_EQ(reading.status, Status::kOpen) << c[0];
  }
}

TEST(JsonPrefix, StopsWhereItIsNoJson) {
  for (const std::string text : {"{a", "[1 2", "{\"a\" 1", "[1,]", "{\"a\": 1,}", "tru!", "01", "1.e", "\"\x01",
                                 "\"\\q", "\"\\ud83dx", "\"\\ude00", "[}", "--"}) {
    const Reading reading = read(text);
    EXPECT_TRUE(reading.status == Status::kBroken || reading.used < text.size()) << text;
    EXPECT_LT(reading.used, text.size() + 1) << text;
    EXPECT_TRUE(parse_json(reading.taken + reading.completion, "test").ok()) << text;
  }
  EXPECT_EQ(read("{\"a\": 1} rest").used, 8U);
  EXPECT_EQ(read("12 rest").used, 2U);
  EXPECT_EQ(read(std::string(200, '[')).used, JsonPrefix::kMaxDepth);
}

// Whatever comes, what was taken and its completion are JSON, and the pieces do not matter.
TEST(JsonPrefix, AnyPrefixIsCompletedToJson) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(::testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  const std::vector<std::string> pieces = {"{",    "}",       "[",       "]",       ",",   ":",  "\"a\"", "\"", "\\",
                                           "\\\"", "\\u0041", "\\ud83d", "\\ude00", "\\n", "1",  "-",     "0",  ".",
                                           "e5",   "true",    "false",   "nul",     " ",   "\n", "é"};
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (std::size_t n = random() % 20; n > 0; --n) text += pieces[random() % pieces.size()];
    const Reading whole = read(text);
    const auto value = parse_json(whole.taken + whole.completion, "test", {.max_depth = 200});
    // JSON's grammar allows two things that the parser of requests does not: doubled keys, and numbers beyond a double.
    const std::string error = value.ok() ? "" : value.status().message();
    const bool allowed =
        error.find("duplicate key") != std::string::npos || error.find("beyond the range") != std::string::npos;
    ASSERT_TRUE(value.ok() || allowed) << text << " gave " << whole.taken << " + " << whole.completion << ": " << error;
    JsonPrefix bytes;
    std::string taken;
    std::size_t used = 0;
    while (used < text.size() && bytes.push(std::string_view(text).substr(used, 1)) == 1) ++used;
    bytes.finish();
    taken += bytes.take();
    ASSERT_EQ(used, whole.used) << text;
    ASSERT_EQ(taken, whole.taken) << text;
    ASSERT_EQ(bytes.completion(), whole.completion) << text;
  }
}

}  // namespace
}  // namespace sluice::json_prefix_test
