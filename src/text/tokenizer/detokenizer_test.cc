#include "text/tokenizer/detokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "base/sanitizer_testing.h"
#include "base/utf8.h"
#include "text/tokenizer/tokenizer_testing.h"

namespace sluice::detokenizer_test {
namespace {

std::unique_ptr<Tokenizer> byte_tokenizer() {
  auto json = small_tokenizer_json({"â Ĥ", "Ĥ ¬", "¬ a"});  // E2 82, 82 AC, AC 61
  set_json(json, "added_tokens/0", R"({"id": 300, "content": "<s>", "special": true})");
  return Tokenizer::from_json(boost::json::serialize(json)).value();
}

TEST(StreamingDetokenizer, HoldsBackHalfACharacter) {
  const auto tokenizer = byte_tokenizer();
  StreamingDetokenizer stream(*tokenizer, false);
  EXPECT_EQ(stream.push('x'), "x");
  EXPECT_EQ(stream.push(0xE2), "");
  EXPECT_EQ(stream.push(0x82), "");
  EXPECT_EQ(stream.push(0xAC), "€");
  EXPECT_EQ(stream.push(256), "");
  EXPECT_EQ(stream.push(258), "€a");
  EXPECT_EQ(stream.push(256), "");
  EXPECT_EQ(stream.push('y'), "\uFFFDy");
  EXPECT_EQ(stream.push(0xF0), "");
  EXPECT_EQ(stream.finish(), "\uFFFD");
  EXPECT_EQ(stream.finish(), "");
}

TEST(StreamingDetokenizer, SkipsSpecialTokensOnlyWhenAsked) {
  const auto tokenizer = byte_tokenizer();
  StreamingDetokenizer skipping(*tokenizer, true);
  EXPECT_EQ(skipping.push(0xC3), "");
  EXPECT_EQ(skipping.push(300), "");
  EXPECT_EQ(skipping.push(0xA9), "é");  // the halves meet across it, as in decode
  StreamingDetokenizer showing(*tokenizer, false);
  EXPECT_EQ(showing.push(300), "<s>");
  EXPECT_EQ(showing.push(123456), "");  // no such token
}

TEST(StreamingDetokenizer, AllPiecesTogetherAreTheLossyDecodingOfAllBytes) {
  constexpr unsigned kSeed = 99;
  std::mt19937 random(kSeed);
  const auto tokenizer = byte_tokenizer();
  const int bytes[] = {'a',  0x80, 0x82, 0x9F, 0xA0, 0xAC, 0xBF, 0xC0, 0xC3, 0xE0, 0xE2,
                       0xED, 0xEF, 0xF0, 0xF4, 0xF5, 0xFF, 256,  257,  258,  300};
  for (int round = 0; round < random_cases(20000); ++round) {
    std::vector<std::int32_t> ids;
    for (std::size_t n = random() % 12; n > 0; --n) ids.push_back(bytes[random() % std::size(bytes)]);
    StreamingDetokenizer stream(*tokenizer, true);
    std::string streamed, expected;
    for (const std::int32_t id : ids) {
      const std::string piece = stream.push(id);
      ASSERT_EQ(valid_utf8_prefix(piece), piece.size());
      streamed += piece;
    }
    streamed += stream.finish();
    append_lossy_utf8(tokenizer->decode(ids, true), expected);
    ASSERT_EQ(streamed, expected) << "seed " << kSeed << ", round " << round;
  }
}

}  // namespace
}  // namespace sluice::detokenizer_test
