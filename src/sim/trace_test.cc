#include "sim/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/storage/temp_folder_testing.h"

namespace sluice::trace_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string error_of(std::string_view text) {
  const Result<Trace> trace = parse_trace(text, "t.jsonl", 512);
  return trace.ok() ? "no error" : trace.status().message();
}

TEST(TraceTest, ReadsRecordsAndIgnoresOtherKeys) {
  const TempFolder folder;
  const std::string path = folder.write(
      "t.jsonl",
      "{\"timestamp\": 0, \"input_length\": 1000, \"output_length\": 30, \"hash_ids\": [5, 6, 7], \"x\": 1}\n"
      "\n"
      "{\"timestamp\": 12.5, \"input_length\": 3, \"output_length\": 1}\r\n"
      "{\"timestamp\": 7, \"input_length\": 9, \"output_length\": 1, \"after\": 0, \"priority\": -2,"
      " \"message_starts\": [0, 4]}");
  const Result<Trace> trace = read_trace(path, 512);
  ASSERT_TRUE(trace.ok()) << trace.status().message();
  ASSERT_EQ(trace->requests.size(), 3U);
  EXPECT_THAT(trace->requests[0].hash_ids, ElementsAre(5, 6, 7));
  EXPECT_EQ(trace->requests[1].arrival_ms, 12.5);
  EXPECT_EQ(trace->requests[1].after, -1);
  EXPECT_EQ(trace->requests[2].after, 0);
  EXPECT_EQ(trace->requests[2].priority, -2);
  EXPECT_THAT(trace->requests[2].message_starts, ElementsAre(0, 4));
}

TEST(TraceTest, ErrorsNameTheLine) {
  const std::string good = "{\"timestamp\": 5, \"input_length\": 8, \"output_length\": 1}\n";
  EXPECT_THAT(error_of(""), HasSubstr("t.jsonl: expected a request on each line"));
  EXPECT_THAT(error_of(good + "{"), HasSubstr("t.jsonl line 2: "));
  EXPECT_THAT(error_of(good + "[]"), HasSubstr("t.jsonl line 2: expected an object"));
  EXPECT_THAT(error_of("{\"timestamp\": 1, \"input_length\": 8}"), HasSubstr("line 1: key 'output_length'"));
  EXPECT_THAT(error_of("{\"timestamp\": 1, \"input_length\": 0, \"output_length\": 1}"),
              HasSubstr("line 1: key 'input_length': expected an integer from 1"));
  EXPECT_THAT(error_of("{\"timestamp\": 1, \"input_length\": 1.5, \"output_length\": 1}"), HasSubstr("'input_length'"));
  EXPECT_THAT(error_of(good + "{\"timestamp\": 4, \"input_length\": 8, \"output_length\": 1}"),
              HasSubstr("line 2: key 'timestamp'"));
  EXPECT_THAT(error_of(good + "{\"timestamp\": 5, \"input_length\": 8, \"output_length\": 1, \"after\": 1}"),
              HasSubstr("line 2: key 'after'"));
  EXPECT_THAT(error_of("{\"timestamp\": 1, \"input_length\": 512, \"output_length\": 512, \"hash_ids\": [1, 2, 3]}"),
              HasSubstr("at most 2 ids for 1024 tokens in blocks of 512"));
  EXPECT_THAT(error_of("{\"timestamp\": 1, \"input_length\": 5, \"output_length\": 5, \"hash_ids\": [\"a\"]}"),
              HasSubstr("key 'hash_ids': expected an array of integers"));
  EXPECT_THAT(error_of("{\"timestamp\": 1, \"input_length\": 9, \"output_length\": 5, \"message_starts\": [4, 2]}"),
              HasSubstr("ascending"));
}

TraceRequest request(int input, int output, std::vector<std::int64_t> ids) {
  TraceRequest r;
  r.input_length = input;
  r.output_length = output;
  r.hash_ids = std::move(ids);
  return r;
}

TEST(TraceTest, EqualIdsAreEqualTokensAndTheRestIsUnique) {
  Trace trace;
  trace.hash_block_tokens = 16;
  trace.requests = {request(40, 8, {1, 2, 3}), request(40, 8, {1, 2}), request(40, 8, {1, 4, 3}), request(40, 8, {})};
  std::vector<std::vector<TokenId>> prompts;
  for (std::size_t i = 0; i < 4; ++i) prompts.push_back(trace_prompt(trace, i));
  const auto block = [&](std::size_t r, int b) {
    const auto begin = prompts[r].begin() + b * 16;
    return std::vector<TokenId>(begin, b == 2 ? prompts[r].end() : begin + 16);
  };
  EXPECT_EQ(block(0, 0), block(1, 0));
  EXPECT_EQ(block(0, 1), block(1, 1));
  EXPECT_NE(block(0, 2), block(1, 2));
  EXPECT_NE(block(0, 1), block(2, 1));
  EXPECT_EQ(block(0, 2), block(2, 2));
  EXPECT_NE(block(0, 0), block(3, 0));
  EXPECT_NE(block(0, 0), block(0, 1));
  for (const std::vector<TokenId>& prompt : prompts) {
    ASSERT_EQ(prompt.size(), 40U);
    for (const TokenId id : prompt) EXPECT_TRUE(id >= 0 && id < kTraceVocab);
  }
}

TEST(TraceTest, OneTokenIsThatOfThePromptAndTheAnswerGoesOnWithItsIds) {
  Trace trace;
  trace.hash_block_tokens = 16;
  trace.requests = {request(20, 8, {1, 2}), request(28, 4, {1, 2})};
  for (std::size_t r = 0; r < 2; ++r) {
    const std::vector<TokenId> prompt = trace_prompt(trace, r);
    for (std::size_t p = 0; p < prompt.size(); ++p) {
      EXPECT_EQ(trace_token(trace, r, static_cast<Position>(p)), prompt[p]);
    }
  }
  for (Position p = 20; p < 28; ++p) EXPECT_EQ(trace_token(trace, 0, p), trace_token(trace, 1, p));
}

}  // namespace
}  // namespace sluice::trace_test
