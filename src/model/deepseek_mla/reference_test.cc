// Tests of parts that no stored logits cover, against a second forward (reference_testing.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/test_paths_testing.h"
#include "kernels/device/isa.h"
#include "model/checks/cache_testing.h"
#include "model/checks/changed_checkpoint_testing.h"
#include "model/checks/mtp_checkpoint_testing.h"
#include "model/deepseek_mla/reference_testing.h"

namespace sluice::reference_test {
namespace {

namespace json = boost::json;

// The largest logit difference at each position.
std::vector<double> differences(const std::string& kind, const std::string& profile, const ConfigEdit& edit) {
  const ChangedCheckpoint folder(test_data_dir() + "/oracles/" + kind, edit);
  ThreadPool pool(2);
  const Exec exec{&pool, select_kernels("auto").value()};
  EngineSetup options;
  options.numerics.profile = profile;
  options.numerics.compute_dtype = "f32";  // the reference rounds no inputs of linears
  auto model = load_model(exec, folder.path(), options, {}, nullptr);
  EXPECT_TRUE(model.ok()) << model.status().message();
  if (!model.ok()) return {};
  const int tokens = 70;
  std::vector<TokenId> ids;
  for (int i = 0; i < tokens; ++i) ids.push_back(static_cast<TokenId>((i * i + 3 * i + 5) % 512));
  std::vector<int> all(tokens);
  std::iota(all.begin(), all.end(), 0);
  const auto found = run_prompt(**model, exec, ids, all, 33);
  const auto expected =
      mla_reference_logits(folder.path(), ids, {.as_trained = profile != "plain", .bf16_rotary = profile == "default"});
  EXPECT_EQ(found.size(), expected.size());
  std::vector<double> worst(tokens);
  const std::size_t vocab = found.size() / tokens;
  for (std::size_t i = 0; i < found.size(); ++i) {
    worst[i / vocab] = std::max(worst[i / vocab], std::fabs(static_cast<double>(found[i]) - expected[i]));
  }
  return worst;
}

double worst(const std::string& kind, const ConfigEdit& edit) {
  const auto all = differences(kind, "plain", edit);
  return *std::max_element(all.begin(), all.end());
}

json::object& rope(json::object& config) {
  return config["rope_parameters"].as_object();
}

TEST(MlaReference, AgreesWithTheModelOnTheStoredConfigs) {
  for (const char* kind : {"v2-like", "v2-lite-like", "v3-like", "v32-like"}) {
    EXPECT_LT(worst(kind, [](json::object&) {}), 6e-5) << kind;
  }
}

TEST(MlaReference, NormalisedSoftmaxIsNotScaled) {
  EXPECT_LT(worst("v2-like", [](json::object& config) { config["norm_topk_prob"] = true; }), 4e-5);
}

TEST(MlaReference, SigmoidWithoutItsSum) {
  EXPECT_LT(worst("v3-like", [](json::object& config) { config["norm_topk_prob"] = false; }), 1e-4);
}

TEST(MlaReference, MscalesThatDiffer) {
  const auto edit = [](json::object& config) { rope(config)["mscale"] = 1.4, rope(config)["mscale_all_dim"] = 0.5; };
  EXPECT_LT(worst("v2-like", edit), 5e-5);
  EXPECT_LT(worst("v32-like", edit), 5e-5);  // the index heads use the same table
}

TEST(MlaReference, WithoutMscales) {
  EXPECT_LT(worst("v3-like",
                  [](json::object& config) {
                    rope(config).erase("mscale");
                    rope(config).erase("mscale_all_dim");
                  }),
            3.3e-5);
}

TEST(MlaReference, AnExplicitAttentionFactor) {
  EXPECT_LT(worst("v3-like", [](json::object& config) { rope(config)["attention_factor"] = 1.25; }), 1e-4);
}

TEST(MlaReference, EqualBetas) {
  EXPECT_LT(worst("v3-like", [](json::object& config) { rope(config)["beta_fast"] = rope(config)["beta_slow"] = 1; }),
            9e-5);
}

TEST(MlaReference, OneGroup) {  // Kimi-K2's
  EXPECT_LT(worst("v3-like", [](json::object& config) { config["n_group"] = config["topk_group"] = 1; }), 1e-4);
}

TEST(MlaReference, LatentNormsKeepTheirEpsilon) {
  for (const char* kind : {"v2-like", "v32-like"}) {
    EXPECT_LT(worst(kind, [](json::object& config) { config["rms_norm_eps"] = 0.03; }), 8e-5) << kind;
  }
}

// The layer for multi-token prediction makes four drafts, each after the one before. The prompts are one token long,
// end and begin a block, and have more keys than the indexer selects.
TEST(MlaReference, DraftsOfTheLayerForMultiTokenPrediction) {
  for (const char* kind : {"v3-like", "v32-like"}) {
    const MtpCheckpoint checkpoint(test_data_dir() + "/oracles/" + kind);
    ThreadPool pool(2);
    const Exec exec{&pool, select_kernels("auto").value()};
    EngineSetup options;
    options.numerics.profile = "plain";
    options.numerics.compute_dtype = "f32";
    options.mtp = true;
    const auto loaded = load_model(exec, checkpoint.path(), options, {}, nullptr);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    Model& model = **loaded;
    std::vector<TokenId> ids;
    for (int i = 0; i < 140; ++i) ids.push_back(static_cast<TokenId>((i * i + 3 * i + 5) % 512));
    for (const int known : {1, 2, 60, 128, 131}) {
      const auto all = std::span<const TokenId>(ids);
      TestSequence sequence(model.cache_layout(), 140);
      sequence.run(model, exec, all.first(static_cast<std::size_t>(known + 1) / 2), {});
      if (known > 1) {
        sequence.run(model, exec,
                     all.subspan(static_cast<std::size_t>(known + 1) / 2, static_cast<std::size_t>(known) / 2), {});
      }
      const auto given = all.subspan(static_cast<std::size_t>(known), 4);
      const auto found = sequence.draft(model, exec, given);
      const auto expected =
          mla_reference_drafts(checkpoint.path(), all.first(static_cast<std::size_t>(known) + given.size()), known);
      ASSERT_EQ(found.size(), expected.size());
      double worst = 0;
      for (std::size_t i = 0; i < found.size(); ++i) {
        worst = std::max(worst, std::fabs(static_cast<double>(found[i]) - expected[i]));
      }
      EXPECT_LT(worst, 1e-4) << kind << " behind " << known;
    }
  }
}

// V3.2's trained rounding: simulated, and as the rows of the default profile store it. A code flips where f32 and f64
// lie on different sides of a boundary, so not every position is as close as most.
TEST(MlaReference, TrainedRoundingOfV32) {
  const auto expect = [](const char* profile, double most, double worst) {
    auto all = differences("v32-like", profile, [](json::object&) {});
    std::sort(all.begin(), all.end());
    EXPECT_LT(all[all.size() * 8 / 10], most) << profile;
    EXPECT_LT(all.back(), worst) << profile;
  };
  expect("ref", 3e-5, 1.6e-4);
  expect("default", 2e-4, 9e-3);
}

}  // namespace
}  // namespace sluice::reference_test
