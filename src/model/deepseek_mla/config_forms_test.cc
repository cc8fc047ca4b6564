// Both forms of config.json describe the same model: the same logits, bit by bit.
#include <gtest/gtest.h>

#include <boost/json/array.hpp>

#include "base/test_paths_testing.h"
#include "model/checks/changed_checkpoint_testing.h"

namespace sluice::config_forms_test {
namespace {

namespace json = boost::json;

std::string oracle(const std::string& kind) {
  return test_data_dir() + "/oracles/" + kind;
}

// Makes the official form from the newer one, which the oracles have.
void make_official(json::object& config) {
  config["torch_dtype"] = config["dtype"];
  json::object scaling = config["rope_parameters"].as_object();
  config["rope_theta"] = scaling["rope_theta"];
  scaling["type"] = scaling["rope_type"];
  scaling.erase("rope_theta");
  scaling.erase("rope_type");
  config["rope_scaling"] = scaling;
  const bool softmax = config["model_type"] == "deepseek_v2";
  config["scoring_func"] = softmax ? "softmax" : "sigmoid";
  if (!softmax) config["topk_method"] = "noaux_tc";
  if (config["n_group"].is_null()) config["n_group"] = config["topk_group"] = 1;
  config["moe_layer_freq"] = 1;
  for (const char* key : {"dtype", "rope_parameters", "head_dim", "qk_head_dim", "layer_types", "mlp_layer_types",
                          "rope_interleave", "mlp_bias"}) {
    config.erase(key);
  }
}

// Nothing that the newer form can say otherwise, or leaves out.
void make_newest(json::object& config) {
  json::array types;
  for (std::int64_t i = 0; i < config["num_hidden_layers"].as_int64(); ++i) {
    types.emplace_back(i < config["first_k_dense_replace"].as_int64() ? "dense" : "sparse");
  }
  config["mlp_layer_types"] = types;
  config["eos_token_id"] = json::array{config["eos_token_id"]};
  for (const char* key : {"first_k_dense_replace", "scoring_func"}) config.erase(key);
  if (config["model_type"] != "deepseek_v2") config.erase("topk_method");  // V2's default is greedy
}

class MlaConfigFormsTest : public ::testing::TestWithParam<const char*> {};

TEST_P(MlaConfigFormsTest, GiveTheSameLogits) {
  const std::vector<float> as_stored = plain_logits(oracle(GetParam()));
  ASSERT_FALSE(as_stored.empty());
  EXPECT_EQ(plain_logits(ChangedCheckpoint(oracle(GetParam()), make_official).path()), as_stored);
  EXPECT_EQ(plain_logits(ChangedCheckpoint(oracle(GetParam()), make_newest).path()), as_stored);
  // The compared logits do depend on the keys that the test rewrites.
  const ChangedCheckpoint other(oracle(GetParam()), [](json::object& config) {
    make_official(config);
    config["rope_scaling"].as_object()["factor"] = 20;
  });
  EXPECT_NE(plain_logits(other.path()), as_stored);
}

INSTANTIATE_TEST_SUITE_P(Kinds, MlaConfigFormsTest, ::testing::Values("v2-like", "v2-lite-like", "v3-like", "v32-like"),
                         [](const ::testing::TestParamInfo<const char*>& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace sluice::config_forms_test
