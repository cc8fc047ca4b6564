// The stage of a step that each op's time counts for (base/threads/pool_meter.h).
#include <gtest/gtest.h>

#include "base/threads/pool_meter.h"
#include "kernels/ops/ops.h"

namespace sluice::op_stages_test {
namespace {

// Each op makes one call of the pool and does nothing else.
constexpr OpTable kCalls{.device = "calls",
                         .parts = nullptr,
#define SLUICE_OP(op, Args) .op = [](const Exec& exec, const Args&) { exec.pool->run(1, [](int, int) {}); },
                         SLUICE_OPS(SLUICE_OP)
#undef SLUICE_OP
};

TEST(OpStages, TimeCountsForTheStageOfTheOp) {
  ThreadPool pool(2);
  PoolMeter meter;
  pool.watch(&meter);
  const Exec exec{.pool = &pool, .ops = &kCalls};
  const auto stage_of = [&](const auto& call) {
    meter.begin();
    call();
    pool.run(1, [](int, int) {});  // between ops: it belongs to no stage
    const StageTimes times = meter.take();
    EXPECT_EQ(sum_of(times).calls, 2);
    for (int i = 1; i < kStages; ++i) {
      if (times[static_cast<std::size_t>(i)].calls > 0) return static_cast<StepStage>(i);
    }
    return StepStage::kRest;
  };
  EXPECT_EQ(stage_of([&] { attend(exec, AttendArgs{}); }), StepStage::kAttention);
  EXPECT_EQ(stage_of([&] { store_kv(exec, StoreKvArgs{}); }), StepStage::kAttention);
  EXPECT_EQ(stage_of([&] { index_select(exec, IndexSelectArgs{}); }), StepStage::kAttention);
  EXPECT_EQ(stage_of([&] { expand_and_attend(exec, ExpandAndAttendArgs{}); }), StepStage::kAttention);
  EXPECT_EQ(stage_of([&] { experts(exec, ExpertsArgs{}); }), StepStage::kExperts);
  EXPECT_EQ(stage_of([&] { route(exec, RouteArgs{}); }), StepStage::kExperts);
  EXPECT_EQ(stage_of([&] { project(exec, ProjectArgs{}); }), StepStage::kDense);
  EXPECT_EQ(stage_of([&] { project(exec, ProjectArgs{.stage = StepStage::kHead}); }), StepStage::kHead);
  EXPECT_EQ(stage_of([&] { add_norm(exec, AddNormArgs{}); }), StepStage::kRest);
  EXPECT_EQ(stage_of([&] { sample(exec, SampleArgs{}); }), StepStage::kRest);
}

}  // namespace
}  // namespace sluice::op_stages_test
