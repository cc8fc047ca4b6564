#include "config/rope_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>

#include "config/model_config.h"
#include "files/json.h"

namespace sluice::rope_config_test {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;

// A Llama whose heads rotate 8 values.
Result<ModelConfig> parse(const json::object& changes) {
  json::object config = {{"model_type", "llama"},
                         {"hidden_size", 32},
                         {"num_attention_heads", 4},
                         {"max_position_embeddings", 512},
                         {"num_hidden_layers", 1}};
  for (const auto& [key, value] : changes) config[key] = value;
  return parse_model_config(dump_json(config), "config.json");
}
RopeConfig rope(const json::object& changes) {
  const auto parsed = parse(changes);
  EXPECT_TRUE(parsed.ok()) << parsed.status().message();
  return parsed.ok() ? parsed->rope : RopeConfig{.theta = -1};
}
std::string error(const json::object& changes) {
  const auto parsed = parse(changes);
  return parsed.ok() ? "(accepted)" : parsed.status().message();
}

TEST(RopeConfig, InnerThetaAndOuterOriginalLengthWin) {
  EXPECT_EQ(rope({{"rope_theta", 300}, {"rope_parameters", {{"rope_theta", 500}}}}).theta, 500);
  EXPECT_EQ(rope({{"rope_theta", 300}, {"rope_scaling", {{"type", "default"}, {"rope_theta", 500}}}}).theta, 500);
  EXPECT_EQ(rope({{"rope_theta", 300}, {"rope_parameters", {{"rope_type", "default"}}}}).theta, 300);
  EXPECT_EQ(rope({{"rope_theta", nullptr}, {"rope_parameters", {{"rope_theta", 500}}}}).theta, 500);
  EXPECT_THAT(error({{"rope_theta", 300}, {"rope_parameters", {{"rope_theta", nullptr}}}}),
              HasSubstr("key 'rope_theta': expected a number, found null"));
  // rope_scaling counts alone, unless it is empty.
  EXPECT_EQ(rope({{"rope_scaling", {{"type", "default"}}}, {"rope_parameters", {{"rope_theta", 500}}}}).theta, 10000);
  EXPECT_EQ(rope({{"rope_scaling", json::object()}, {"rope_parameters", {{"rope_theta", 500}}}}).theta, 500);
  const json::object yarn = {{"type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", 64.0}};
  EXPECT_EQ(rope({{"rope_scaling", yarn}}).original_max_position_embeddings, 64);
  EXPECT_EQ(rope({{"rope_scaling", yarn}, {"original_max_position_embeddings", 32}}).original_max_position_embeddings,
            32);
}

TEST(RopeConfig, Yarn) {
  RopeConfig found = rope({{"rope_scaling", {{"rope_type", "yarn"}, {"type", "linear"}, {"factor", 4}}}});
  EXPECT_TRUE(found.yarn && found.truncate && !found.linear);
  EXPECT_EQ(found.original_max_position_embeddings, 512);
  found = rope({{"rope_scaling",
                 {{"type", "yarn"},
                  {"factor", nullptr},
                  {"truncate", false},
                  {"beta_fast", 0},
                  {"beta_slow", nullptr},
                  {"original_max_position_embeddings", 64}}}});
  EXPECT_FALSE(found.truncate);
  EXPECT_EQ(found.factor, 8);
  EXPECT_EQ(found.beta_fast, 32);
  EXPECT_EQ(found.beta_slow, 1);
  EXPECT_DOUBLE_EQ(found.attention_factor, 0.1 * std::log(8.0) + 1);
  EXPECT_THAT(error({{"rope_scaling", {{"type", "yarn"}}}}), HasSubstr("key 'factor': expected a number, or null"));
}

TEST(RopeConfig, OtherTypes) {
  EXPECT_TRUE(rope({{"rope_scaling", {{"type", "linear"}, {"factor", 1}}}}).linear);
  EXPECT_TRUE(rope({{"rope_scaling", {{"type", "dynamic"}, {"factor", 2}}}}).dynamic);
  EXPECT_EQ(rope({{"rope_parameters", {{"rope_type", "proportional"}, {"partial_rotary_factor", 0.5}}}}).rotated, 0.5);
  EXPECT_THAT(error({{"rope_scaling", {{"type", "linear"}}}}), HasSubstr("key 'factor': expected a value"));
  EXPECT_THAT(error({{"rope_scaling", {{"type", "ntk"}}}}), HasSubstr("key 'type': expected one of \"default\""));
}

TEST(RopeConfig, LongRopeChoosesItsFactors) {
  const json::array small = {1, 1.5, 2, 3}, large = {2, 4, 6, 8};
  json::object scaling = {{"type", "longrope"}, {"short_factor", small}, {"long_factor", large}};
  scaling["original_max_position_embeddings"] = 64;
  ModelConfig config = parse({{"rope_scaling", scaling}}).value();
  EXPECT_TRUE(config.rope.uses_long_factors);
  EXPECT_EQ(config.rope.factor, 8);
  EXPECT_DOUBLE_EQ(config.rope.attention_factor, std::sqrt(1 + std::log(8.0) / std::log(64.0)));
  EXPECT_EQ(config.rope.long_factors, (std::vector<float>{2, 4, 6, 8}));
  choose_rope_factors(64, config);
  EXPECT_FALSE(config.rope.uses_long_factors);
  choose_rope_factors(65, config);
  EXPECT_TRUE(config.rope.uses_long_factors);
  scaling["long_factor"].as_array().pop_back();
  EXPECT_THAT(error({{"rope_scaling", scaling}}), HasSubstr("key 'long_factor': expected a list of 4 numbers above 0"));
}

TEST(RopeConfig, KeysThatNobodyKnowsAreRefused) {
  EXPECT_THAT(error({{"rope_scaling", {{"type", "default"}, {"attn_factor", 2}}}}),
              HasSubstr("config.json: key 'rope_scaling': key 'attn_factor': expected no such key"));
  EXPECT_THAT(error({{"rope_parameters", {{"full_attention", {{"rope_theta", 1e6}}}}}}), HasSubstr("'full_attention'"));
  EXPECT_EQ(error({{"rope_scaling", {{"type", "default"}, {"beta_fast", 2}, {"finetuned", true}}}}), "(accepted)");
  EXPECT_EQ(error({{"partial_rotary_factor", 0.5}}), "(accepted)");  // the library does not look at it either
  EXPECT_THAT(error({{"partial_rotary_factor", 0.5}, {"rope_scaling", {{"type", "linear"}, {"factor", 2}}}}),
              HasSubstr("key 'partial_rotary_factor': expected 1"));
}

}  // namespace
}  // namespace sluice::rope_config_test
