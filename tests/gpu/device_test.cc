// The CUDA device: moves of bytes, marks, errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "gpu_testing.h"
#include "kernels/tests/op_testing.h"

namespace sluice::gpu_device_test {
namespace {

std::vector<std::byte> random_bytes(Random& random, std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.between(0, 255));
  return bytes;
}

// Moves of all kinds at random, compared with the same moves done at once in host memory.
TEST(GpuDevice, MovesAreDoneInTheOrderOfTheCalls) {
  constexpr std::size_t kBytes = 1 << 20;
  Random random(811);
  const DeviceMemory memory = gpu().map(kBytes, "a test").value();
  std::vector<std::byte> expected(kBytes), fetched(kBytes);
  for (int turn = 0; turn < 2000; ++turn) {
    const auto bytes = static_cast<std::size_t>(random.between(1, random.between(0, 9) == 0 ? 200000 : 900));
    const auto at = [&](std::size_t end) { return static_cast<std::size_t>(random.between(0, static_cast<int>(end))); };
    switch (random.between(0, 3)) {
      case 0: {
        std::vector<std::byte> values = random_bytes(random, bytes);
        const std::size_t to = at(kBytes - bytes);
        gpu().upload({memory.data() + to, values.data(), bytes});
        std::copy(values.begin(), values.end(), expected.begin() + static_cast<std::ptrdiff_t>(to));
        std::fill(values.begin(), values.end(), std::byte{0xA5});  // the memory may be used for something else
        break;
      }
      case 1: {
        const std::size_t from = at(kBytes / 2 - bytes), to = kBytes / 2 + at(kBytes / 2 - bytes);
        gpu().copy({memory.data() + to, memory.data() + from, bytes});
        std::copy_n(expected.data() + from, bytes, expected.data() + to);
        break;
      }
      case 2: {
        const std::size_t to = at(kBytes - bytes);
        gpu().fill(memory.data() + to, static_cast<std::byte>(turn), bytes);
        std::fill_n(expected.data() + to, bytes, static_cast<std::byte>(turn));
        break;
      }
      default: {
        const std::size_t from = at(kBytes - bytes);
        std::vector<std::byte> found(bytes);
        const std::vector<std::byte> wanted(expected.data() + from, expected.data() + from + bytes);
        gpu().download({found.data(), memory.data() + from, bytes});
        gpu().fill(memory.data() + from, std::byte{7}, bytes);  // after the download
        std::fill_n(expected.data() + from, bytes, std::byte{7});
        gpu().wait();
        ASSERT_EQ(found, wanted) << turn;
      }
    }
  }
  gpu().download({fetched.data(), memory.data(), kBytes});
  gpu().wait();
  EXPECT_EQ(fetched, expected);
  EXPECT_TRUE(gpu().status().ok()) << gpu().status().message();
}

TEST(GpuDevice, MemoryBeginsAsZeros) {
  std::vector<std::byte> found(3 << 20, std::byte{1});
  for (int turn = 0; turn < 3; ++turn) {
    const DeviceMemory memory = gpu().map(found.size(), "a test").value();
    gpu().download({found.data(), memory.data(), found.size()});
    gpu().wait();
    EXPECT_EQ(std::count(found.begin(), found.end(), std::byte{0}), static_cast<std::ptrdiff_t>(found.size()));
    gpu().fill(memory.data(), std::byte{0x5A}, found.size());
  }
}

// More bytes than all of the staging holds, in both directions.
TEST(GpuDevice, MovesMayBeLargerThanTheStaging) {
  Random random(812);
  const std::vector<std::byte> piece = random_bytes(random, 1 << 20);
  std::vector<std::byte> values;
  for (int i = 0; i < 90; ++i) values.insert(values.end(), piece.begin(), piece.end() - i);
  const DeviceMemory memory = gpu().map(values.size(), "a test").value();
  std::vector<std::byte> found(values.size());
  gpu().upload({memory.data(), values.data(), values.size()});
  gpu().download({found.data(), memory.data(), found.size()});
  gpu().wait();
  EXPECT_TRUE(found == values);
}

// Large uploads, which several threads stage, between moves of other kinds.
TEST(GpuDevice, LargeUploadsKeepTheOrderOfTheCalls) {
  constexpr std::size_t kBytes = std::size_t{24} << 20;
  Random random(813);
  std::vector<std::byte> values(kBytes), expected(kBytes), found(kBytes), early(100);
  const DeviceMemory memory = gpu().map(kBytes, "a test").value();
  for (int turn = 0; turn < 12; ++turn) {
    for (std::size_t i = 0; i < kBytes; i += 1000) values[i] = static_cast<std::byte>(random.between(0, 255));
    const auto at = static_cast<std::size_t>(random.between(0, 1 << 20)), end = kBytes - at;
    gpu().download({early.data(), memory.data() + at, early.size()});
    const std::vector<std::byte> before(expected.begin() + static_cast<std::ptrdiff_t>(at),
                                        expected.begin() + static_cast<std::ptrdiff_t>(at + early.size()));
    gpu().upload({memory.data() + at, values.data() + at, end - at});
    std::copy(values.begin() + static_cast<std::ptrdiff_t>(at), values.begin() + static_cast<std::ptrdiff_t>(end),
              expected.begin() + static_cast<std::ptrdiff_t>(at));
    std::fill(values.begin(), values.end(), std::byte{0xA5});  // the memory may be used for something else
    gpu().fill(memory.data() + at + 7, std::byte{9}, 300);
    std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(at + 7), 300, std::byte{9});
    gpu().download({found.data(), memory.data(), kBytes});
    gpu().wait();
    ASSERT_TRUE(found == expected) << turn;
    ASSERT_EQ(early, before) << turn;
  }
}

// The moves of one call, of all sizes and at any address: most of them are one kernel's.
TEST(GpuDevice, TheMovesOfACallAllArrive) {
  constexpr std::size_t kBytes = std::size_t{12} << 20;
  Random random(814);
  const DeviceMemory memory = gpu().map(kBytes, "a test").value();
  for (int turn = 0; turn < 60; ++turn) {
    std::vector<std::byte> expected(kBytes, std::byte{5}), found(kBytes);
    const std::vector<std::byte> values = random_bytes(random, 1 << 16);
    std::vector<std::byte> large(turn % 10 == 0 ? std::size_t{9} << 20 : 0, std::byte{6});
    std::vector<ByteMove> moves;
    std::size_t at = 0;
    for (int i = random.between(1, 200); i > 0; --i) {
      const auto bytes = static_cast<std::size_t>(random.between(0, random.between(0, 20) == 0 ? 65000 : 700));
      at += static_cast<std::size_t>(random.between(0, 1) == 0 ? 64 - at % 64 : random.between(1, 9));
      if (at + bytes > kBytes - large.size()) break;
      const auto from = static_cast<std::size_t>(random.between(0, 500));
      moves.push_back({memory.data() + at, values.data() + from, bytes});
      std::copy_n(values.data() + from, bytes, expected.data() + at);
      at += bytes;
    }
    if (!large.empty()) {
      moves.insert(moves.begin() + static_cast<std::ptrdiff_t>(moves.size() / 2),
                   {memory.data() + kBytes - large.size(), large.data(), large.size()});
      std::copy(large.begin(), large.end(), expected.end() - static_cast<std::ptrdiff_t>(large.size()));
    }
    gpu().fill(memory.data(), std::byte{5}, kBytes);
    gpu().upload_all(moves);
    std::fill(large.begin(), large.end(), std::byte{0xA5});
    gpu().download({found.data(), memory.data(), kBytes});
    gpu().wait();
    ASSERT_TRUE(found == expected) << turn;
  }
}

TEST(GpuDevice, WaitingForAMarkBringsWhatWasDownloadedBeforeIt) {
  constexpr int kTurns = 300;  // more than there are events
  const DeviceMemory memory = gpu().map(kTurns, "a test").value();
  std::vector<std::byte> found(kTurns, std::byte{0xEE});
  std::vector<Device::Mark> marks;
  for (int turn = 0; turn < kTurns; ++turn) {
    gpu().fill(memory.data() + turn, static_cast<std::byte>(turn % 200), 1);
    gpu().download({&found[static_cast<std::size_t>(turn)], memory.data() + turn, 1});
    marks.push_back(gpu().mark());
  }
  for (int turn = 0; turn < kTurns; turn += 37) {
    gpu().wait_for(marks[static_cast<std::size_t>(turn)]);
    for (int i = 0; i <= turn; ++i) ASSERT_EQ(found[static_cast<std::size_t>(i)], static_cast<std::byte>(i % 200)) << i;
  }
  EXPECT_EQ(found.back(), std::byte{0xEE}) << "what was not waited for does not arrive by itself";
  gpu().wait();
  for (int i = 0; i < kTurns; ++i) ASSERT_EQ(found[static_cast<std::size_t>(i)], static_cast<std::byte>(i % 200)) << i;
}

TEST(GpuDevice, WaitingMayWatchOtherDevices) {
  const DeviceMemory memory = gpu().map(1 << 20, "a test").value();
  int watched = 0;
  for (int turn = 0; turn < 20; ++turn) {
    std::byte found{};
    for (int i = 0; i < 50; ++i) gpu().fill(memory.data(), static_cast<std::byte>(turn + 1), 1 << 20);
    gpu().download({&found, memory.data(), 1});
    gpu().wait_watching(gpu().mark(), [&] { ++watched; });
    EXPECT_EQ(found, static_cast<std::byte>(turn + 1));
    gpu().note_failure();
    EXPECT_TRUE(gpu().status().ok());
  }
  EXPECT_GT(watched, 0);
}

TEST(GpuDevice, SaysWhatIsMissing) {
  const auto none = open_cuda_device(1000);
  EXPECT_EQ(none.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(none.status().message().find("--device cuda:1000: expected 0 to"), std::string::npos)
      << none.status().message();
  const auto memory = gpu().map(std::size_t{1} << 45, "too much");
  EXPECT_EQ(memory.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(memory.status().message().find("too much"), std::string::npos) << memory.status().message();
  EXPECT_TRUE(gpu().map(1 << 20, "enough").ok());
  gpu().wait();
  EXPECT_TRUE(gpu().status().ok()) << "a map that fails is no fault of the device";
}

TEST(GpuFault, AKernelThatFailsIsAStatusAndNothingArrives) {
  const DeviceMemory memory = gpu().map(sizeof(float) * 64, "a test").value();
  std::vector<float> values(64, 1.0F), found(64, 2.0F);
  const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
  gpu().upload({memory.data(), bytes, memory.size()});
  gpu().wait();
  ASSERT_TRUE(gpu().status().ok());
  int told = 0;
  gpu().join([&](const Status&) { ++told; });
  gpu().plant_fault();
  gpu().download({reinterpret_cast<std::byte*>(found.data()), memory.data(), memory.size()});
  const auto begin = std::chrono::steady_clock::now();
  while (gpu().status().ok() && std::chrono::steady_clock::now() - begin < std::chrono::seconds(5))
    gpu().note_failure();
  EXPECT_EQ(gpu().status().code(), StatusCode::kInternal) << "found without waiting";
  gpu().wait();
  EXPECT_EQ(told, 1);
  gpu().join({});
  std::printf("%s\n", gpu().status().message().c_str());
  for (const float value : found) EXPECT_NE(value, value);
  // Nothing more is done, and no call waits for it.
  gpu().upload({memory.data(), bytes, memory.size()});
  gpu().copy({memory.data(), memory.data() + 128, 64});
  const Device::Mark mark = gpu().mark();
  gpu().download({reinterpret_cast<std::byte*>(values.data()), memory.data(), memory.size()});
  gpu().wait_for(mark);
  gpu().wait();
  for (const float value : values) EXPECT_NE(value, value);
  EXPECT_FALSE(gpu().map(16, "a test").ok());
}

}  // namespace
}  // namespace sluice::gpu_device_test
