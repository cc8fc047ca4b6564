#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "files/gguf/gguf_types.h"
#include "files/tensor_view.h"

namespace sluice::gguf_blocks_test {
namespace {

std::vector<float> decode(DType dtype, const std::vector<unsigned char>& bytes) {
  const DTypeBlock block = dtype_block(dtype);
  std::vector<float> values(bytes.size() / static_cast<std::size_t>(block.bytes) *
                            static_cast<std::size_t>(block.elements));
  dequantize(dtype, reinterpret_cast<const std::byte*>(bytes.data()), values.size(), values.data());
  return values;
}

// FNV-1a over the bits, so that every element counts.
std::uint64_t hash(const std::vector<float>& values) {
  std::uint64_t h = 0xcbf29ce484222325;
  for (const float value : values) {
    unsigned char bytes[4];
    std::memcpy(bytes, &value, sizeof(bytes));
    for (const unsigned char byte : bytes) h = (h ^ byte) * 0x100000001b3;
  }
  return h;
}

// The values that the reference implementation makes of the block whose byte i is 37 i + 11, except for scales of
// 0.0313 (0x2802) and minima of -1.368 (0xBD79).
struct Pinned {
  DType dtype;
  std::vector<std::size_t> scales;  // where the f16 scale and minimum are
  std::uint64_t hash;
  float first, second, middle, last;
};

TEST(GgufBlocks, ValuesAreTheReferences) {
  const Pinned pinned[] = {
      {DType::kQ8_0, {0}, 0xa980583752a731f8, 0x1.54aap+1F, 0x1.e8f4p+1F, -0x1.6cb6p+1F, -0x1.80cp+0F},
      {DType::kQ4_0, {0}, 0xb77d54b154b981bc, -0x1.80cp-4F, 0x1.008p-4F, -0x1.80cp-4F, 0.0F},
      {DType::kQ4_1, {0, 2}, 0xc8f8c090a4334f2a, -0x1.cc08p-1F, -0x1.3e3p+0F, -0x1.161cp+0F, -0x1.fc2p-1F},
      {DType::kQ5_0, {0}, 0x49ec62ac905b0625, 0x1.209p-2F, -0x1.008p-4F, 0x1.c0ep-2F, 0x1.008p-5F},
      {DType::kQ5_1, {0, 2}, 0x09d99b3d860fa96b, -0x1.8be8p-1F, -0x1.3bcp-1F, -0x1.8be8p-1F, -0x1.362cp+0F},
      {DType::kQ2_K, {80, 82}, 0xbc13b4745dd2f674, 0x1.0884p+0F, 0.0F, 0x1.18b9p+2F, 0x1.12b6p+2F},
      {DType::kQ3_K, {108}, 0xabce6f99df88e80a, 0x1.44a2p+1F, -0x1.b0d8p+1F, 0x1.008p-4F, 0x1.50a8p+0F},
      {DType::kQ4_K, {0, 2}, 0xa69cc21071362db5, 0x1.41d05p+6F, 0x1.171bp+6F, 0x1.dd9b4p+4F, 0x1.8f9e4p+5F},
      {DType::kQ5_K, {0, 2}, 0xe06c8593413e32c7, 0x1.7fef5p+6F, 0x1.171bp+6F, 0x1.8b1bap+5F, 0x1.9ea5cp+5F},
      {DType::kQ6_K, {208}, 0x36c16bc90d392724, -0x1.6672ep+5F, 0x1.a8d4p+5F, -0x1.5faf8p+3F, -0x1.e0fp+0F},
      {DType::kIQ4_NL, {0}, 0x474e8d1c0aa6d3fc, -0x1.188cp+0F, 0x1.90c8p-1F, -0x1.188cp+0F, 0x1.008p-5F},
      {DType::kIQ4_XS, {0}, 0x7601120406b21a8a, 0x1.0482p+1F, -0x1.008p-5F, -0x1.25124p+4F, -0x1.008p-1F},
      {DType::kMXFP4, {}, 0xb8b4e2f4e330e863, 0.0F, 0x1.8p-115F, 0x1.8p-116F, 0x1.8p-115F},
  };
  for (const Pinned& p : pinned) {
    SCOPED_TRACE(dtype_name(p.dtype));
    std::vector<unsigned char> block(static_cast<std::size_t>(dtype_block(p.dtype).bytes));
    for (std::size_t i = 0; i < block.size(); ++i) block[i] = static_cast<unsigned char>(i * 37 + 11);
    constexpr std::uint16_t kScales[] = {0x2802, 0xBD79};
    for (std::size_t i = 0; i < p.scales.size(); ++i) std::memcpy(&block[p.scales[i]], &kScales[i], 2);
    const std::vector<float> values = decode(p.dtype, block);
    EXPECT_EQ(values[0], p.first);
    EXPECT_EQ(values[1], p.second);
    EXPECT_EQ(values[values.size() / 2], p.middle);
    EXPECT_EQ(values.back(), p.last);
    EXPECT_EQ(hash(values), p.hash);
  }
}

TEST(GgufBlocks, ExtremeScales) {
  std::vector<unsigned char> block(17);
  block[1] = 0x81;  // element 0: code 1, element 16: code 8
  block[2] = 0x7F;  // element 1: code 15, element 17: code 7
  EXPECT_EQ(decode(DType::kMXFP4, block)[0], 0x1p-128F);
  block[0] = 1;
  EXPECT_EQ(decode(DType::kMXFP4, block)[0], 0x1p-127F);
  EXPECT_EQ(decode(DType::kMXFP4, block)[1], -0x1.8p-124F);
  block[0] = 255;
  const std::vector<float> largest = decode(DType::kMXFP4, block);
  EXPECT_EQ(largest[0], 0x1p127F);
  EXPECT_EQ(largest[17], INFINITY);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(largest[16]), 0U);  // not -0

  std::vector<unsigned char> q8(34, 0);
  q8[1] = 0x7C;  // infinity
  q8[2] = 0x80;
  const std::vector<float> infinite = decode(DType::kQ8_0, q8);
  EXPECT_EQ(infinite[0], -INFINITY);
  EXPECT_TRUE(std::isnan(infinite[1]));
  q8[0] = 1;
  q8[1] = 0;  // the smallest f16
  EXPECT_EQ(decode(DType::kQ8_0, q8)[0], -0x1p-17F);
}

TEST(GgufBlocks, RowsOfTensors) {
  std::vector<unsigned char> bytes(2 * 3 * 34);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i);
  TensorView tensor{.name = "t", .dtype = DType::kQ8_0, .shape = {3, 64}};
  tensor.data = reinterpret_cast<const std::byte*>(bytes.data());
  tensor.bytes = bytes.size();
  const std::vector<float> all = decode(DType::kQ8_0, bytes);
  std::vector<float> rows(128);
  ASSERT_TRUE(has_float_rows(tensor));
  read_rows(tensor, 1, 2, rows.data());
  EXPECT_EQ(std::memcmp(rows.data(), all.data() + 64, sizeof(float) * 128), 0);
  tensor.dtype = DType::kI32;
  EXPECT_FALSE(has_float_rows(tensor));
}

TEST(GgufBlocks, PlainFloatsAreWidened) {
  EXPECT_EQ(decode(DType::kBF16, {0xC0, 0x3F, 0x80, 0xFF}), (std::vector<float>{1.5F, -INFINITY}));
  EXPECT_EQ(decode(DType::kF16, {0x00, 0x3E, 0x01, 0x80}), (std::vector<float>{1.5F, -0x1p-24F}));
  EXPECT_EQ(decode(DType::kF32, {0, 0, 0xC0, 0x3F}), (std::vector<float>{1.5F}));
  EXPECT_EQ(decode(DType::kF64, {0x01, 0, 0, 0, 0, 0, 0xF8, 0x3F}), (std::vector<float>{1.5F}));
  EXPECT_FALSE(is_dequantizable(DType::kF8E4M3));
  EXPECT_FALSE(is_dequantizable(DType::kI32));
}

}  // namespace
}  // namespace sluice::gguf_blocks_test
