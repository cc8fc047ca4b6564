#include "config/generation_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/storage/temp_folder_testing.h"

namespace sluice::generation_config_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string error_of(std::string_view text) {
  const auto config = parse_generation_config(text, "generation_config.json");
  return config.ok() ? "(accepted)" : config.status().message();
}

TEST(GenerationConfig, ReadsTheDefaultsOfSampling) {
  const auto config = parse_generation_config(
      R"({"do_sample": true, "temperature": 0.6, "top_p": 0.95, "top_k": 20, "min_p": 0.1, "repetition_penalty": 1.05,
          "presence_penalty": 1.5, "frequency_penalty": -0.5, "eos_token_id": [3, 5], "max_new_tokens": 2048})",
      "generation_config.json");
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_FLOAT_EQ(config->min_p.value(), 0.1F);
  EXPECT_FLOAT_EQ(config->repetition_penalty.value(), 1.05F);
  EXPECT_FLOAT_EQ(config->presence_penalty.value(), 1.5F);
  EXPECT_FLOAT_EQ(config->frequency_penalty.value(), -0.5F);
  EXPECT_TRUE(config->has_penalties());
  EXPECT_THAT(config->eos_token_ids, ElementsAre(3, 5));
  EXPECT_THAT(config->unsupported, IsEmpty());
  EXPECT_FALSE(parse_generation_config(R"({"repetition_penalty": 1.0})", "f")->has_penalties());
}

TEST(GenerationConfig, IdsThatMeanNoneAreLeftOut) {
  EXPECT_THAT(parse_generation_config(R"({"eos_token_id": -1})", "f")->eos_token_ids, IsEmpty());
  EXPECT_THAT(parse_generation_config(R"({"eos_token_id": [4294967295, 7, -1]})", "f")->eos_token_ids, ElementsAre(7));
  EXPECT_THAT(error_of(R"({"eos_token_id": -2})"), HasSubstr("key 'eos_token_id': expected token ids from 0"));
  EXPECT_THAT(error_of(R"({"eos_token_id": "x"})"), HasSubstr("found \"x\""));
}

TEST(GenerationConfig, NamesWhatNothingHereDoes) {
  const auto config = parse_generation_config(
      R"({"typical_p": 1.0, "num_beams": 4, "no_repeat_ngram_size": 3, "bad_words_ids": [], "suppress_tokens": [1]})",
      "f");
  EXPECT_THAT(config->unsupported, ElementsAre("num_beams 4", "no_repeat_ngram_size 3", "suppress_tokens [1]"));
  EXPECT_THAT(error_of(R"({"repetition_penalty": 0})"), HasSubstr("key 'repetition_penalty'"));
}

TEST(GenerationConfig, ReadsDefaults) {
  const auto config = parse_generation_config(
      R"({"_from_model_config":true,"bos_token_id":0,"eos_token_id":[1,2],"do_sample":true,"temperature":0.6,)"
      R"("top_p":0.95,"top_k":20})",
      "generation_config.json");
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->do_sample, true);
  EXPECT_EQ(config->temperature, 0.6F);
  EXPECT_EQ(config->top_p, 0.95F);
  EXPECT_EQ(config->top_k, 20);
  EXPECT_THAT(config->eos_token_ids, ElementsAre(1, 2));
}

TEST(GenerationConfig, AbsentFilesAndKeysHaveNoValue) {
  const TempFolder folder;
  const auto absent = load_generation_config(folder.path());
  ASSERT_TRUE(absent.ok());
  EXPECT_FALSE(absent->temperature || absent->top_p || absent->top_k || absent->do_sample);
  folder.write("generation_config.json", R"({"temperature":null,"eos_token_id":3})");
  const auto sparse = load_generation_config(folder.path());
  ASSERT_TRUE(sparse.ok());
  EXPECT_FALSE(sparse->temperature.has_value());
  EXPECT_THAT(sparse->eos_token_ids, ElementsAre(3));
  folder.write("config.json", "{}");
  const auto beside = load_generation_config(folder.path() + "/config.json");
  ASSERT_TRUE(beside.ok());
  EXPECT_THAT(beside->eos_token_ids, ElementsAre(3));
}

TEST(GenerationConfig, RefusesAbsurdValues) {
  const auto error = [](std::string_view text) { return parse_generation_config(text, "g").status().message(); };
  EXPECT_THAT(error(R"({"temperature":-1})"), HasSubstr("g: key 'temperature': expected a number from 0.0 to 100.0"));
  EXPECT_THAT(error(R"({"temperature":"hot"})"), HasSubstr("found \"hot\""));
  EXPECT_THAT(error(R"({"top_p":0})"), HasSubstr("'top_p'"));
  EXPECT_THAT(error(R"({"top_p":1.5})"), HasSubstr("'top_p'"));
  EXPECT_THAT(error(R"({"top_k":1.5})"), HasSubstr("'top_k'"));
  EXPECT_THAT(error(R"({"eos_token_id":-2})"), HasSubstr("'eos_token_id'"));
  EXPECT_THAT(error("3"), HasSubstr("expected an object"));
}

}  // namespace
}  // namespace sluice::generation_config_test
