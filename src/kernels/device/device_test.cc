#include "kernels/device/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "base/test_seed_testing.h"
#include "kernels/device/deferred_device_testing.h"

namespace sluice::device_test {
namespace {

using Bytes = std::vector<std::byte>;

Bytes counted(std::size_t count, int first) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(first + static_cast<int>(i));
  return bytes;
}

// The duties of every device, tested on both kinds.
class DeviceTest : public ::testing::TestWithParam<bool> {
 protected:
  Bytes read(const std::byte* from, std::size_t bytes) {
    Bytes found(bytes, std::byte{0xEE});
    device_.download({found.data(), from, bytes});
    device_.wait();
    return found;
  }

  DeferredDevice deferred_;
  Device& device_ = GetParam() ? deferred_ : cpu_device();
};

TEST_P(DeviceTest, MemoryIsZeroAlignedAndMovable) {
  DeviceMemory memory = device_.map(5000, "test").value();
  EXPECT_EQ(memory.size(), 5000U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % 256, 0U);
  EXPECT_EQ(read(memory.data(), 5000), Bytes(5000));
  const std::byte* at = memory.data();
  DeviceMemory moved = std::move(memory);
  EXPECT_EQ(moved.data(), at);
  EXPECT_EQ(memory.data(), nullptr);  // NOLINT(bugprone-use-after-move): what is left owns nothing
  memory = device_.map(0, "test").value();
  EXPECT_NE(memory.data(), nullptr);
  EXPECT_EQ(memory.size(), 0U);
}

TEST_P(DeviceTest, MoreThanThereIsIsAnErrorWithItsReason) {
  const auto memory = device_.map(std::size_t{1} << 62, "everything");
  EXPECT_EQ(memory.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(memory.status().message(),
              ::testing::HasSubstr("cannot map 4611686018427387904 bytes of everything (Cannot allocate memory)"));
}

// The host's bytes are changed right after the upload, and the device's right after the download: each move gives the
// bytes of the time of its call.
TEST_P(DeviceTest, UploadTakesItsBytesAndDownloadWaits) {
  const DeviceMemory memory = device_.map(300, "test").value();
  Bytes given = counted(100, 7);
  device_.upload({memory.data() + 50, given.data(), given.size()});
  std::fill(given.begin(), given.end(), std::byte{0});
  Bytes found(102);
  device_.download({found.data(), memory.data() + 49, found.size()});
  const Bytes later = counted(100, 90);
  device_.upload({memory.data() + 50, later.data(), later.size()});
  device_.wait();
  Bytes expected = counted(102, 6);
  expected.front() = expected.back() = std::byte{0};
  EXPECT_EQ(found, expected);
  EXPECT_EQ(read(memory.data() + 50, 100), later);
}

// Random moves, in the order of the calls, have the effect that they have on a plain array.
TEST_P(DeviceTest, MovesAreDoneInOrder) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  constexpr std::size_t kHalf = 512;  // copies go from one half to the other
  const DeviceMemory memory = device_.map(2 * kHalf, "test").value();
  Bytes plain(2 * kHalf);
  for (int i = 0; i < 400; ++i) {
    const std::size_t bytes = below(64), first = below(kHalf - 64), second = kHalf + below(kHalf - 64);
    const auto value = static_cast<std::byte>(random());
    switch (below(3)) {
      case 0:
        device_.fill(memory.data() + first, value, bytes);
        std::fill_n(plain.begin() + static_cast<std::ptrdiff_t>(first), bytes, value);
        break;
      case 1: {
        const bool there = below(2) == 0;
        const std::size_t from = there ? first : second, to = there ? second : first;
        device_.copy({memory.data() + to, memory.data() + from, bytes});
        std::copy_n(plain.data() + from, bytes, plain.data() + to);
        break;
      }
      default: {
        const Bytes given = counted(bytes, static_cast<int>(random() % 256));
        device_.upload({memory.data() + second, given.data(), bytes});
        std::copy_n(given.data(), bytes, plain.data() + second);
      }
    }
    if (below(50) == 0) {
      EXPECT_EQ(read(memory.data(), plain.size()), plain);
    }
  }
  EXPECT_EQ(read(memory.data(), plain.size()), plain);
}

TEST_P(DeviceTest, ABatchMovesEachPiece) {
  const DeviceMemory memory = device_.map(1000, "test").value();
  const Bytes given = counted(60, 1);
  const std::vector<ByteMove> up = {{memory.data(), given.data(), 20},
                                    {memory.data() + 100, given.data() + 20, 0},
                                    {memory.data() + 200, given.data() + 20, 40}};
  device_.upload_all(up);
  const std::vector<ByteMove> across = {{memory.data() + 500, memory.data() + 200, 40},
                                        {memory.data() + 540, memory.data(), 20}};
  device_.copy_all(across);
  Bytes found(60);
  const std::vector<ByteMove> down = {{found.data() + 20, memory.data() + 500, 40},
                                      {found.data(), memory.data() + 540, 20}};
  device_.download_all(down);
  device_.wait();
  EXPECT_EQ(found, given);
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "deferred" : "cpu"; });

TEST(DeferredDeviceTest, DoesNothingBeforeWait) {
  DeferredDevice device;
  const DeviceMemory memory = device.map(10, "test").value();
  device.fill(memory.data(), std::byte{9}, 10);
  std::byte found{1};
  device.download({&found, memory.data() + 9, 1});
  EXPECT_EQ(found, std::byte{1});
  EXPECT_EQ(device.enqueued(), 2U);
  device.wait();
  EXPECT_EQ(found, std::byte{9});
  EXPECT_EQ(device.enqueued(), 0U);
}

// The layers above rely on this in their tests.
TEST(DeferredDeviceDeathTest, TheHostCannotTouchItsMemory) {
  DeferredDevice device;
  const DeviceMemory memory = device.map(10, "test").value();
  volatile std::byte* at = memory.data();
  EXPECT_DEATH(static_cast<void>(at[3] == std::byte{0}), "");
  EXPECT_DEATH(at[3] = std::byte{1}, "");
  device.enqueue([at] { at[3] = std::byte{1}; });  // an op can
  device.wait();
  EXPECT_DEATH(static_cast<void>(at[3] == std::byte{1}), "");
}

}  // namespace
}  // namespace sluice::device_test
