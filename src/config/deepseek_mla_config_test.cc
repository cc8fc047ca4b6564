#include "config/deepseek_mla_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>

#include "base/storage/mapped_file.h"
#include "base/test_paths_testing.h"
#include "config/model_config.h"
#include "files/json.h"

namespace sluice::deepseek_mla_config_test {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;

json::object official(const std::string& name) {
  const std::string file = source_dir() + "/tests/configs/" + name + ".json";
  return parse_json(read_text_file(file).value(), file).value().as_object();
}

Result<ModelConfig> parse(const json::object& config) {
  return parse_model_config(dump_json(config), "config.json");
}

// The message for an official config with other values; null erases a key.
std::string error_with(const std::string& name, const json::object& changes) {
  json::object config = official(name);
  for (const auto& change : changes) config[change.key()] = change.value();
  const auto parsed = parse(config);
  return parsed.ok() ? "(accepted)" : parsed.status().message();
}

TEST(MlaConfig, V2) {
  const ModelConfig config = parse(official("v2")).value();
  EXPECT_EQ(config.model_type, "deepseek_v2");
  EXPECT_EQ(config.head_dim, 192);
  EXPECT_EQ(config.mla().latent_dim(), 576);
  EXPECT_EQ(config.mla().q_lora_rank, 1536);
  EXPECT_EQ(config.mla().index_n_heads, 0);
  EXPECT_FALSE(config.mla().sparse_layers[0]);
  EXPECT_TRUE(config.mla().sparse_layers[1]);
  EXPECT_EQ(config.moe.scoring_func, "softmax");
  EXPECT_EQ(config.moe.n_group, 8);
  EXPECT_EQ(config.moe.topk_group, 3);
  EXPECT_FALSE(config.moe.norm_topk_prob);
  EXPECT_EQ(config.moe.routed_scaling_factor, 16.0);
  EXPECT_TRUE(config.rope.yarn);
  EXPECT_EQ(config.rope.attention_factor, 1.0);  // g(0.707) / g(0.707)
  EXPECT_EQ(config.rope.mscale_all_dim, 0.707);

  const ModelConfig lite = parse(official("v2-lite")).value();
  EXPECT_EQ(lite.mla().q_lora_rank, 0);
  EXPECT_EQ(lite.moe.n_group, 1);
}

TEST(MlaConfig, V3AndKimiK2) {
  const ModelConfig config = parse(official("v3")).value();
  EXPECT_EQ(config.mla().predict_layers, 1);
  EXPECT_EQ(std::ranges::count(config.mla().sparse_layers, false), 3);
  EXPECT_EQ(config.moe.scoring_func, "sigmoid");
  EXPECT_TRUE(config.moe.norm_topk_prob);
  EXPECT_TRUE(config.quantization.fp8);
  EXPECT_EQ(config.quantization.scale_fmt, "");
  EXPECT_EQ(config.moe.expert_dtype, "fp8");
  const ModelConfig kimi = parse(official("kimi-k2")).value();
  EXPECT_EQ(kimi.moe.n_group, 1);
  EXPECT_EQ(kimi.moe.n_routed_experts, 384);
  EXPECT_EQ(kimi.moe.routed_scaling_factor, 2.827);
  EXPECT_EQ(kimi.rope.beta_fast, kimi.rope.beta_slow);
  EXPECT_EQ(kimi.rope.theta, 50000.0);
}

TEST(MlaConfig, V32) {
  const ModelConfig config = parse(official("v3.2")).value();
  EXPECT_EQ(config.model_type, "deepseek_v32");
  EXPECT_EQ(config.mla().index_n_heads, 64);
  EXPECT_EQ(config.mla().index_head_dim, 128);
  EXPECT_EQ(config.mla().index_topk, 2048);
}

TEST(MlaConfig, NormalisingSoftmaxReplacesScaling) {
  json::object config = official("v2");
  config["norm_topk_prob"] = true;
  EXPECT_TRUE(parse(config)->moe.norm_topk_prob);
  EXPECT_EQ(parse(config)->moe.routed_scaling_factor, 1.0);
  config["num_experts_per_tok"] = 1;
  EXPECT_FALSE(parse(config)->moe.norm_topk_prob);
  EXPECT_EQ(parse(config)->moe.routed_scaling_factor, 16.0);
}

TEST(MlaConfig, TheFamilyDecidesWhatNewerFormsLeaveOut) {
  json::object config = official("v2");
  for (const char* key : {"scoring_func", "topk_method"}) config.erase(key);
  EXPECT_EQ(parse(config)->moe.scoring_func, "softmax");
  EXPECT_EQ(parse(config)->moe.n_group, 1);  // greedy, whatever the groups are
  config["topk_method"] = "group_limited_greedy";
  EXPECT_EQ(parse(config)->moe.n_group, 8);
  config = official("v3");
  for (const char* key : {"scoring_func", "topk_method", "norm_topk_prob"}) config.erase(key);
  EXPECT_EQ(parse(config)->moe.scoring_func, "sigmoid");
  EXPECT_TRUE(parse(config)->moe.norm_topk_prob);
  config["head_dim"] = 64;  // the rotary dims by another name
  EXPECT_EQ(parse(config)->head_dim, 192);
}

TEST(MlaConfig, RopeInBothForms) {
  json::object config = official("v3");
  const RopeConfig rope = parse(config)->rope;
  json::object parameters = config["rope_scaling"].as_object();
  parameters["rope_type"] = parameters["type"];
  parameters["rope_theta"] = config["rope_theta"];
  parameters.erase("type");
  config.erase("rope_scaling");
  config.erase("rope_theta");
  config["rope_parameters"] = parameters;
  EXPECT_EQ(parse(config)->rope, rope);
  config["rope_theta"] = 20000;  // the inner one wins
  EXPECT_EQ(parse(config)->rope, rope);
  config["original_max_position_embeddings"] = 64;  // the outer one wins
  EXPECT_EQ(parse(config)->rope.original_max_position_embeddings, 64);

  json::object scaling = official("v3")["rope_scaling"].as_object();
  const auto attention_factor = [&] {
    json::object changed = official("v3");
    changed["rope_scaling"] = scaling;
    return parse(changed)->rope.attention_factor;
  };
  const double g = 0.1 * std::log(40.0);
  scaling["mscale_all_dim"] = 0.5;
  EXPECT_DOUBLE_EQ(attention_factor(), (g + 1) / (0.5 * g + 1));
  scaling.erase("mscale");
  EXPECT_DOUBLE_EQ(attention_factor(), g + 1);
  scaling["attention_factor"] = 1.5;
  EXPECT_EQ(attention_factor(), 1.5);
}

TEST(MlaConfig, SparseLayers) {
  json::object config = official("v3");
  config["num_hidden_layers"] = 6;
  config["moe_layer_freq"] = 2;
  EXPECT_EQ(parse(config)->mla().sparse_layers, (std::vector<bool>{false, false, false, false, true, false}));
  config.erase("first_k_dense_replace");
  config["mlp_layer_types"] = {"dense", "sparse", "sparse", "dense", "sparse", "sparse"};
  EXPECT_EQ(parse(config)->mla().sparse_layers, (std::vector<bool>{false, true, true, false, true, true}));
}

TEST(MlaConfig, AbsentKeysHaveTheFamilysDefaults) {
  const auto without = [](const char* name, std::initializer_list<const char*> keys) {
    json::object config = official(name);
    for (const char* key : keys) config.erase(key);
    return parse(config).value();
  };
  const std::initializer_list<const char*> keys = {
      "routed_scaling_factor", "n_shared_experts",      "n_group",       "topk_group", "topk_method", "q_lora_rank",
      "kv_lora_rank",          "first_k_dense_replace", "norm_topk_prob"};
  const ModelConfig v3 = without("v3", keys);
  EXPECT_EQ(v3.moe.routed_scaling_factor, 2.5);
  EXPECT_EQ(v3.moe.n_shared_experts, 1);
  EXPECT_EQ(v3.moe.n_group, 8);
  EXPECT_EQ(v3.moe.topk_group, 4);
  EXPECT_TRUE(v3.moe.norm_topk_prob);
  EXPECT_EQ(v3.mla().q_lora_rank, 1536);
  EXPECT_EQ(v3.mla().kv_lora_rank, 512);
  EXPECT_EQ(std::ranges::count(v3.mla().sparse_layers, false), 3);
  const ModelConfig v2 = without("v2", keys);
  EXPECT_EQ(v2.moe.routed_scaling_factor, 1.0);
  EXPECT_EQ(v2.moe.n_shared_experts, 2);
  EXPECT_EQ(v2.moe.n_group, 1);
  EXPECT_FALSE(v2.moe.norm_topk_prob);
  EXPECT_EQ(std::ranges::count(v2.mla().sparse_layers, false), 0);
  json::object config = official("v3");
  config["rope_interleave"] = config["norm_topk_prob"] = config["q_lora_rank"] = nullptr;  // null is not absent
  EXPECT_FALSE(parse(config)->mla().rope_interleave);
  EXPECT_FALSE(parse(config)->moe.norm_topk_prob);
  EXPECT_EQ(parse(config)->mla().q_lora_rank, 0);
  config = official("v3.2");
  config["num_experts"] = 128;
  EXPECT_EQ(parse(config)->moe.n_routed_experts, 128);
  config["num_local_experts"] = 64;
  EXPECT_EQ(parse(config)->moe.n_routed_experts, 64);
  config["norm_topk_prob"] = nullptr;  // here it is: the library refuses null, and nothing else makes sense
  EXPECT_TRUE(parse(config)->moe.norm_topk_prob);
}

TEST(MlaConfigErrors, NameKeyExpectationAndFinding) {
  EXPECT_THAT(error_with("v2", {{"qk_rope_head_dim", 63}}), HasSubstr("an even number, found 63"));
  EXPECT_THAT(error_with("v2", {{"topk_method", "noaux_tc"}}), HasSubstr("\"greedy\" or \"group_limited_greedy\""));
  EXPECT_THAT(error_with("v2", {{"scoring_func", "sigmoid"}}), HasSubstr("key 'scoring_func': expected \"softmax\""));
  EXPECT_THAT(error_with("v3", {{"scoring_func", "softmax"}}), HasSubstr("key 'scoring_func': expected \"sigmoid\""));
  EXPECT_THAT(error_with("v3", {{"topk_method", "greedy"}}), HasSubstr("expected \"noaux_tc\""));
  EXPECT_THAT(error_with("v3", {{"n_group", 7}}), HasSubstr("a divisor of n_routed_experts (256)"));
  EXPECT_THAT(error_with("v3", {{"n_group", 256}}), HasSubstr("two experts a group"));
  EXPECT_THAT(error_with("v3", {{"topk_group", 9}}),
              HasSubstr("key 'topk_group': expected an integer from 1 to n_group (8)"));
  EXPECT_THAT(error_with("v2", {{"topk_group", nullptr}}), HasSubstr("key 'topk_group': expected a value"));
  EXPECT_THAT(error_with("v2", {{"n_group", nullptr}}), HasSubstr("key 'n_group': expected the groups of topk_method"));
  EXPECT_THAT(error_with("v3", {{"n_group", nullptr}}), HasSubstr("key 'n_group': expected an integer, found null"));
  EXPECT_THAT(error_with("v3", {{"n_group", 1}}),
              HasSubstr("key 'topk_group': expected an integer from 1 to n_group (1)"));
  EXPECT_THAT(error_with("v2", {{"topk_method", nullptr}}), HasSubstr("key 'topk_method': expected a string"));
  EXPECT_THAT(error_with("v3", {{"topk_group", 1}, {"num_experts_per_tok", 40}}), HasSubstr("groups of 32"));
  EXPECT_THAT(error_with("v3", {{"first_k_dense_replace", nullptr}, {"mlp_layer_types", {"dense"}}}),
              HasSubstr("a type for each of num_hidden_layers = 61"));
  EXPECT_THAT(error_with("v3.2", {{"layer_types", {"full_attention"}}}),
              HasSubstr("indexed_attention for every layer"));
  EXPECT_THAT(error_with("v3.2", {{"index_head_dim", 96}}), HasSubstr("a power of two of at least qk_rope_head_dim"));
  EXPECT_THAT(error_with("v3.2", {{"index_topk", 0}}), HasSubstr("key 'index_topk'"));
  EXPECT_THAT(error_with("v3", {{"rope_scaling", {{"type", "dynamic"}}}}),
              HasSubstr("key 'rope_scaling': key 'factor'"));
}

// Absurd values of every key are refused or accepted, and what is accepted can be used without another check.
TEST(MlaConfigErrors, SurvivesAbsurdValuesOfEveryKey) {
  for (const char* name : {"v2", "v3.2"}) {
    const json::object whole = official(name);
    for (const auto& entry : whole) {
      for (const json::value& value :
           {json::value(nullptr), json::value(-1), json::value(0), json::value(1), json::value(1e308), json::value("x"),
            json::value(json::array{}), json::value(json::object{}), json::value(std::int64_t{1} << 62)}) {
        json::object config = whole;
        config[entry.key()] = value;
        const auto parsed = parse(config);
        if (!parsed.ok() || !std::holds_alternative<DeepSeekMlaConfig>(parsed->family)) continue;
        const MoeConfig& moe = parsed->moe;
        ASSERT_EQ(parsed->mla().sparse_layers.size(), static_cast<std::size_t>(parsed->num_hidden_layers));
        ASSERT_EQ(moe.n_routed_experts % moe.n_group, 0);
        ASSERT_LE(moe.num_experts_per_tok, moe.n_routed_experts / moe.n_group * moe.topk_group);
        ASSERT_TRUE(std::isfinite(parsed->rope.attention_factor) && std::isfinite(parsed->rope.theta));
      }
    }
  }
}

}  // namespace
}  // namespace sluice::deepseek_mla_config_test
