#include "base/checksum.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

namespace sluice::checksum_test {
namespace {

TEST(Checksum, EveryChangedByteAndEveryLengthCounts) {
  std::mt19937 random(7);
  std::vector<std::byte> bytes(333);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  const std::uint64_t right = checksum(bytes);
  EXPECT_EQ(checksum(bytes), right);
  std::set<std::uint64_t> sums{right};
  for (auto& byte : bytes) {
    byte ^= std::byte{0x10};
    EXPECT_TRUE(sums.insert(checksum(bytes)).second);
    byte ^= std::byte{0x10};
  }
  const std::vector<std::byte> zeros(200);
  for (std::size_t n = 0; n <= zeros.size(); ++n) EXPECT_TRUE(sums.insert(checksum(std::span(zeros).first(n))).second);
}

TEST(Checksum, OrderCounts) {
  std::vector<std::byte> bytes(256);
  bytes[0] = std::byte{1};
  const std::uint64_t first = checksum(bytes);
  std::swap(bytes[0], bytes[64]);
  const std::uint64_t second = checksum(bytes);
  std::swap(bytes[64], bytes[72]);
  EXPECT_NE(first, second);
  EXPECT_NE(second, checksum(bytes));
}

}  // namespace
}  // namespace sluice::checksum_test
