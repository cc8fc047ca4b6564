// Tests of plans from a config alone: parameters and cache bytes of the official checkpoints (tests/configs), and the
// types that each family's cache can have.
#include "model/model_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/test_paths_testing.h"

namespace sluice::model_plan_test {
namespace {

using ::testing::HasSubstr;

EngineSetup with(const std::string& profile, const std::string& kv = "auto", const std::string& index = "auto") {
  EngineSetup options;
  options.numerics.profile = profile;
  options.numerics.kv_cache_dtype = kv;
  options.numerics.index_cache_dtype = index;
  return options;
}

Result<ModelPlan> plan(const std::string& name, const EngineSetup& options = {}) {
  auto config = load_model_config(source_dir() + "/tests/configs/" + name + ".json");
  EXPECT_TRUE(config.ok()) << config.status().message();
  return plan_model(std::move(config).value(), options);
}

struct Official {
  const char* name;
  std::int64_t parameters, active;
  const char *kv, *index;
  double bytes_per_token;
};

TEST(ModelPlan, CountsParametersAndCacheBytesOfOfficialCheckpoints) {
  for (const Official& o : {
           Official{"v2-lite", 15'706'484'224, 2'661'150'208, "auto", "auto", 31104},
           {"v2", 235'741'434'880, 21'375'800'320, "auto", "auto", 69120},
           {"v3", 671'026'419'200, 37'552'297'472, "auto", "auto", 70272},
           {"v3", 671'026'419'200, 37'552'297'472, "fp8", "auto", 61 * 656},
           {"v3.2", 671'877'944'064, 38'403'822'336, "auto", "auto", 48068},
           {"v3.2", 671'877'944'064, 38'403'822'336, "bf16", "bf16", 61 * (1152 + 256)},
           {"kimi-k2", 1'026'408'232'448, 32'861'500'928, "auto", "auto", 70272},
           {"v4-flash", 284'332'240'471, 13'799'632'471, "fp8", "fp8", 3851.5},
           {"v4-flash", 284'332'240'471, 13'799'632'471, "bf16", "bf16", 6880},
           {"v4-pro", 1'572'997'201'763, 49'779'081'059, "fp8", "fp8", 5513.375},
           {"v4-pro", 1'572'997'201'763, 49'779'081'059, "bf16", "bf16", 9848},
       }) {
    SCOPED_TRACE(o.name);
    const auto found = plan(o.name, with("default", o.kv, o.index));
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_EQ(count_parameters(*found).all, o.parameters);
    EXPECT_EQ(count_parameters(*found).active, o.active);
    EXPECT_EQ(found->cache_layout.latent_bytes_per_token(), o.bytes_per_token);
    EXPECT_FALSE(found->facts.empty());
  }
}

TEST(ModelPlan, ScalesAreTheFamilysOwn) {
  const auto tensor = [](const ModelPlan& plan, const std::string& name) {
    for (const PlannedTensor& t : plan.tensors) {
      if (t.name == name) return t;
    }
    ADD_FAILURE() << name;
    return PlannedTensor();
  };
  for (const char* name : {"v3", "v3.2"}) {  // f32 tensors, although V3.2's values are powers of two
    const ModelPlan found = plan(name).value();
    const std::string stem = "model.layers.3.self_attn.kv_a_proj_with_mqa.";
    EXPECT_EQ(tensor(found, stem + "weight").dtype, DType::kF8E4M3);
    const PlannedTensor scales = tensor(found, stem + "weight_scale_inv");
    EXPECT_EQ(scales.dtype, DType::kF32);
    EXPECT_EQ(scales.shape, (std::vector<std::int64_t>{5, 56}));  // 576 rows: the last block has 64
    EXPECT_EQ(tensor(found, "model.layers.61.eh_proj.weight").group, "model.layers.61");
  }
  EXPECT_EQ(tensor(plan("v2").value(), "model.layers.0.self_attn.q_a_proj.weight").dtype, DType::kBF16);
  EXPECT_EQ(tensor(plan("v4-flash").value(), "layers.3.attn.wq_a.scale").dtype, DType::kF8E8M0);
}

TEST(CacheTypes, AreThoseOfOfficialInference) {
  const auto text = [](const std::string& name, const EngineSetup& options) {
    const auto found = plan(name, options);
    return found.ok() ? found->profile.text() : found.status().message();
  };
  EXPECT_EQ(text("v2-lite", with("default")), "default int8 kv=bf16");
  EXPECT_EQ(text("v3", with("default")), "default int8 kv=bf16");  // although its weights are FP8
  EXPECT_EQ(text("v3", with("default", "fp8")), "default int8 kv=fp8");
  EXPECT_EQ(text("v3", with("ref")), "ref f32 kv=f32");
  EXPECT_EQ(text("v3", with("plain", "auto", "bf16")), "plain f32 kv=f32");
  EXPECT_EQ(text("v3.2", with("default")), "default int8 kv=fp8 index=fp8");
  EXPECT_EQ(text("v3.2", with("default", "bf16", "bf16")), "default int8 kv=bf16(as fp8) index=bf16(as fp8)");
  EXPECT_EQ(text("v3.2", with("ref")), "ref f32 kv=f32(as fp8) index=f32(as fp8)");
  EXPECT_EQ(text("v3.2", with("plain")), "plain f32 kv=f32 index=f32");
  EXPECT_EQ(text("v4-flash", with("default")), "default int8 kv=fp8 index=fp4");
  EXPECT_EQ(text("v4-flash", with("ref")), "ref f32 kv=f32(as fp8) index=f32(as fp4)");
  EXPECT_THAT(text("v3.2", with("default", "auto", "fp4")),
              HasSubstr("--index-cache-dtype: expected auto, f32, bf16 or fp8 for this model, found 'fp4'"));
  EXPECT_THAT(text("v2", with("default", "auto", "fp4")), HasSubstr("found 'fp4'"));
  EXPECT_THAT(text("v2", with("fast")),
              HasSubstr("--profile: expected default, amx, plain, ref or sm90, found 'fast'"));
}

}  // namespace
}  // namespace sluice::model_plan_test
