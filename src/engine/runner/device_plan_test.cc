// Compares the memory that a config alone predicts for a device with the memory that a loaded model takes.
#include "engine/runner/device_plan.h"

#include <gtest/gtest.h>

#include "base/test_paths_testing.h"
#include "config/model_config.h"
#include "engine/runner/runner.h"
#include "kernels/cuda/linear_layout.h"
#include "kernels/device/counting_device.h"

namespace sluice::device_plan_test {
namespace {

constexpr std::size_t kGiB = std::size_t{1} << 30;
const MemoryRequest kRequest{.budget_bytes = 1, .max_seqs = 4, .max_batched_tokens = 200, .max_model_len = 1000};

Result<ModelPlan> plan_of(const std::string& folder, const EngineSetup& options = {}) {
  SLUICE_ASSIGN_OR_RETURN(ModelConfig config, load_model_config(folder));
  return plan_model(std::move(config), options);
}

class DevicePlanTest : public ::testing::TestWithParam<const char*> {
 protected:
  const std::string folder_ = test_data_dir() + "/oracles/" + GetParam();
};

TEST_P(DevicePlanTest, StepsTakeWhatALoadedModelTakes) {
  EngineSetup options;
  options.model.folder = folder_;
  options.cache.kv_cache_memory = 24 << 20;
  options.model.max_model_len = kRequest.max_model_len;
  options.scheduler.max_num_batched_tokens = 64;
  const auto runner = Runner::load(options).value();
  CountingDevice counting;
  ASSERT_TRUE(runner->model().prepare(counting, kRequest.max_batched_tokens, kRequest.max_model_len).ok());
  EXPECT_EQ(plan_of(folder_).value().step_bytes(kRequest.max_batched_tokens, kRequest.max_model_len), counting.bytes());
  EXPECT_TRUE(runner->model().prepare(cpu_device(), 64, kRequest.max_model_len).ok());  // before `counting` goes
}

TEST_P(DevicePlanTest, WeightsTakeAboutWhatTheCheckpointHas) {
  const ModelPlan plan = plan_of(folder_).value();
  std::size_t stored = 0;
  for (const PlannedTensor& tensor : plan.tensors) {
    if (tensor.group.empty()) stored += tensor_bytes(tensor.dtype, tensor.shape).value();
  }
  const std::size_t weights = plan_device(plan, cuda_linear_packing(), kRequest).weights;
  EXPECT_GT(weights, stored * 9 / 10);
  EXPECT_LT(weights, stored * 3 / 2);  // norms are widened, rows and scales padded
}

INSTANTIATE_TEST_SUITE_P(Kinds, DevicePlanTest, ::testing::Values("v4-flash-like", "v32-like", "llama-like"));

TEST(DevicePlan, WhatDoesNotFitIsSaidWithNumbers) {
  const ModelPlan plan = plan_of(source_dir() + "/tests/configs/v4-flash.json").value();
  const DevicePlan needed = plan_device(plan, cuda_linear_packing(), kRequest);
  EXPECT_GT(needed.weights, 140 * kGiB);
  EXPECT_LT(needed.weights, 170 * kGiB);
  const Result<std::string> small = device_text(needed, plan.cache_layout, kRequest, "--device cuda", 80 * kGiB);
  EXPECT_EQ(small.status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(small.status().message().starts_with("--device cuda: 85.9 GB are free, expected 1"))
      << small.status().message();
  EXPECT_NE(small.status().message().find("for weights"), std::string::npos) << small.status().message();
  EXPECT_NE(small.status().message().find("GB are missing"), std::string::npos) << small.status().message();
  const Result<std::string> large = device_text(needed, plan.cache_layout, kRequest, "--device cuda", 200 * kGiB);
  ASSERT_TRUE(large.ok()) << large.status().message();
  EXPECT_NE(large->find("4 sequences at once"), std::string::npos) << *large;
}

}  // namespace
}  // namespace sluice::device_plan_test
