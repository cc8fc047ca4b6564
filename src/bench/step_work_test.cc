#include "bench/step_work.h"

#include <gmock/gmock.h>

#include "model/cache_layout.h"

namespace sluice::step_work_test {
namespace {

using ::testing::DoubleEq;
using ::testing::DoubleNear;

constexpr MachineSpeed kMachine{
    .read_gbytes = 40, .f32_gflops = 500, .bf16_gflops = 1000, .int8_gops = 2000, .tiles_gflops = 8000};

TEST(StepWork, FloorOfAStageIsItsBytesOrItsArithmetic) {
  StageWork stage{.bytes = 80e6};
  EXPECT_THAT(floor_seconds(stage, kMachine), DoubleEq(2e-3));
  stage.multiply_adds[static_cast<std::size_t>(InputForm::kInt8)] = 1e9;  // 1 ms
  EXPECT_THAT(floor_seconds(stage, kMachine), DoubleEq(2e-3));
  stage.multiply_adds[static_cast<std::size_t>(InputForm::kBf16)] = 1e9;  // 2 ms
  EXPECT_THAT(floor_seconds(stage, kMachine), DoubleEq(3e-3));
  stage.multiply_adds[static_cast<std::size_t>(InputForm::kF32)] = 1e9;  // 4 ms
  EXPECT_THAT(floor_seconds(stage, kMachine), DoubleEq(7e-3));
}

TEST(StepWork, FloorOfAStepIsTheSumOfItsStages) {
  StepWork step;
  step.dense.bytes = 40e6;                                                       // 1 ms
  step.experts.multiply_adds[static_cast<std::size_t>(InputForm::kInt8)] = 2e9;  // 2 ms
  step.experts.bytes = 40e6;
  step.head.bytes = 120e6;  // 3 ms
  step.cache.bytes = 20e6;  // 0.5 ms
  EXPECT_THAT(floor_seconds(step, kMachine), DoubleNear(6.5e-3, 1e-12));
  EXPECT_THAT(step.bytes(), DoubleEq(220e6));
}

TEST(StepWork, PeaksAreThoseOfTheFastestInstructionWithTheBits) {
  EXPECT_THAT(kMachine.peak(InputForm::kF32), DoubleEq(500));
  EXPECT_THAT(kMachine.peak(InputForm::kBf16), DoubleEq(1000));
  EXPECT_THAT(kMachine.peak(InputForm::kFp8), DoubleEq(1000));
  EXPECT_THAT(kMachine.peak(InputForm::kInt8), DoubleEq(2000));
  EXPECT_THAT(kMachine.peak(InputForm::kTiles), DoubleEq(8000));
  MachineSpeed slow_dot = kMachine;
  slow_dot.bf16_gflops = 200;
  EXPECT_THAT(slow_dot.peak(InputForm::kBf16), DoubleEq(500));
  slow_dot.int8_gops = 0;
  EXPECT_THAT(slow_dot.peak(InputForm::kInt8), DoubleEq(500)) << "a machine without an int8 dot";
}

TEST(MachineSpeed, DifferenceIsTheLargestOfAll) {
  MachineSpeed other = kMachine;
  EXPECT_THAT(kMachine.difference(other), DoubleEq(0));
  other.bf16_gflops = 1050;
  other.read_gbytes = 36;
  EXPECT_THAT(kMachine.difference(other), DoubleNear(40.0 / 36 - 1, 1e-12));
  EXPECT_THAT(other.difference(kMachine), DoubleNear(40.0 / 36 - 1, 1e-12));
}

// A model of two layers with 8 experts of which a token uses 2; the indexer selects 4 of the rows of 4 tokens each.
class ModelWorkTest : public ::testing::Test {
 protected:
  ModelWorkTest() {
    moe_.n_routed_experts = 8;
    moe_.num_experts_per_tok = 2;
    add(WeightRole::kEveryRow, 100, 10, InputForm::kBf16, 1000);
    add(WeightRole::kLookedUp, 50, 0, InputForm::kF32, 5000);
    add(WeightRole::kIndexScores, 10, 10, InputForm::kF32, 200);
    add(WeightRole::kLogits, 50, 10, InputForm::kF32, 2000);
    add(WeightRole::kNotUsed, 50, 10, InputForm::kF32, 7000);
    for (int matrix = 0; matrix < 2 * 8 * 3; ++matrix) add(WeightRole::kRoutedExpert, 5, 10, InputForm::kInt8, 30);
    PlaneSpec latent{.name = "latent", .tokens_per_row = 4, .most_read = 4, .format = {}, .initial = {}};
    latent.format.data_bytes = 16;
    PlaneSpec index{.name = "index", .tokens_per_row = 4, .read_beyond = 4, .format = {}, .initial = {}};
    index.format.data_bytes = 2;
    PlaneSpec window{.kind = PlaneKind::kWindow, .name = "window", .window_tokens = 8, .format = {}, .initial = {}};
    window.format.data_bytes = 1;
    for (const PlaneSpec& plane : {latent, index, window}) layout_.add(plane);
  }
  void add(WeightRole role, int out, int in, InputForm inputs, std::size_t bytes) {
    weights_.push_back({.name = "w",
                        .role = role,
                        .out = out,
                        .in = in,
                        .inputs = inputs,
                        .stored_bytes = bytes,
                        .used_bytes = 2 * bytes});
  }
  StepWork work(StepShape shape) const { return ModelWork(weights_, layout_, moe_).of(shape); }

  std::vector<BoundWeight> weights_;
  CacheLayout layout_;
  MoeConfig moe_;
};

TEST_F(ModelWorkTest, OneTokenAtTheStart) {
  const StepWork step = work({.spans = {{0, 1}}, .logit_rows = 1, .experts_chosen = 4});
  EXPECT_THAT(step.dense.bytes, DoubleEq(1000 + 5000.0 / 50));
  EXPECT_THAT(step.dense.used_bytes, DoubleEq(2 * step.dense.bytes));
  EXPECT_THAT(step.dense.multiply_adds, ::testing::ElementsAre(0, 1000, 0, 0, 0, 0));
  EXPECT_THAT(step.experts.bytes, DoubleEq(4 * 3 * 30));
  EXPECT_THAT(step.experts.multiply_adds, ::testing::ElementsAre(0, 0, 2 * 2 * 3 * 50, 0, 0, 0));
  EXPECT_THAT(step.head.bytes, DoubleEq(2000));
  EXPECT_THAT(step.cache.bytes, DoubleEq(1)) << "its own row of the window";
}

TEST_F(ModelWorkTest, RowsShareWeightsAndCacheRows) {
  const StepWork step = work({.spans = {{32, 8}, {3, 1}}, .logit_rows = 0, .experts_chosen = 16});
  EXPECT_THAT(step.dense.bytes, DoubleEq(1000 + 9 * 100 + 200)) << "the first span sees more than 4 entries";
  EXPECT_THAT(step.dense.multiply_adds, ::testing::ElementsAre(9 * 100, 9 * 1000, 0, 0, 0, 0));
  EXPECT_THAT(step.experts.bytes, DoubleEq(16 * 3 * 30));
  EXPECT_THAT(step.experts.multiply_adds, ::testing::ElementsAre(0, 0, 9 * 2 * 2 * 3 * 50, 0, 0, 0));
  EXPECT_THAT(step.head.bytes, DoubleEq(0));
  const double first = 10 * 16 + 10 * 2 + 15;  // all ten entries, their index keys, and 8 + 7 rows of the window
  EXPECT_THAT(step.cache.bytes, DoubleEq(first + 16 + 4));
}

TEST_F(ModelWorkTest, OneTokenReadsWhatTheIndexerSelects) {
  const StepWork step = work({.spans = {{399, 1}}, .logit_rows = 1, .experts_chosen = 4});
  EXPECT_THAT(step.cache.bytes, DoubleEq(4 * 16 + 100 * 2 + 8));
}

TEST_F(ModelWorkTest, ExpectedExperts) {
  const ModelWork work(weights_, layout_, moe_);
  EXPECT_EQ(work.expert_layers(), 2);
  EXPECT_THAT(work.expected_experts(1), DoubleEq(4));
  EXPECT_THAT(work.expected_experts(2), DoubleNear(16 * (1 - 0.75 * 0.75), 1e-12));
}

}  // namespace
}  // namespace sluice::step_work_test
