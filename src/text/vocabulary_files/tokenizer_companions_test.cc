#include "text/vocabulary_files/tokenizer_companions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "base/storage/temp_folder_testing.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/tokenizer_testing.h"

namespace sluice::tokenizer_companions_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CompanionsTest : public ::testing::Test {
 protected:
  void write(const std::string& name, std::string_view text) { folder_.write(name, text); }
  void write_tokenizer(const boost::json::object& json) { write("tokenizer.json", boost::json::serialize(json)); }
  std::vector<std::int32_t> encode(std::string_view text) {
    const auto tokenizer = Tokenizer::load(folder_.path());
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    return tokenizer.ok() ? (*tokenizer)->encode(text).value() : std::vector<std::int32_t>();
  }
  std::string error() {
    const auto tokenizer = Tokenizer::load(folder_.path());
    return tokenizer.ok() ? "(accepted)" : tokenizer.status().message();
  }
  std::optional<std::int32_t> eos() { return Tokenizer::load(folder_.path()).value()->eos_id(); }

  TempFolder folder_;
};

TEST_F(CompanionsTest, TokensOfEachFile) {
  write_tokenizer(small_tokenizer_json());
  EXPECT_THAT(encode("<t>"), ElementsAre('<', 't', '>'));
  write("added_tokens.json", R"({"<t>": 256})");
  EXPECT_THAT(encode("<t>"), ElementsAre(256));
  write("special_tokens_map.json", R"({"eos_token": "<e>", "additional_special_tokens": ["<a>"]})");
  EXPECT_THAT(encode("<t><e><a>"), ElementsAre(256, 257, 258));
  EXPECT_EQ(eos(), 257);
  // With added_tokens_decoder the other two files do not count, and ids follow one another whatever it says.
  write("tokenizer_config.json", R"({"added_tokens_decoder": {"900": {"content": "<d>", "lstrip": true}}})");
  EXPECT_THAT(encode("<t>"), ElementsAre('<', 't', '>'));
  EXPECT_THAT(encode("a <d>"), ElementsAre('a', 256));
  EXPECT_EQ(eos(), std::nullopt);
}

TEST_F(CompanionsTest, FlagsOfTheConfigWin) {
  auto json = small_tokenizer_json();
  set_json(json, "added_tokens/0", R"({"id": 256, "content": "<t>", "special": false, "normalized": true})");
  write_tokenizer(json);
  EXPECT_THAT(encode(" <t> "), ElementsAre(' ', 256, ' '));
  write("tokenizer_config.json", R"({"added_tokens_decoder": {"256": {"content": "<t>", "rstrip": true}}})");
  EXPECT_THAT(encode(" <t> "), ElementsAre(' ', 256));
}

TEST_F(CompanionsTest, VocabularyAndMergesByClass) {
  const auto json = small_tokenizer_json({"a b", "1 2"});
  write("vocab.json", boost::json::serialize(json.at("model").at("vocab")));
  write("merges.txt", "#version: 0.2\r\na b\r\n1 2\n");
  EXPECT_THAT(error(), HasSubstr("'tokenizer_class': expected Qwen2Tokenizer or GPT2Tokenizer"));
  write("tokenizer_config.json", R"({"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<e>"})");
  EXPECT_THAT(encode("ab12<e>"), ElementsAre(256, '1', '2', 258));
  write("tokenizer_config.json", R"({"tokenizer_class": "GPT2TokenizerFast", "add_prefix_space": true})");
  EXPECT_THAT(encode("ab12"), ElementsAre(' ', 256, 257));
  write("merges.txt", "a b c\n");
  EXPECT_THAT(error(), HasSubstr("merges.txt: line 1: expected two tokens"));
}

TEST_F(CompanionsTest, BosByFlag) {
  write_tokenizer(small_tokenizer_json());
  const auto first = [&](const char* name) {
    write("tokenizer_config.json",
          std::string(R"({"bos_token": "<b>", "add_bos_token": true, "tokenizer_class": ")") + name + "\"}");
    return Tokenizer::load(folder_.path()).value()->encode("a", {.add_special_tokens = true}).value();
  };
  EXPECT_THAT(first("PreTrainedTokenizerFast"), ElementsAre('a'));
  EXPECT_THAT(first("LlamaTokenizerFast"), ElementsAre(256, 'a'));
}

TEST_F(CompanionsTest, NamesForTemplates) {
  write("tokenizer_config.json", R"({"bos_token": {"content": "<b>"}, "eos_token": null, "image_token": "<i>"})");
  const auto files = read_tokenizer_files(folder_.path(), /*with_vocabulary=*/false);
  ASSERT_TRUE(files.ok()) << files.status().message();
  EXPECT_EQ(boost::json::serialize(special_tokens(*files).value()), R"({"bos_token":"<b>","image_token":"<i>"})");
  write("special_tokens_map.json", R"({"eos_token": "<e>", "bos_token": "<m>"})");
  const auto more = read_tokenizer_files(folder_.path(), /*with_vocabulary=*/false);
  EXPECT_EQ(boost::json::serialize(special_tokens(*more).value()),
            R"({"bos_token":"<m>","eos_token":"<e>","image_token":"<i>"})");
}

TEST_F(CompanionsTest, WrongFilesAreNamed) {
  write_tokenizer(small_tokenizer_json());
  write("added_tokens.json", R"({"<t>": -1})");
  EXPECT_THAT(error(), HasSubstr("added_tokens.json: key '<t>': expected an id from 0"));
  write("added_tokens.json", "[]");
  EXPECT_THAT(error(), HasSubstr("added_tokens.json: expected an object, found []"));
  write("added_tokens.json", "{}");
  write("tokenizer_config.json", R"({"added_tokens_decoder": {"x": {"content": "<t>"}}})");
  EXPECT_THAT(error(), HasSubstr("'added_tokens_decoder': expected ids from 0"));
  write("tokenizer_config.json", R"({"eos_token": 5})");
  EXPECT_THAT(error(), HasSubstr("tokenizer_config.json: key 'eos_token': expected the text of a token"));
}

}  // namespace
}  // namespace sluice::tokenizer_companions_test
