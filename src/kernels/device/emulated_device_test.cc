#include "kernels/device/emulated_device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/test_seed_testing.h"
#include "kernels/device/device_tables.h"
#include "kernels/tests/op_testing.h"

namespace sluice::emulated_device_test {
namespace {

class EmulatedDeviceTest : public ::testing::Test {
 protected:
  // Floats in the device's memory.
  DeviceMemory floats(std::size_t count) { return device_.map(count * sizeof(float), "a test").value(); }
  static float* in(const DeviceMemory& memory) { return reinterpret_cast<float*>(memory.data()); }
  void upload(const std::vector<float>& values, const DeviceMemory& to) {
    device_.upload({to.data(), reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(float)});
  }
  std::vector<float> download(const DeviceMemory& from, std::size_t count) {
    std::vector<float> values(count);
    device_.download({reinterpret_cast<std::byte*>(values.data()), from.data(), count * sizeof(float)});
    device_.wait();
    return values;
  }

  const std::uint32_t seed_ = test_seed();
  EmulatedDevice device_{seed_};
  ThreadPool pool_{2};
  Exec exec_{&pool_, all_tables().back(), &emulated_op_table(), &device_};
};

TEST_F(EmulatedDeviceTest, OpsAndMovesAreDoneInTheOrderOfTheCalls) {
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed_);
  constexpr int kValues = 300, kTurns = 200;
  const DeviceMemory x = floats(kValues), y = floats(kValues);
  upload(std::vector<float>(kValues, 0.0F), y);
  std::vector<float> staged(kValues);
  for (int turn = 0; turn < kTurns; ++turn) {
    std::fill(staged.begin(), staged.end(), static_cast<float>(turn));
    upload(staged, x);  // the same host memory in each turn
    add_norm(exec_, {.rows = 1, .dim = kValues, .x = in(y), .y = in(x)});
    if (turn % 16 == 0) add_norm(exec_, {.rows = 1, .dim = kValues, .x = in(y), .y = in(y)});
  }
  float expected = 0.0F;
  for (int turn = 0; turn < kTurns; ++turn) {
    expected += static_cast<float>(turn);
    if (turn % 16 == 0) expected *= 2.0F;
  }
  EXPECT_EQ(download(y, kValues), std::vector<float>(kValues, expected));
}

TEST_F(EmulatedDeviceTest, AnOpKeepsTheArgumentsThatItWasCalledWith) {
  Random random(81);
  const std::vector<float> x = random.floats(64), w = random.floats(64 * 48);
  WeightView view;
  view.out = 48, view.in = 64, view.data = reinterpret_cast<const std::byte*>(w.data());
  const LinearWeight weight = LinearWeight::make(view, InputForm::kF32, packs_for(exec_));
  const DeviceMemory input = floats(64), output = floats(48);
  upload(x, input);
  {
    ProjectArgs args{.rows = 1, .x = contiguous_rows(in(input), 64)};
    args.add(weight, contiguous_rows(in(output), 48));
    project(exec_, args);
    args = {};
  }
  std::vector<float> expected(48);
  const LinearJob job{&weight, x.data(), 64, expected.data(), 48};
  linear(Exec{&pool_, exec_.kernels}, 1, {&job, 1});
  EXPECT_TRUE(same_bits(download(output, 48), expected));
}

// The order in which enqueued work is done: a move, two ops of which one has beside_last, another move, an op after it
// that has beside_last.
TEST_F(EmulatedDeviceTest, AnOpBesideTheLastIsDoneBeforeIt) {
  std::vector<int> done;
  const auto work = [&done](int i) { return [&done, i] { done.push_back(i); }; };
  const auto enqueue_all = [&] {
    device_.enqueue(work(0));
    device_.enqueue_op(work(1), false);
    device_.enqueue_op(work(2), false);
    device_.enqueue_op(work(3), true);
    device_.enqueue(work(4));
    device_.enqueue_op(work(5), true);
  };
  const std::vector<int> expected{0, 1, 3, 2, 4, 5};
  enqueue_all();
  device_.wait();
  EXPECT_EQ(done, expected);
  device_.record();
  enqueue_all();
  const EmulatedDevice::Recording recording = device_.recorded();
  done.clear();
  device_.replay(recording);
  device_.wait();
  EXPECT_EQ(done, expected);
}

TEST_F(EmulatedDeviceTest, TheHostCannotTouchItsMemory) {
  const DeviceMemory memory = floats(4);
  volatile float* value = in(memory);
  EXPECT_DEATH(*value = 1.0F, "");
  upload({1, 2, 3, 4}, memory);
  device_.wait();
  EXPECT_DEATH(static_cast<void>(*value == 1.0F), "");
  EXPECT_EQ(download(memory, 4), (std::vector<float>{1, 2, 3, 4}));
}

// At a replay, ops read device memory anew, but their arguments from the host stay as recorded.
TEST_F(EmulatedDeviceTest, ARecordingIsReplayedOverWhatTheMemoryHoldsNow) {
  const DeviceMemory x = floats(4), y = floats(4);
  upload({0, 0, 0, 0}, y);
  device_.record();
  add_norm(exec_, {.rows = 1, .dim = 4, .x = in(y), .y = in(x)});
  add_norm(exec_, {.rows = 1, .dim = 4, .x = in(y), .y = in(y)});
  const EmulatedDevice::Recording recording = device_.recorded();
  EXPECT_EQ(download(y, 4), std::vector<float>(4, 0.0F)) << "recorded, not done";
  upload({1, 2, 3, 4}, x);
  device_.replay(recording);
  upload({10, 10, 10, 10}, x);
  device_.replay(recording);
  EXPECT_EQ(download(y, 4), (std::vector<float>{24, 28, 32, 36}));
}

TEST_F(EmulatedDeviceTest, TablesAreThoseOfTheHost) {
  StepBuilder builder(TableShape{.ratios = {1, 4}, .windows = true});
  DeviceTables tables;
  ASSERT_TRUE(
      tables.reserve(device_, {.ratios = {1, 4}, .windows = true}, {.rows = 300, .latent_pages = 8, .window_pages = 8})
          .ok());
  const std::vector<LatentPage> latents{LatentPage(5), LatentPage(2), LatentPage(7)};
  const std::vector<WindowPage> windows{WindowPage(1), WindowPage(4), WindowPage(0)};
  for (int round = 0; round < 3; ++round) {
    builder.begin();
    std::vector<TokenId> ids(static_cast<std::size_t>(130 + round));
    std::iota(ids.begin(), ids.end(), round);
    const std::vector<int> wanted{0, round + 1};
    builder.add({.rows = 130 + round,
                 .first_position = 120,
                 .latents_from = 124 + round,
                 .latent_pages = latents,
                 .window_pages = windows,
                 .state_in = 3,
                 .first_state = 2},
                ids, wanted);
    const StepTables& host = builder.finish();
    const StepTables& there = tables.upload(host);
    const auto same = [&](auto found, auto expected, std::size_t count) {
      using T = std::remove_cvref_t<decltype(*expected)>;
      std::vector<T> values(count);
      device_.download(
          {reinterpret_cast<std::byte*>(values.data()), reinterpret_cast<const std::byte*>(found), count * sizeof(T)});
      device_.wait();
      EXPECT_NE(static_cast<const void*>(found), static_cast<const void*>(expected));
      return std::equal(values.begin(), values.end(), expected);
    };
    const auto rows = ids.size();
    EXPECT_TRUE(same(there.ids.data(), host.ids.data(), rows));
    EXPECT_TRUE(same(there.positions.data(), host.positions.data(), rows));
    EXPECT_TRUE(same(there.states_after, host.states_after, rows));
    EXPECT_TRUE(same(there.window_slots, host.window_slots, rows));
    EXPECT_TRUE(same(there.latent_pages, host.latent_pages, 3));
    EXPECT_TRUE(same(there.window_pages, host.window_pages, 3));
    EXPECT_TRUE(same(there.logit_rows.data(), host.logit_rows.data(), 2));
    ASSERT_EQ(host.ended_blocks[1], 1);
    EXPECT_TRUE(same(there.boundary_pages, host.boundary_pages, 1));
    for (const int ratio : {1, 4}) {
      const ClosedWindows &of_host = host.closed_by(ratio), &closed = there.closed_by(ratio);
      EXPECT_EQ(closed.count, of_host.count);
      EXPECT_TRUE(same(closed.slots, of_host.slots, static_cast<std::size_t>(of_host.count)));
      EXPECT_TRUE(same(closed.positions, of_host.positions, static_cast<std::size_t>(of_host.count)));
    }
    EXPECT_EQ(there.spans.size(), 1U);
    EXPECT_EQ(there.end, host.end);
  }
}

}  // namespace
}  // namespace sluice::emulated_device_test
