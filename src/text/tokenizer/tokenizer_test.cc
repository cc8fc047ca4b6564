#include "text/tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

#include "base/sanitizer_testing.h"
#include "base/test_paths_testing.h"
#include "text/tokenizer/tokenizer_testing.h"

namespace sluice::tokenizer_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Ids = std::vector<std::int32_t>;

std::unique_ptr<Tokenizer> build(const boost::json::object& json, std::string_view config = {}) {
  auto tokenizer = Tokenizer::from_json(boost::json::serialize(json), config);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return std::move(tokenizer).value();
}

std::string error_of(const boost::json::object& json, std::string_view config = {}) {
  const auto tokenizer = Tokenizer::from_json(boost::json::serialize(json), config);
  return tokenizer.ok() ? "no error" : tokenizer.status().message();
}

// A small tokenizer whose added tokens 300, 301, ... are given as JSON, without their ids.
boost::json::object with_added(const std::vector<std::string>& tokens) {
  boost::json::object json = small_tokenizer_json();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::string at = "added_tokens/" + std::to_string(i);
    set_json(json, at, tokens[i]);
    set_json(json, at + "/id", std::to_string(300 + i));
  }
  return json;
}

Ids encode(const Tokenizer& tokenizer, std::string_view text, EncodeOptions options = {}) {
  return tokenizer.encode(text, options).value();
}

TEST(Tokenizer, TheEmbeddedModelsTokenizer) {
  const auto tokenizer = Tokenizer::load(source_dir() + "/models/sluice-tiny-v4");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_EQ((*tokenizer)->bos_id(), 0);
  EXPECT_EQ((*tokenizer)->eos_id(), 1);
  EXPECT_TRUE((*tokenizer)->is_special(3));
  EXPECT_FALSE((*tokenizer)->is_special(5));
  const Ids ids = encode(**tokenizer, "<｜begin▁of▁sentence｜><｜User｜>hi<think>");
  EXPECT_EQ(ids[0], 0);
  EXPECT_EQ(ids[1], 3);
  EXPECT_EQ(ids.back(), 5);
  EXPECT_EQ((*tokenizer)->decode(ids, true), "hi<think>");
  EXPECT_EQ((*tokenizer)->decode(ids, false), "<｜begin▁of▁sentence｜><｜User｜>hi<think>");
  EXPECT_EQ((*tokenizer)->token_to_id("</think>"), 6);
  EXPECT_EQ((*tokenizer)->token_to_id("no such token"), std::nullopt);
}

TEST(Tokenizer, InvalidUtf8IsRefusedWithItsOffset) {
  const auto tokenizer = build(small_tokenizer_json());
  const auto ids = tokenizer->encode("caf\xC3\xA9 \xC3(");
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(ids.status().message(), HasSubstr("byte 0xC3 at offset 6 of 8"));
}

TEST(Tokenizer, DecodingIsByteExactAndUnknownIdsAreNothing) {
  const auto tokenizer = build(small_tokenizer_json({"a b"}));
  EXPECT_EQ(tokenizer->decode(Ids{256, 0xE2, 0, 99999, -1}, false), std::string("ab\xE2\0", 4));
  EXPECT_EQ(tokenizer->token_bytes(256), "ab");
  EXPECT_EQ(tokenizer->vocab_size(), 257);
  EXPECT_FALSE(tokenizer->has_token(257));
  EXPECT_EQ(tokenizer->token_to_id("ab"), 256);
}

TEST(Tokenizer, AddedTokensAreFoundFromTheLeftTheLongestFirst) {
  const auto tokenizer = build(
      with_added({R"({"content": "<a>"})", R"({"content": "<a>b"})", R"({"content": "b<"})", R"({"content": "<é>"})"}));
  EXPECT_THAT(encode(*tokenizer, "<a>bx"), ElementsAre(301, 'x'));
  EXPECT_THAT(encode(*tokenizer, "<a>cb<a>"), ElementsAre(300, 'c', 302, 'a', '>'));
  EXPECT_THAT(encode(*tokenizer, "<a<é><"), ElementsAre('<', 'a', 303, '<'));
  EXPECT_EQ(tokenizer->token_bytes(303), "<é>");  // its text, not the byte that "é" means in the alphabet
}

TEST(Tokenizer, SpecialTokensCanBeTakenForText) {
  const auto tokenizer = build(with_added({R"({"content": "<s>", "special": true})", R"({"content": "<t>"})"}));
  EXPECT_THAT(encode(*tokenizer, "<s><t>"), ElementsAre(300, 301));
  EXPECT_THAT(encode(*tokenizer, "<s><t>", {.parse_special = false}), ElementsAre('<', 's', '>', 301));
  EXPECT_EQ(tokenizer->decode(Ids{300, 301, 'x'}, true), "<t>x");
}

TEST(Tokenizer, AddedTokensMayTakeSpaceAndRefuseWords) {
  const auto tokenizer =
      build(with_added({R"({"content": "[L]", "lstrip": true})", R"({"content": "[R]", "rstrip": true})",
                        R"({"content": "www", "single_word": true})"}));
  EXPECT_THAT(encode(*tokenizer, "a \n\u3000[L] b"), ElementsAre('a', 300, ' ', 'b'));
  EXPECT_THAT(encode(*tokenizer, "a [R] \t\u00a0b"), ElementsAre('a', ' ', 301, 'b'));
  EXPECT_THAT(encode(*tokenizer, "[R]  [L]"), ElementsAre(301, 300));
  EXPECT_THAT(encode(*tokenizer, "www (www)"), ElementsAre(302, ' ', '(', 302, ')'));
  EXPECT_THAT(encode(*tokenizer, "éwww"), ElementsAre(0xC3, 0xA9, 'w', 'w', 'w'));
  EXPECT_THAT(encode(*tokenizer, "www_"), ElementsAre('w', 'w', 'w', '_'));
  // A letter since Unicode 16, which the tables here do not have.
  EXPECT_THAT(encode(*tokenizer, "\u1c89www"), ElementsAre(0xE1, 0xB2, 0x89, 'w', 'w', 'w'));
}

TEST(Tokenizer, NormalizedAddedTokensAreFoundInTheNormalizedText) {
  auto json =
      with_added({R"({"content": "caf\u00e9", "normalized": true})", R"({"content": "n\u00e9", "normalized": false})"});
  set_json(json, "normalizer", R"({"type": "Sequence", "normalizers": [{"type": "NFC"}]})");
  const auto tokenizer = build(json);
  EXPECT_THAT(encode(*tokenizer, "cafe\u0301"), ElementsAre(300));
  EXPECT_THAT(encode(*tokenizer, "ne\u0301"), ElementsAre('n', 0xC3, 0xA9));
  EXPECT_THAT(encode(*tokenizer, "n\u00e9"), ElementsAre(301));
}

TEST(Tokenizer, NfcLeavesMarksNewerThanTheReferenceWhereTheyAre) {
  auto json = small_tokenizer_json();
  set_json(json, "normalizer", R"({"type": "NFC"})");
  const auto tokenizer = build(json);
  const auto bytes = [&](std::string_view text) { return tokenizer->decode(encode(*tokenizer, text), false); };
  EXPECT_EQ(bytes("a\u0301\u0334"), "\u00e1\u0334");
  EXPECT_EQ(bytes("q\u0301\u0334"), "q\u0334\u0301");
  EXPECT_EQ(bytes("q\u1aca\u0334e\u0301"), "q\u1aca\u0334\u00e9");
}

TEST(Tokenizer, TemplatesAndFlagsAddTokens) {
  auto json = with_added({R"({"content": "<s>", "special": true})", R"({"content": "</s>", "special": true})"});
  const std::string config = R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}, "add_bos_token": true})";
  const auto by_flag = build(json, config);
  EXPECT_EQ(by_flag->bos_id(), 300);
  EXPECT_EQ(by_flag->eos_id(), 301);
  EXPECT_THAT(encode(*by_flag, "x", {.add_special_tokens = true}), ElementsAre(300, 'x'));
  EXPECT_THAT(encode(*by_flag, "x"), ElementsAre('x'));
  set_json(json, "post_processor", R"({"type": "Sequence", "processors": [{"type": "ByteLevel"},
      {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "A"}}, {"Sequence": {"id": "A"}},
      {"SpecialToken": {"id": "B"}}], "special_tokens": {"A": {"ids": [300, 300]}, "B": {"ids": [301]}}}]})");
  EXPECT_THAT(encode(*build(json, config), "x", {.add_special_tokens = true}), ElementsAre(300, 300, 'x', 301));
}

TEST(Tokenizer, MergesMayBePairs) {
  auto json = small_tokenizer_json({"a b"});
  set_json(json, "model/merges", R"([["a", "b"]])");
  EXPECT_THAT(encode(*build(json), "ab"), ElementsAre(256));
}

struct BrokenFile {
  std::string_view path, value, expected;
};

class BrokenTokenizer : public testing::TestWithParam<BrokenFile> {};

TEST_P(BrokenTokenizer, IsRefusedByName) {
  auto json = small_tokenizer_json({"a b"});
  set_json(json, GetParam().path, GetParam().value);
  EXPECT_THAT(error_of(json), HasSubstr(std::string(GetParam().expected))) << GetParam().path;
}

INSTANTIATE_TEST_SUITE_P(
    Files, BrokenTokenizer,
    testing::Values(
        BrokenFile{"model", "null", "key 'model'"}, BrokenFile{"model/type", "\"Unigram\"", "\"Unigram\""},
        BrokenFile{"model/vocab", "[]", "key 'vocab'"}, BrokenFile{"model/vocab", "{}", "byte 0x20"},
        BrokenFile{"model/vocab/zz", "-1", "token \"zz\""},
        BrokenFile{"model/vocab/zz", "65", "which another token has"},
        BrokenFile{"model/vocab/zz", "5000000000", "found 5000000000"},
        BrokenFile{"model/vocab/zz", "\"1\"", "found \"1\""}, BrokenFile{"model/vocab/zz", "1.5", "token \"zz\""},
        BrokenFile{"model/merges", "null", "key 'merges'"}, BrokenFile{"model/merges/1", "\"a\"", "'merges'[1]"},
        BrokenFile{"model/merges/1", "\"a b c\"", "'merges'[1]"},
        BrokenFile{"model/merges/1", "\"a zz\"", "in 'vocab'"}, BrokenFile{"model/merges/1", "[\"a\"]", "'merges'[1]"},
        BrokenFile{"model/merges/1", "[\"a\", 1]", "'merges'[1]"},
        BrokenFile{"model/merges/1", "\"a ｜\"", "in 'vocab'"}, BrokenFile{"model/dropout", "0.1", "'dropout'"},
        BrokenFile{"model/end_of_word_suffix", "\"</w>\"", "'end_of_word_suffix'"},
        BrokenFile{"model/continuing_subword_prefix", "\"##\"", "'continuing_subword_prefix'"},
        BrokenFile{"model/ignore_merges", "1", "'ignore_merges'"},
        BrokenFile{"normalizer", "{\"type\": \"Nmt\"}", "NFC"},
        BrokenFile{"decoder", "{\"type\": \"Metaspace\"}", "expected ByteLevel"},
        BrokenFile{"normalizer", "{\"type\": \"Sequence\"}", "'normalizers'"},
        BrokenFile{"decoder", "{\"type\": \"WordPiece\"}", "\"WordPiece\""},
        BrokenFile{"added_tokens", "{}", "'added_tokens'"}, BrokenFile{"added_tokens/0", "{\"id\": 300}", "'content'"},
        BrokenFile{"added_tokens/0", "{\"id\": 300, \"content\": \"\"}", "not empty"},
        BrokenFile{"added_tokens/0", "{\"id\": -3, \"content\": \"x\"}", "'id'"},
        BrokenFile{"added_tokens/0", "{\"id\": 300, \"content\": \"ab\"}", "in 'model.vocab' as 256"},
        BrokenFile{"added_tokens/0", "{\"id\": 65, \"content\": \"<x>\"}", "taken in 'model.vocab'"},
        BrokenFile{"added_tokens", R"([{"id": 300, "content": "x1"}, {"id": 300, "content": "x2"}])", "this id"},
        BrokenFile{"added_tokens", R"([{"id": 300, "content": "x1"}, {"id": 301, "content": "x1"}])", "this text"},
        BrokenFile{"post_processor", R"({"type": "BertProcessing"})", "'cls'"},
        BrokenFile{"post_processor", R"({"type": "TemplateProcessing", "single": []})", "with a Sequence"},
        BrokenFile{"post_processor", R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "A"}}]})",
                   "'A'"},
        BrokenFile{"post_processor",
                   R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "A"}}, {"Sequence": {}}],
                       "special_tokens": {"A": {"ids": [999]}}})",
                   "ids of tokens"}));

TEST(Tokenizer, BrokenTexts) {
  EXPECT_FALSE(Tokenizer::from_json("").ok());
  EXPECT_FALSE(Tokenizer::from_json("[]").ok());
  EXPECT_FALSE(Tokenizer::from_json("{}").ok());
  EXPECT_FALSE(Tokenizer::from_json(std::string(100000, '[')).ok());
  const auto json = small_tokenizer_json();
  EXPECT_THAT(error_of(json, "{"), HasSubstr("tokenizer_config.json"));
  EXPECT_EQ(build(json, R"({"bos_token": "<s>"})")->bos_id(), std::nullopt);  // with a warning
  EXPECT_THAT(error_of(json, R"({"eos_token": 7})"), HasSubstr("'eos_token'"));
  EXPECT_THAT(Tokenizer::load("/nonexistent").status().message(), HasSubstr("tokenizer.json"));
}

// One random edit of `text`, half of them before `boundary`.
void damage(std::string& text, std::size_t boundary, std::mt19937& random) {
  constexpr std::string_view kPieces[] = {"null", "true", "-1",  "99999999999", "\"", "{", "}", "[", "]",
                                          ",",    ":",    "1e9", "\\",          "é",  "+", "*", "("};
  const std::size_t limit = random() % 2 == 0 ? std::min(boundary, text.size()) : text.size();
  const std::size_t at = random() % (limit + 1);
  const std::string_view piece = kPieces[random() % std::size(kPieces)];
  switch (random() % 5) {
    case 0:
      text.erase(at, random() % 20);
      break;
    case 1:
      text.insert(at, piece);
      break;
    case 2:
      text.replace(at, random() % 8, piece);
      break;
    case 3:
      if (at < text.size()) text[at] = static_cast<char>(random() % 256);
      break;
    default:
      text.insert(at, std::string(text, random() % (text.size() + 1), random() % 40));
  }
}

TEST(Tokenizer, RandomDamageGivesAnErrorOrAWorkingTokenizer) {
  constexpr unsigned kSeed = 7;
  constexpr int kRounds = random_cases(6000);
  auto json = with_added({R"({"content": "<s>", "special": true})", R"({"content": "<t>", "lstrip": true})"});
  set_json(json, "pre_tokenizer", R"json({"type": "Sequence", "pretokenizers": [
      {"type": "Split", "pattern": {"Regex": "\\p{N}{1,3}|[a-z\\s]+(?!\\S)"}, "behavior": "Isolated", "invert": false},
      {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}]})json");
  set_json(json, "post_processor", R"json({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "A"}},
      {"Sequence": {"id": "A"}}], "special_tokens": {"A": {"ids": [300]}}})json");
  const std::string whole = boost::json::serialize(json);
  // The vocabulary fills most of the file: half of the damage goes to the rest.
  const std::size_t boundary = whole.find("\"vocab\"");
  std::mt19937 random(kSeed);
  int accepted = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::string text = whole;
    for (auto edits = 1 + random() % 3; edits > 0; --edits) damage(text, boundary, random);
    const auto tokenizer = Tokenizer::from_json(text);
    if (!tokenizer.ok()) {
      ASSERT_FALSE(tokenizer.status().message().empty());
      continue;
    }
    ++accepted;
    const auto ids = (*tokenizer)->encode("<s>Hello  12345 <t>wörld\n", {.add_special_tokens = true});
    if (ids.ok()) static_cast<void>((*tokenizer)->decode(*ids, false));
  }
  EXPECT_GT(accepted, kRounds / 100) << "seed " << kSeed;
  EXPECT_LT(accepted, kRounds / 2) << "seed " << kSeed;
}

TEST(Tokenizer, ManyThreadsGetTheSameIds) {
  const auto tokenizer = Tokenizer::load(source_dir() + "/models/sluice-tiny-v4").value();
  std::vector<std::string> texts;
  for (int i = 0; i < 50; ++i)
    texts.push_back("Text number " + std::to_string(i * 7919) + ": 你好, wörld!\n<think>" +
                    std::string(static_cast<std::size_t>(i), ' '));
  std::vector<Ids> expected;
  for (const std::string& text : texts) expected.push_back(encode(*tokenizer, text));
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        for (std::size_t i = 0; i < texts.size(); ++i) wrong += encode(*tokenizer, texts[i]) == expected[i] ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace sluice::tokenizer_test
