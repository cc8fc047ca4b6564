#include "config/decoder_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>

#include "config/model_config.h"
#include "files/json.h"

namespace sluice::decoder_config_test {
namespace {

namespace json = boost::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

json::object small(const std::string& architecture, const json::object& changes = {}) {
  json::object config = {{"architectures", json::array{json::string(architecture)}},
                         {"vocab_size", 512},
                         {"hidden_size", 128},
                         {"intermediate_size", 256},
                         {"num_hidden_layers", 4},
                         {"num_attention_heads", 4},
                         {"num_key_value_heads", 2},
                         {"max_position_embeddings", 1024},
                         {"rms_norm_eps", 1e-6}};
  if (architecture == "Qwen3MoeForCausalLM") {
    config["num_experts"] = 8;
    config["num_experts_per_tok"] = 2;
    config["moe_intermediate_size"] = 32;
  }
  for (const auto& [key, value] : changes) config[key] = value;
  return config;
}

ModelConfig parse(const json::object& config) {
  Result<ModelConfig> parsed = parse_model_config(dump_json(config), "config.json");
  if (parsed.ok()) return *parsed;
  ADD_FAILURE() << parsed.status().message();
  ModelConfig none;
  none.family = DecoderConfig{};
  return none;
}

std::string error_of(const json::object& config) {
  const auto parsed = parse_model_config(dump_json(config), "config.json");
  return parsed.ok() ? "(accepted)" : parsed.status().message();
}

TEST(DecoderConfig, FamiliesDifferInWhatIsSwitchedOn) {
  const auto flags = [](const std::string& architecture, bool attention_bias) {
    const DecoderConfig decoder = parse(small(architecture, {{"attention_bias", attention_bias}})).decoder();
    return std::vector<bool>{decoder.qk_norm, decoder.qkv_bias, decoder.o_bias};
  };
  EXPECT_THAT(flags("LlamaForCausalLM", false), ElementsAre(false, false, false));
  EXPECT_THAT(flags("LlamaForCausalLM", true), ElementsAre(false, true, true));
  EXPECT_THAT(flags("Qwen2ForCausalLM", false), ElementsAre(false, true, false));
  EXPECT_THAT(flags("Qwen3ForCausalLM", false), ElementsAre(true, false, false));
  EXPECT_THAT(flags("Qwen3MoeForCausalLM", true), ElementsAre(true, true, true));
}

TEST(DecoderConfig, HeadsDivideTheHiddenSizeUnlessTheirWidthIsGiven) {
  EXPECT_EQ(parse(small("LlamaForCausalLM")).head_dim, 32);
  EXPECT_EQ(parse(small("LlamaForCausalLM", {{"head_dim", 64}})).head_dim, 64);
  EXPECT_EQ(parse(small("LlamaForCausalLM", {{"num_key_value_heads", nullptr}})).num_key_value_heads, 4);
  EXPECT_THAT(error_of(small("LlamaForCausalLM", {{"hidden_size", 130}})), HasSubstr("'head_dim'"));
  EXPECT_THAT(error_of(small("LlamaForCausalLM", {{"head_dim", 33}})), HasSubstr("an even number, found 33"));
  EXPECT_THAT(error_of(small("LlamaForCausalLM", {{"num_key_value_heads", 3}})),
              HasSubstr("a divisor of num_attention_heads (4), found 3"));
}

TEST(DecoderConfig, WindowsInBothForms) {
  const auto windows = [](const json::object& changes) {
    return parse(small("Qwen2ForCausalLM", changes)).decoder().windows;
  };
  const json::array types = {"full_attention", "sliding_attention", "full_attention", "sliding_attention"};
  EXPECT_THAT(windows({}), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(windows({{"use_sliding_window", true}, {"sliding_window", 64}, {"max_window_layers", 3}}),
              ElementsAre(0, 0, 0, 64));
  EXPECT_THAT(windows({{"use_sliding_window", true}, {"sliding_window", 64}}), ElementsAre(0, 0, 0, 0));  // from 28 on
  EXPECT_THAT(windows({{"use_sliding_window", true}, {"max_window_layers", 0}}), ElementsAre(4096, 4096, 4096, 4096));
  EXPECT_THAT(windows({{"use_sliding_window", true}, {"max_window_layers", 0}, {"sliding_window", nullptr}}),
              ElementsAre(0, 0, 0, 0));
  // The window is given even when it is off.
  EXPECT_THAT(windows({{"use_sliding_window", false}, {"sliding_window", 64}, {"max_window_layers", 3}}),
              ElementsAre(0, 0, 0, 0));
  const json::object by_types = {
      {"layer_types", types}, {"sliding_window", 64}, {"use_sliding_window", true}, {"max_window_layers", 3}};
  EXPECT_THAT(windows(by_types), ElementsAre(0, 64, 0, 64));
  const auto error = [&](const char* key, const json::value& value) {
    json::object changes = by_types;
    changes[key] = value;
    return error_of(small("Qwen2ForCausalLM", changes));
  };
  EXPECT_THAT(error("use_sliding_window", false), HasSubstr("'use_sliding_window': expected true, as layer_types"));
  EXPECT_THAT(error("sliding_window", nullptr), HasSubstr("'sliding_window'"));
  EXPECT_THAT(error_of(small("Qwen2ForCausalLM", {{"layer_types", json::array{"full_attention"}}})),
              HasSubstr("a type for each of num_hidden_layers = 4"));
  EXPECT_THAT(error_of(small("Qwen2ForCausalLM", {{"layer_types", json::array(4, "linear_attention")}})),
              HasSubstr("types full_attention or sliding_attention"));
}

TEST(DecoderConfig, EachFamilyHasItsOwnRuleForWindows) {
  const json::object keys = {{"layer_types", json::array(4, "full_attention")},
                             {"use_sliding_window", true},
                             {"sliding_window", 64},
                             {"max_window_layers", 3},
                             {"head_dim", 32}};
  const auto windows = [&](const char* architecture) { return parse(small(architecture, keys)).decoder().windows; };
  EXPECT_THAT(windows("LlamaForCausalLM"), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(windows("Qwen3ForCausalLM"), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(windows("Qwen3MoeForCausalLM"), ElementsAre(64, 64, 64, 64));
  EXPECT_THAT(windows("MistralForCausalLM"), ElementsAre(0, 0, 0, 0));
  const auto mistral = [](const json::object& changes) {
    return parse(small("MistralForCausalLM", changes)).decoder().windows;
  };
  EXPECT_THAT(mistral({}), ElementsAre(4096, 4096, 4096, 4096));
  EXPECT_THAT(mistral({{"sliding_window", 16}, {"use_sliding_window", false}}), ElementsAre(16, 16, 16, 16));
  EXPECT_THAT(mistral({{"sliding_window", nullptr}}), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(error_of(small("MistralForCausalLM", {{"layer_types", json::array(4, "full_attention")}})),
              HasSubstr("key 'head_dim'"));
}

TEST(DecoderConfig, AbsentKeysHaveTheFamilysDefaults) {
  const auto without = [](const char* architecture, std::initializer_list<const char*> keys) {
    json::object config = small(architecture);
    for (const char* key : keys) config.erase(key);
    return parse(config);
  };
  const ModelConfig llama =
      without("LlamaForCausalLM", {"rms_norm_eps", "max_position_embeddings", "num_key_value_heads"});
  EXPECT_EQ(llama.rms_norm_eps, 1e-6);
  EXPECT_EQ(llama.max_position_embeddings, 2048);
  EXPECT_EQ(llama.num_key_value_heads, 4);
  EXPECT_EQ(without("Qwen3ForCausalLM", {}).head_dim, 128);
  EXPECT_THAT(without("Qwen3ForCausalLM", {"intermediate_size"}).default_sizes,
              ElementsAre("head_dim 128", "intermediate_size 22016"));
  EXPECT_EQ(without("Qwen3MoeForCausalLM", {"num_experts"}).moe.n_routed_experts, 128);
  json::object config = small("MistralForCausalLM");
  config.erase("num_key_value_heads");
  EXPECT_THAT(error_of(config),
              HasSubstr("a divisor of num_attention_heads (4) (where it is absent, mistral's default 8"));
}

TEST(DecoderConfig, ExpertsInBothForms) {
  const std::string architecture = "Qwen3MoeForCausalLM";
  const ModelConfig config = parse(small(architecture));
  EXPECT_EQ(config.moe.n_routed_experts, 8);
  EXPECT_EQ(config.moe.scoring_func, "softmax");
  EXPECT_FALSE(config.moe.norm_topk_prob);
  EXPECT_THAT(config.decoder().sparse_layers, ElementsAre(true, true, true, true));
  EXPECT_EQ(parse(small(architecture, {{"num_experts", nullptr}, {"num_local_experts", 4}})).moe.n_routed_experts, 4);
  EXPECT_TRUE(parse(small(architecture, {{"norm_topk_prob", true}})).moe.norm_topk_prob);
  const auto sparse = [&](const json::object& changes) {
    return parse(small(architecture, changes)).decoder().sparse_layers;
  };
  EXPECT_THAT(sparse({{"decoder_sparse_step", 2}}), ElementsAre(false, true, false, true));
  EXPECT_THAT(sparse({{"mlp_only_layers", json::array{0, 3}}}), ElementsAre(false, true, true, false));
  EXPECT_THAT(error_of(small(architecture, {{"num_experts_per_tok", 9}})), HasSubstr("'num_experts_per_tok'"));
  EXPECT_THAT(error_of(small(architecture, {{"num_experts", 65536}, {"num_hidden_layers", 4096}})),
              HasSubstr("at most 131072 routed experts in all layers, found 4096 x 65536"));
  EXPECT_THAT(parse(small("Qwen3ForCausalLM")).decoder().sparse_layers, ElementsAre(false, false, false, false));
}

TEST(DecoderConfig, RopeInBothForms) {
  const auto rope = [](const json::object& changes) { return parse(small("Qwen3ForCausalLM", changes)).rope; };
  const json::object yarn = {{"factor", 8.0}, {"original_max_position_embeddings", 128}, {"beta_slow", 2}};
  json::object official = yarn, older = yarn, newer = yarn;
  official["type"] = older["rope_type"] = newer["rope_type"] = "yarn";
  newer["rope_theta"] = 5000.0;
  const RopeConfig expected = rope({{"rope_theta", 5000.0}, {"rope_scaling", official}});
  EXPECT_TRUE(expected.yarn);
  EXPECT_EQ(expected.theta, 5000.0);
  EXPECT_EQ(expected.beta_slow, 2.0);
  EXPECT_DOUBLE_EQ(expected.attention_factor, 0.1 * std::log(8.0) + 1.0);
  EXPECT_EQ(rope({{"rope_theta", 5000.0}, {"rope_scaling", older}}), expected);
  EXPECT_EQ(rope({{"rope_parameters", newer}}), expected);
  EXPECT_EQ(rope({{"rope_scaling", nullptr}, {"rope_parameters", newer}}), expected);
  newer["attention_factor"] = 1.5;
  EXPECT_EQ(rope({{"rope_parameters", newer}}).attention_factor, 1.5);
  EXPECT_EQ(rope({}), RopeConfig{});
}

TEST(DecoderConfig, Llama3Scaling) {
  json::object scaling = {{"rope_type", "llama3"},
                          {"factor", 8.0},
                          {"low_freq_factor", 1.0},
                          {"high_freq_factor", 4.0},
                          {"original_max_position_embeddings", 8192}};
  const RopeConfig rope = parse(small("LlamaForCausalLM", {{"rope_theta", 5e5}, {"rope_scaling", scaling}})).rope;
  EXPECT_TRUE(rope.llama3 && !rope.yarn);
  EXPECT_EQ(rope.factor, 8.0);
  EXPECT_EQ(rope.attention_factor, 1.0);
  scaling.erase("high_freq_factor");
  EXPECT_THAT(error_of(small("LlamaForCausalLM", {{"rope_scaling", scaling}})), HasSubstr("key 'high_freq_factor'"));
  scaling["rope_type"] = "mrope";
  EXPECT_THAT(error_of(small("LlamaForCausalLM", {{"rope_scaling", scaling}})),
              HasSubstr("key 'rope_type': expected one of \"default\", \"linear\""));
}

TEST(DecoderConfig, VariantsThatDoNotExistHereAreNamed) {
  EXPECT_EQ(error_of(small("Qwen2ForCausalLM", {{"hidden_act", "swish"}})), "(accepted)");
  EXPECT_THAT(error_of(small("Qwen2ForCausalLM", {{"hidden_act", "gelu"}})),
              HasSubstr("expected \"silu\" or \"swish\", found \"gelu\""));
  EXPECT_THAT(error_of(small("Qwen2ForCausalLM", {{"is_causal", false}})), HasSubstr("'is_causal': expected true"));
  EXPECT_THAT(error_of(small("Qwen2ForCausalLM", {{"per_layer_config", {{"0", json::object()}}}})),
              HasSubstr("'per_layer_config'"));
}

}  // namespace
}  // namespace sluice::decoder_config_test
