// Tests of parts that no stored logits cover, against a second forward (reference_testing.h): random weights for
// configs that switch on other options than the oracles' configs.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <cmath>
#include <numeric>
#include <random>

#include "base/storage/temp_folder_testing.h"
#include "base/test_seed_testing.h"
#include "files/json.h"
#include "files/safetensors_writer.h"
#include "kernels/device/isa.h"
#include "model/checks/cache_testing.h"
#include "model/decoder/reference_testing.h"
#include "model/model_plan.h"

namespace sluice::reference_test {
namespace {

namespace json = boost::json;

json::object small(const std::string& architecture, const std::string& model_type, const json::object& changes) {
  json::object config = {{"architectures", json::array{json::string(architecture)}},
                         {"model_type", model_type},
                         {"vocab_size", 120},
                         {"hidden_size", 64},
                         {"intermediate_size", 72},
                         {"num_hidden_layers", 4},
                         {"num_attention_heads", 6},
                         {"num_key_value_heads", 2},
                         {"head_dim", 20},
                         {"max_position_embeddings", 512},
                         {"rms_norm_eps", 1e-3},
                         {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1000.0}}}};
  for (const auto& [key, value] : changes) config[key] = value;
  return config;
}

// Weights of about 1 / sqrt(row length); norms about 1; biases that show.
void write_weights(const ModelPlan& plan, const std::string& folder, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> values;
  std::vector<TensorSource> sources;
  for (const PlannedTensor& tensor : plan.tensors) {
    const bool is_matrix = tensor.shape.size() > 1;
    const float scale = is_matrix ? 1.0F / std::sqrt(static_cast<float>(tensor.shape[1])) : 0.3F;
    std::vector<float>& all = values.emplace_back(static_cast<std::size_t>(tensor.parameters));
    for (float& value : all) value = scale * normal(random) + (tensor.name.ends_with("norm.weight") ? 1.0F : 0.0F);
    sources.push_back({tensor.name, DType::kF32, tensor.shape, std::as_bytes(std::span(all)), {}});
  }
  ASSERT_TRUE(write_safetensors(folder + "/model.safetensors", sources).ok());
}

// The largest difference of any logit.
double worst(const json::object& config) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  const TempFolder folder;
  folder.write("config.json", dump_json(config));
  EngineSetup options;
  options.numerics.profile = "plain";
  const auto plan = plan_model(parse_model_config(dump_json(config), "config.json").value(), options);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  write_weights(*plan, folder.path(), seed);
  ThreadPool pool(2);
  const Exec exec{&pool, select_kernels("auto").value()};
  auto model = load_model(exec, folder.path(), options, {}, nullptr);
  EXPECT_TRUE(model.ok()) << model.status().message();
  if (!model.ok()) return 1e9;
  std::vector<TokenId> ids;
  for (int i = 0; i < 45; ++i) ids.push_back(static_cast<TokenId>((i * i + 3 * i + 5) % 120));
  std::vector<int> all(ids.size());
  std::iota(all.begin(), all.end(), 0);
  const auto found = run_prompt(**model, exec, ids, all, 13);
  const auto expected = decoder_reference_logits(folder.path(), ids);
  EXPECT_EQ(found.size(), expected.size());
  double most = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    most = std::max(most, std::fabs(static_cast<double>(found[i]) - expected[i]));
  }
  return most;
}

constexpr double kBound = 2.3e-5;  // three times the worst of 400 checkpoints

TEST(DecoderReference, LlamaWithBiases) {
  EXPECT_LT(worst(small("LlamaForCausalLM", "llama", {{"attention_bias", true}})), kBound);
}

TEST(DecoderReference, LlamaWithBiasesOfItsFeedForward) {
  EXPECT_LT(worst(small("LlamaForCausalLM", "llama", {{"mlp_bias", true}, {"attention_bias", true}})), kBound);
}

TEST(DecoderReference, Mistral) {
  EXPECT_LT(worst(small("MistralForCausalLM", "mistral",
                        {{"layer_types", json::array(4, "sliding_attention")}, {"sliding_window", 7}})),
            kBound);
}

TEST(DecoderReference, LlamasScaling) {
  const json::object rope = {{"rope_type", "llama3"},   {"rope_theta", 100.0},
                             {"factor", 4.0},           {"low_freq_factor", 1.0},
                             {"high_freq_factor", 4.0}, {"original_max_position_embeddings", 32}};
  EXPECT_LT(worst(small("LlamaForCausalLM", "llama", {{"rope_parameters", rope}})), kBound);
}

TEST(DecoderReference, Qwen3WithBiasesAndYarnOfEveryKind) {
  json::object rope = {
      {"rope_type", "yarn"}, {"rope_theta", 100.0}, {"factor", 4.0}, {"original_max_position_embeddings", 32}};
  const auto with = [&] {
    return worst(small("Qwen3ForCausalLM", "qwen3", {{"attention_bias", true}, {"rope_parameters", rope}}));
  };
  EXPECT_LT(with(), kBound);
  rope["beta_fast"] = rope["beta_slow"] = 1;
  EXPECT_LT(with(), kBound);
  rope["mscale"] = 1.4, rope["mscale_all_dim"] = 0.5;
  EXPECT_LT(with(), kBound);
  rope["attention_factor"] = 1.25;
  EXPECT_LT(with(), kBound);
}

TEST(DecoderReference, WindowsBesideFullLayers) {
  const json::array types = {"sliding_attention", "full_attention", "full_attention", "sliding_attention"};
  EXPECT_LT(worst(small("Qwen2ForCausalLM", "qwen2",
                        {{"layer_types", types},
                         {"use_sliding_window", true},
                         {"sliding_window", 7},
                         {"tie_word_embeddings", true}})),
            kBound);
}

TEST(DecoderReference, ExpertsOnSomeLayersWithAndWithoutTheirSum) {
  for (const bool normalised : {false, true}) {
    const json::object experts = {{"num_local_experts", 7},      {"num_experts_per_tok", 3},
                                  {"moe_intermediate_size", 24}, {"norm_topk_prob", normalised},
                                  {"decoder_sparse_step", 2},    {"attention_bias", true}};
    EXPECT_LT(worst(small("Qwen3MoeForCausalLM", "qwen3_moe", experts)), kBound);
  }
  EXPECT_LT(worst(small("Qwen3MoeForCausalLM", "qwen3_moe",
                        {{"num_local_experts", 5},
                         {"num_experts_per_tok", 2},
                         {"moe_intermediate_size", 24},
                         {"mlp_only_layers", json::array{0, 2}}})),
            kBound);
}

}  // namespace
}  // namespace sluice::reference_test
