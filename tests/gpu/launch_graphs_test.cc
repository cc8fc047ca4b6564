// Batches of kernels on the CUDA device (kernels/cuda/runtime/launch_graphs.h) do the same work in the same order
// whether they start one by one or as a graph.
#include "kernels/cuda/runtime/launch_graphs.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/test_seed_testing.h"
#include "fake_cudart.h"
#include "kernels/cuda/device.h"

namespace sluice::launch_graphs_test {
namespace {

// x = x * factor + term + how it was started, of one number: whatever is done twice, not at all or elsewhere shows.
struct Step {
  std::uint64_t* x;
  std::uint64_t factor, term;
};
template <int kKind>
void run_step(const void* kernel, const FakeLaunch& launch) {
  const Step step = *static_cast<const Step*>(kernel);
  *step.x = *step.x * (step.factor * 2 + 1) + step.term * (kKind + 1) + launch.blocks + 10U * launch.threads +
            10'000U * launch.shared_bytes + (static_cast<std::uint64_t>(launch.teams) << 40) +
            (static_cast<std::uint64_t>(launch.team_shared_bytes) << 50);
}
constexpr FakeKernel kKernels[] = {
    {run_step<0>, sizeof(Step)}, {run_step<1>, sizeof(Step)}, {run_step<2>, sizeof(Step)}};

struct Kernel {
  int kind = 0;
  unsigned blocks = 1, threads = 32;
  std::uint64_t factor = 0, term = 0;
  bool waits = true;
  int teams = 1;
  unsigned shared_bytes = 0, team_shared_bytes = 0;
};
using Kernels = std::vector<Kernel>;

class LaunchGraphsTest : public ::testing::Test {
 protected:
  Kernels random_kernels(std::size_t count) {
    Kernels kernels(count);
    for (Kernel& kernel : kernels) {
      const auto kind = static_cast<int>(random_() % 3);
      kernel = {
          kind, 1 + static_cast<unsigned>(random_() % 9), 32U * (1 + kind), random_(), random_(), random_() % 4 != 0};
      change_shape(kernel);
    }
    return kernels;
  }
  // Changes one setting of the kernel that is not an argument.
  void change_shape(Kernel& kernel) {
    switch (random_() % 4) {
      case 0:
        kernel.blocks += 1;
        break;
      case 1:
        kernel.teams += 1;
        break;
      case 2:
        kernel.shared_bytes += 16;
        break;
      default:
        kernel.team_shared_bytes += 16;
    }
  }
  // Runs them on the device, in a batch, and here; `at` tells where the test is.
  void run(const Kernels& kernels, const char* at) {
    std::uint64_t expected = before_ += 77;
    std::uint64_t* const x = reinterpret_cast<std::uint64_t*>(memory_.data());
    gpu_->upload({memory_.data(), reinterpret_cast<const std::byte*>(&expected), sizeof expected});
    gpu_->begin_batch();
    for (const Kernel& kernel : kernels) {
      const Step step{x, kernel.factor, kernel.term};
      gpu_->enqueue({.function = &kKernels[kernel.kind],
                     .blocks = kernel.blocks,
                     .threads = kernel.threads,
                     .shared_bytes = kernel.shared_bytes,
                     .waits = kernel.waits,
                     .kernel = &step,
                     .kernel_bytes = sizeof step,
                     .teams = kernel.teams,
                     .team_shared_bytes = static_cast<int>(kernel.team_shared_bytes)});
      Step here = step;
      here.x = &expected;
      kKernels[kernel.kind].run(&here, {kernel.blocks, kernel.threads, kernel.shared_bytes, kernel.teams,
                                        static_cast<int>(kernel.team_shared_bytes)});
    }
    gpu_->end_batch();
    std::uint64_t found = 0;
    gpu_->download({reinterpret_cast<std::byte*>(&found), memory_.data(), sizeof found});
    gpu_->wait();
    ASSERT_EQ(found, expected) << at;
  }

  const std::uint32_t seed_ = test_seed();
  const ::testing::ScopedTrace trace_{__FILE__, __LINE__, "SLUICE_TEST_SEED=" + std::to_string(seed_)};
  std::mt19937_64 random_{seed_};
  // A device of its own: changes that another test made to a device would stay.
  const std::unique_ptr<CudaDevice> gpu_ = (fake_cuda() = FakeCuda{}, open_cuda_device(0).value());
  const DeviceMemory memory_ = gpu_->map(256, "a test").value();
  std::uint64_t before_ = 1;
};

TEST_F(LaunchGraphsTest, AListThatComesAgainIsOneGraphWhoseChangesAreTold) {
  Kernels kernels = random_kernels(30);
  run(kernels, "first");
  const std::size_t starts = gpu_->graph_starts();
  run(kernels, "second");
  EXPECT_EQ(gpu_->graph_starts(), starts + 1);
  const int launches = fake_cuda().launches, changed = fake_cuda().nodes_changed, made = fake_cuda().graphs_made;
  run(kernels, "third");
  EXPECT_EQ(fake_cuda().launches, launches) << "no kernel starts by itself";
  EXPECT_EQ(fake_cuda().nodes_changed, changed);
  kernels[3].term ^= 1, kernels[29].blocks += 1, kernels[0].factor += 5;
  run(kernels, "other arguments");
  EXPECT_EQ(fake_cuda().nodes_changed, changed + 3);
  run(kernels, "the same again");
  EXPECT_EQ(fake_cuda().nodes_changed, changed + 3);
  EXPECT_EQ(fake_cuda().graphs_made, made);
  EXPECT_EQ(gpu_->graph_starts(), starts + 4);
}

TEST_F(LaunchGraphsTest, ListsOfAllKindsGiveWhatTheirKernelsGiveOneByOne) {
  std::vector<Kernels> lists;
  for (int i = 0; i < 160; ++i) lists.push_back(random_kernels(1 + random_() % (i % 4 == 0 ? 250 : 40)));
  const int most = static_cast<int>(LaunchGraphs::kMostGraphs);
  for (int turn = 0; turn < 2000; ++turn) {
    Kernels& list = lists[random_() % (turn % 2 == 0 ? 5 : lists.size())];
    if (random_() % 2 == 0) list[random_() % list.size()].term = random_();
    if (random_() % 2 == 0) change_shape(list[random_() % list.size()]);
    gpu_->start_as_graphs(random_() % 8 != 0);
    run(list, "a turn");
    ASSERT_LE(fake_cuda().graphs_alive, most);
  }
  EXPECT_EQ(fake_cuda().graphs_alive, most);
}

TEST_F(LaunchGraphsTest, ALongListStartsInPieces) {
  const Kernels kernels = random_kernels(300);
  for (const char* turn : {"first", "second"}) run(kernels, turn);
  const std::size_t starts = gpu_->graph_starts();
  const int made = fake_cuda().graphs_made;
  run(kernels, "third");
  EXPECT_EQ(gpu_->graph_starts(), starts + 3);
  EXPECT_EQ(fake_cuda().graphs_made, made);
}

// As a list and as graphs, kernels with a wait of their own that follow a kernel start early, except the first of a
// piece.
TEST_F(LaunchGraphsTest, TheSameKernelsStartEarlyInAGraph) {
  const Kernels kernels = random_kernels(300);
  for (const bool early : {true, false, true}) {
    gpu_->start_kernels_early(early);
    int expected = 0;
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      expected += early && kernels[i].waits && i != 0 && i != 32 && i != 32 + 128 ? 1 : 0;
    }
    for (const char* turn : {"first", "second", "third"}) {
      const int before = fake_cuda().early;
      run(kernels, turn);
      EXPECT_EQ(fake_cuda().early - before, expected) << turn << ", early " << early;
    }
  }
}

TEST_F(LaunchGraphsTest, OfManyGraphsThoseStayThatWereUsedLast) {
  const Kernels used = random_kernels(20);
  for (const char* turn : {"first", "second"}) run(used, turn);
  for (std::size_t i = 0; i < LaunchGraphs::kMostGraphs + 3; ++i) {
    const Kernels other = random_kernels(21);
    for (const char* turn : {"first", "second"}) run(other, turn);
    const int made = fake_cuda().graphs_made;
    run(used, "again");
    ASSERT_EQ(fake_cuda().graphs_made, made) << i << " other graphs";
  }
}

TEST_F(LaunchGraphsTest, ABatchIsStartedWhenItEnds) {
  for (const char* turn : {"first", "second", "third"}) {
    const int before = fake_cuda().launches + fake_cuda().graph_launches;
    auto* const x = reinterpret_cast<std::uint64_t*>(memory_.data());
    gpu_->begin_batch();
    Step step{x, 1, 1};
    const KernelLaunch launch{
        .function = &kKernels[0], .blocks = 1, .threads = 32, .kernel = &step, .kernel_bytes = sizeof step, .teams = 1};
    for (int i = 0; i < 20; ++i) gpu_->enqueue(launch);
    EXPECT_EQ(fake_cuda().launches + fake_cuda().graph_launches, before) << turn;
    gpu_->end_batch();
    EXPECT_GT(fake_cuda().launches + fake_cuda().graph_launches, before) << turn;
    gpu_->wait();
  }
}

TEST_F(LaunchGraphsTest, OtherWorkInABatchKeepsItsPlace) {
  std::uint64_t expected = 5;
  auto* const x = reinterpret_cast<std::uint64_t*>(memory_.data());
  for (int turn = 0; turn < 3; ++turn) {
    gpu_->fill(memory_.data(), std::byte{0}, sizeof expected);
    gpu_->begin_batch();
    expected = 0;
    for (std::uint64_t i = 0; i < 40; ++i) {
      Step step{x, i, i + 1};
      gpu_->enqueue({.function = &kKernels[0],
                     .blocks = 1,
                     .threads = 32,
                     .waits = true,
                     .kernel = &step,
                     .kernel_bytes = sizeof step,
                     .teams = 1});
      step.x = &expected;
      run_step<0>(&step, {1, 32, 0, 1, 0});
      if (i % 13 == 12) {
        gpu_->copy({memory_.data() + 128, memory_.data(), sizeof expected});
        gpu_->fill(memory_.data(), std::byte{9}, 1);
        expected = (expected & ~std::uint64_t{0xFF}) | 9;
      }
    }
    gpu_->end_batch();
    std::uint64_t found = 0;
    gpu_->download({reinterpret_cast<std::byte*>(&found), memory_.data(), sizeof found});
    gpu_->wait();
    ASSERT_EQ(found, expected);
  }
}

TEST_F(LaunchGraphsTest, WhereThereAreNoGraphsKernelsStartOneByOne) {
  fake_cuda().has_graphs = false;
  const Kernels kernels = random_kernels(50);
  const std::size_t starts = gpu_->graph_starts();
  for (int turn = 0; turn < 4; ++turn) run(kernels, "without graphs");
  EXPECT_EQ(gpu_->graph_starts(), starts);
  fake_cuda().has_graphs = true;
}

}  // namespace
}  // namespace sluice::launch_graphs_test
