// launch_beside() (kernels/cuda/launch.h): a kernel runs while the one before it does, and kernels that follow see what
// both have written.
#include <gtest/gtest.h>

#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/shared/shared_ops.h"
#include "kernels/ops/router.h"
#include "sm90_testing.h"

namespace sluice::gpu_beside_test {
namespace {

using namespace sm90_testing;
using cuda_ops::Team;

__device__ std::uint64_t now() {
  std::uint64_t ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

// Writes `value` when `ns` nanoseconds have passed, and the time when it did.
struct Slow {
  static constexpr int kThreads = 64;
  static constexpr bool kWaits = true, kStartsNext = true;
  std::uint64_t ns;
  std::uint32_t value;
  std::uint32_t* to;
  std::uint64_t* end;
  SLUICE_DEVICE void operator()(const Team<kThreads>&) const {
    cuda_ops::wait_for_kernels();
    cuda_ops::let_next_kernel_start();
    if (threadIdx.x != 0) return;
    const std::uint64_t begin = now();
    while (now() - begin < ns) {
    }
    *to = value;
    *end = now();
  }
};
struct Quick {
  static constexpr int kThreads = 64;
  std::uint32_t value;
  std::uint32_t* to;
  std::uint64_t* begin;
  SLUICE_DEVICE void operator()(const Team<kThreads>&) const {
    if (threadIdx.x == 0) *to = value, *begin = now();
  }
};
struct Sum {
  static constexpr int kThreads = 64;
  const std::uint32_t *a, *b;
  std::uint32_t* to;
  SLUICE_DEVICE void operator()(const Team<kThreads>&) const {
    if (threadIdx.x == 0) *to = *a + *b;
  }
};

class GpuBeside : public Sm90Test {
 protected:
  // Runs `rounds` rounds in a row, as one batch; returns how many of the quick kernels began before the slow one had
  // ended.
  int run(int rounds, bool graph) {
    const auto count = static_cast<std::size_t>(rounds);
    OnDevice<std::uint32_t> a(1), b(1), sums(count);
    OnDevice<std::uint64_t> ends(count), begins(count);
    sums.poison();
    for (int start = 0; start < (graph ? 3 : 1); ++start) {  // a graph from the second time on
      if (graph) gpu().begin_batch();
      for (std::uint32_t i = 0; i < count; ++i) {
        cuda_ops::launch(exec_, 1, Slow{20'000, 2 * i, a.data(), ends.data() + i});
        cuda_ops::launch_beside(exec_, 1, Quick{5 * i, b.data(), begins.data() + i});
        cuda_ops::launch(exec_, 1, Sum{a.data(), b.data(), sums.data() + i});
      }
      if (graph) gpu().end_batch();
      gpu().wait();
    }
    const auto all = sums.fetch();
    const auto end = ends.fetch(), begin = begins.fetch();
    int beside = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      EXPECT_EQ(all[i], 7 * i) << "round " << i;
      beside += begin[i] < end[i] ? 1 : 0;
    }
    return beside;
  }
};

TEST_F(GpuBeside, RunsBesideTheKernelBeforeAndEndsBehindIt) {
  EXPECT_GT(run(200, false), 150);
  EXPECT_GT(run(200, true), 150);
}

// Ops whose kernels wait by themselves, as they read something else before that.
TEST_F(GpuBeside, RoutersReadNoLogitBeforeTheKernelAheadHasEnded) {
  constexpr int kRows = 3, kSlots = 6;
  for (const int experts : {64, 384}) {
    const auto count = static_cast<std::size_t>(kRows * experts);
    const OnDevice<float> logits(random_values(random_, count)), bias(random_values(random_, static_cast<std::size_t>(experts)));
    OnDevice<float> weights(kRows * kSlots);
    OnDevice<std::int32_t> ids(kRows * kSlots);
    const auto run = [&] {
      RouteArgs args{.rows = kRows, .experts = experts, .slots = kSlots, .logits = logits.data(), .bias = bias.data()};
      args.ids = ids.data(), args.weights = weights.data();
      cuda_ops::choose_experts(exec_, args);
    };
    LateInputs late;
    late.add(logits);
    run();
    const auto chosen = ids.fetch();
    const auto expected = weights.fetch();
    late.try_all(exec_, run, [&](int time) {
      EXPECT_EQ(ids.fetch(), chosen) << experts << " experts, time " << time;
      EXPECT_EQ(weights.fetch(), expected) << experts << " experts, time " << time;
      ids.poison(), weights.poison();
    });
  }
}

TEST_F(GpuBeside, NormsReadNoRowBeforeTheKernelAheadHasEnded) {
  constexpr int kDim = 1024;
  for (const int rows : {1, 40}) {
    const auto count = static_cast<std::size_t>(rows * kDim);
    const OnDevice<float> x(random_values(random_, count)), weight(random_values(random_, kDim));
    OnDevice<float> y(count);
    const auto run = [&] {
      cuda_ops::rms_norm(exec_, {rows, kDim, x.data(), kDim, weight.data(), 1e-6F, y.data(), kDim});
    };
    LateInputs late;
    late.add(x);
    run();
    const auto expected = y.fetch();
    late.try_all(exec_, run, [&](int time) {
      EXPECT_EQ(y.fetch(), expected) << rows << " rows, time " << time;
      y.poison();
    });
  }
}

TEST_F(GpuBeside, WaitsWhereKernelsDoNotStartEarly) {
  gpu().start_kernels_early(false);
  EXPECT_EQ(run(50, false), 0);
  gpu().start_kernels_early(true);
}

}  // namespace
}  // namespace sluice::gpu_beside_test
