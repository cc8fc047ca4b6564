// Both forms of config.json describe the same model: the same logits, bit by bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <cmath>
#include <initializer_list>

#include "base/test_paths_testing.h"
#include "model/checks/changed_checkpoint_testing.h"

namespace sluice::config_forms_test {
namespace {

namespace json = boost::json;

std::string oracle(const std::string& kind) {
  return test_data_dir() + "/oracles/" + kind;
}

void erase(json::object& config, std::initializer_list<const char*> keys) {
  for (const char* key : keys) config.erase(key);
}

// The oracles have the keys of both forms for windows, and of the newer one for the rest.
void make_official(json::object& config) {
  config["torch_dtype"] = "float32";
  json::object scaling = config["rope_parameters"].as_object();
  config["rope_theta"] = scaling["rope_theta"];
  const bool is_scaled = scaling["rope_type"] != "default";
  scaling["type"] = scaling["rope_type"];
  erase(scaling, {"rope_theta", "rope_type"});
  config["rope_scaling"] = is_scaled ? json::value(scaling) : json::value(nullptr);
  if (config.contains("num_local_experts")) config["num_experts"] = config["num_local_experts"];
  // Given even when it is off.
  if (config.contains("sliding_window") && config["sliding_window"].is_null()) config["sliding_window"] = 32;
  erase(config, {"dtype", "rope_parameters", "num_local_experts", "layer_types", "mlp_bias"});
}

// Llama's scaling under the name that it had first.
void make_official_with_rope_type(json::object& config) {
  make_official(config);
  if (!config["rope_scaling"].is_object()) return;
  json::object& scaling = config["rope_scaling"].as_object();
  scaling["rope_type"] = scaling["type"];
  scaling.erase("type");
}

// Nothing that the newer form can say otherwise, or leaves out.
void make_newest(json::object& config) {
  if (!config.contains("layer_types")) {
    config["layer_types"] =
        json::array(static_cast<std::size_t>(config["num_hidden_layers"].as_int64()), json::value("full_attention"));
  }
  if (!config["eos_token_id"].is_null()) config["eos_token_id"] = json::array{config["eos_token_id"]};
  erase(config, {"max_window_layers", "mlp_only_layers", "decoder_sparse_step"});
}

class DecoderConfigFormsTest : public ::testing::TestWithParam<const char*> {};

TEST_P(DecoderConfigFormsTest, GiveTheSameLogits) {
  const std::vector<float> as_stored = plain_logits(oracle(GetParam()));
  ASSERT_FALSE(as_stored.empty());
  for (const ConfigEdit edit : {make_official, make_official_with_rope_type, make_newest}) {
    EXPECT_EQ(plain_logits(ChangedCheckpoint(oracle(GetParam()), edit).path()), as_stored);
  }
  // The compared logits do depend on the keys that the test rewrites.
  const ChangedCheckpoint other(oracle(GetParam()), [](json::object& config) {
    make_official(config);
    config["rope_theta"] = 20'000;
  });
  EXPECT_NE(plain_logits(other.path()), as_stored);
}

INSTANTIATE_TEST_SUITE_P(Kinds, DecoderConfigFormsTest,
                         ::testing::Values("llama-like", "qwen2-swa-like", "qwen3-yarn-like", "qwen3moe-like"),
                         [](const ::testing::TestParamInfo<const char*>& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(DecoderConfigForms, WindowsFollowTheFormThatIsThere) {
  const std::string folder = oracle("qwen2-swa-like");
  const auto with = [&](const ConfigEdit& edit) { return plain_logits(ChangedCheckpoint(folder, edit).path()); };
  const std::vector<float> as_stored = plain_logits(folder);
  const auto off = [](json::object& config) {
    make_official(config);
    config["use_sliding_window"] = false;
  };
  const auto all_full = [](json::object& config) {
    make_newest(config);
    for (json::value& type : config["layer_types"].as_array()) type = "full_attention";
  };
  const auto one_layer_less = [](json::object& config) {
    make_official(config);
    config["max_window_layers"] = 2;
  };
  const auto last_only = [](json::object& config) {
    make_newest(config);
    config["layer_types"].as_array()[1] = "full_attention";
  };
  EXPECT_NE(with(off), as_stored);
  EXPECT_EQ(with(all_full), with(off));
  EXPECT_NE(with(one_layer_less), as_stored);
  EXPECT_EQ(with(last_only), with(one_layer_less));
}

// YaRN's factor on cos and sin: as the config says, else from both mscales, else from the scaling's factor.
TEST(DecoderConfigForms, TheAttentionFactorWrittenOut) {
  const std::string folder = oracle("qwen3-yarn-like");
  const auto with = [&](const json::object& changes) {
    const ChangedCheckpoint changed(folder, [&](json::object& config) {
      for (const auto& [key, value] : changes) config["rope_parameters"].as_object()[key] = value;
    });
    return plain_logits(changed.path());
  };
  const std::vector<float> as_stored = plain_logits(folder);
  EXPECT_EQ(with({{"attention_factor", 0.1 * std::log(8.0) + 1.0}}), as_stored);
  EXPECT_EQ(with({{"mscale", 2.0}}), as_stored);  // one alone does not count
  const std::vector<float> both = with({{"mscale", 1.0}, {"mscale_all_dim", 2.0}});
  EXPECT_NE(both, as_stored);
  EXPECT_EQ(with({{"attention_factor", (0.1 * std::log(8.0) + 1.0) / (0.2 * std::log(8.0) + 1.0)}}), both);
  EXPECT_NE(with({{"beta_fast", 1}, {"beta_slow", 1}}), as_stored);
}

}  // namespace
}  // namespace sluice::config_forms_test
