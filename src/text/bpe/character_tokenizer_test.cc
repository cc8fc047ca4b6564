// Tokenizers of characters, as SentencePiece has them: first symbols, fallbacks, spellings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "text/tokenizer/detokenizer.h"
#include "text/tokenizer/tokenizer.h"
#include "text/vocabulary_files/tokenizer_files.h"

namespace sluice::character_tokenizer_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

// 0 <unk>, 1 <s>, 2..4 the bytes of "é" and "A", then characters and what they make.
constexpr std::string_view kFile = R"json({
  "added_tokens": [{"id": 0, "content": "<unk>", "special": true}, {"id": 1, "content": "<s>", "special": true}],
  "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
                 {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
  "pre_tokenizer": null,
  "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
              {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
  "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
            "vocab": {"<unk>": 0, "<s>": 1, "<0xC3>": 2, "<0xA9>": 3, "<0x41>": 4, "▁": 5, "a": 6, "b": 7, "ab": 8, "▁ab": 9},
            "merges": ["a b", ["▁", "ab"]]}})json";

std::unique_ptr<Tokenizer> tokenizer() {
  auto made = Tokenizer::from_json(kFile);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return std::move(made).value();
}

TEST(CharacterTokenizer, CharactersThenBytesThenTheUnknownToken) {
  const auto of = tokenizer();
  EXPECT_THAT(of->encode("ab ab").value(), ElementsAre(9, 9));
  EXPECT_THAT(of->encode("éA").value(), ElementsAre(5, 2, 3, 4));
  EXPECT_THAT(of->encode("xy猫a").value(), ElementsAre(5, 0, 6));  // three unknown ones are one token
  EXPECT_THAT(of->encode("a<s>b").value(), ElementsAre(5, 6, 1, 5, 7));
}

TEST(CharacterTokenizer, SpacesAreStrippedAtTheStartOfATextOnly) {
  const auto of = tokenizer();
  EXPECT_EQ(of->decode(Ids{9, 9, 2, 3}, false), "ab abé");
  EXPECT_EQ(of->decode(Ids{1, 9}, false), "<s> ab");
  EXPECT_EQ(of->decode(Ids{1, 9}, true), "ab");
  EXPECT_EQ(of->token_bytes(9), " ab");
  EXPECT_EQ(of->token_bytes(2), "\xC3");
  EXPECT_EQ(of->token_to_id(" ab"), 9);
  EXPECT_EQ(of->token_to_id("A"), 4);
  StreamingDetokenizer stream(*of, true);
  EXPECT_EQ(stream.push(9), " ab");
  EXPECT_EQ(stream.push(2), "");
  EXPECT_EQ(stream.push(3), "é");
}

TEST(CharacterTokenizer, ADecoderHasToSayWhatTokensAre) {
  auto json = boost::json::parse(kFile);
  json.as_object()["decoder"] = nullptr;
  const auto made = Tokenizer::from_json(boost::json::serialize(json));
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.status().message(), HasSubstr("key 'decoder': expected a decoder"));
}

TEST(OtherTokenizerFiles, DamagedOnesAreRefused) {
  const std::string config = R"({"tokenizer_class": "TikTokenTokenizer"})";
  for (const std::string_view bytes :
       {std::string_view(""), std::string_view("\x0A\x7F", 2), std::string_view("\x0A\x02\x0A\xFF", 4),
        std::string_view("\x0B"), std::string_view("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF")}) {
    EXPECT_THAT(parse_other_tokenizer("tokenizer.model", bytes, {}).status().message(), HasSubstr("tokenizer.model"));
  }
  EXPECT_THAT(parse_other_tokenizer("tiktoken.model", "YQ= 1", config).status().message(), HasSubstr("line 1"));
  EXPECT_THAT(parse_other_tokenizer("tiktoken.model", "YQ== 1\nYQ== 2", config).status().message(), HasSubstr("twice"));
  EXPECT_THAT(parse_other_tokenizer("tiktoken.model", "YQ== 1", "[]").status().message(), HasSubstr("an object"));
}

}  // namespace
}  // namespace sluice::character_tokenizer_test
