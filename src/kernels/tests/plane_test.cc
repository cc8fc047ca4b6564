#include "kernels/ops/plane.h"

#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string>

#include "base/formats/number_formats.h"
#include "base/sanitizer_testing.h"
#include "kernels/tests/op_testing.h"

namespace sluice::plane_test {
namespace {

// Values of many magnitudes, with zeros, ties, the ends of the range, and values that only bad input gives.
std::vector<float> hard_values(Random& random, int dims) {
  const std::vector<float> special{0.0F,
                                   -0.0F,
                                   448.0F,
                                   449.0F,
                                   464.0F,
                                   -465.0F,
                                   0.25F,
                                   0.75F,
                                   1.25F,
                                   1.75F,
                                   2.5F,
                                   3.5F,
                                   5.0F,
                                   6.01F,
                                   1e-30F,
                                   -1e-39F,
                                   1e30F,
                                   3e38F,
                                   std::numeric_limits<float>::infinity(),
                                   -std::numeric_limits<float>::infinity(),
                                   std::numeric_limits<float>::quiet_NaN(),
                                   -std::numeric_limits<float>::quiet_NaN()};
  const float scale = std::ldexp(1.0F, random.between(-30, 30));
  std::vector<float> x = random.floats(static_cast<std::size_t>(dims), scale);
  const int kind = random.between(0, 3);  // 0: only the finite scale
  for (float& value : x) {
    if (kind == 1 && random.between(0, 9) == 0) value = special[static_cast<std::size_t>(random.between(0, 13))];
    if (kind == 2 && random.between(0, 19) == 0) value = random.pick(special);
    if (kind == 3) value = special[static_cast<std::size_t>(random.between(0, 15))];
  }
  return x;
}

std::vector<float> bytes_as_floats(const std::vector<std::byte>& bytes) {
  std::vector<float> values;
  for (std::byte byte : bytes) values.push_back(static_cast<float>(static_cast<int>(byte)));
  return values;
}

TEST(Plane, RowBytesAreTheOfficialOnes) {
  EXPECT_EQ(make_row_format(RowCodec::kV4Fp8, 512, 64).row_bytes(), 584);
  EXPECT_EQ(make_row_format(RowCodec::kV4Fp8, 512, 64).data_bytes, 576);
  EXPECT_EQ(make_row_format(RowCodec::kV4Fp8, 128, 64).row_bytes(), 200);
  EXPECT_EQ(make_row_format(RowCodec::kMlaFp8, 576, 64).row_bytes(), 656);
  EXPECT_EQ(make_row_format(RowCodec::kMlaFp8, 576, 64).scale_bytes, 16);
  EXPECT_EQ(make_row_format(RowCodec::kMlaFp8, 200 + 16, 16).row_bytes(), 200 + 32 + 8);
  EXPECT_EQ(make_row_format(RowCodec::kIndexFp8, 128, 0).row_bytes(), 132);
  EXPECT_EQ(make_row_format(RowCodec::kIndexFp4, 128, 0).row_bytes(), 68);
  EXPECT_EQ(make_row_format(RowCodec::kBf16, 576, 64).row_bytes(), 1152);
  EXPECT_EQ(make_row_format(RowCodec::kF32, 576, 64).row_bytes(), 2304);
}

// Each name belongs to one codec, and bytes follow from the table's line.
TEST(RowCodecs, EveryLineIsWhole) {
  std::set<std::string> names;
  for (const RowCodecInfo& info : kRowCodecs) {
    SCOPED_TRACE(info.name);
    EXPECT_STREQ(name(info.codec), info.name);
    EXPECT_TRUE(names.insert(info.name).second);
    EXPECT_STRNE(info.type, "");
    EXPECT_EQ(info.quantised(), info.values == RowValues::kE4m3 || info.values == RowValues::kE2m1);
    EXPECT_TRUE(info.quantised() || (info.block == 0 && !info.rope_bf16));
    bool any = false;
    for (const RowFormat& format : row_formats()) {
      if (format.codec != info.codec) continue;
      any = true;
      EXPECT_EQ(format.scale_bytes % info.scale_multiple, 0);
      EXPECT_EQ(format.scale_bytes > 0, info.in_blocks(format.dims, format.rope_dims) > 0);
    }
    EXPECT_TRUE(any) << "no shape of row_formats() is one that it takes";
  }
}

// Kernels and reference read the same line, so that none of them would notice a wrong one.
TEST(RowCodecs, LinesSayHowQueriesMeetTheKeys) {
  EXPECT_EQ(index_queries(RowCodec::kF32), IndexQueries::kFloats);
  EXPECT_EQ(index_queries(RowCodec::kBf16), IndexQueries::kFloats);
  EXPECT_EQ(index_queries(RowCodec::kIndexFp8), IndexQueries::kBf16);
  EXPECT_EQ(index_queries(RowCodec::kIndexFp4), IndexQueries::kCodes);
}

TEST(RowCodecs, TakeWholeBlocks) {
  EXPECT_FALSE(takes_rows(RowCodec::kV4Fp8, 100, 4));
  EXPECT_TRUE(takes_rows(RowCodec::kV4Fp8, 100, 36));
  EXPECT_TRUE(takes_rows(RowCodec::kMlaFp8, 100, 4));
  EXPECT_FALSE(takes_rows(RowCodec::kIndexFp4, 100, 36));
  EXPECT_TRUE(takes_rows(RowCodec::kBf16, 33, 0));
  EXPECT_FALSE(takes_rows(RowCodec::kBf16, 33, 34));
}

// The scale byte that a block with this largest magnitude gets.
int scale_byte(RowCodec codec, int block, float largest) {
  const RowFormat format = make_row_format(codec, block, 0);
  std::vector<float> x(static_cast<std::size_t>(block), 0.0F);
  x[1] = -largest;
  std::vector<std::byte> bytes(static_cast<std::size_t>(format.row_bytes()));
  encode_row(format, x.data(), {bytes.data(), bytes.data() + format.data_bytes});
  return static_cast<int>(bytes[static_cast<std::size_t>(format.data_bytes)]);
}

TEST(Plane, ScalesArePowersOfTwoThatCover) {
  EXPECT_EQ(scale_byte(RowCodec::kV4Fp8, 64, 448.0F), 127);
  EXPECT_EQ(scale_byte(RowCodec::kV4Fp8, 64, 449.0F), 128);
  EXPECT_EQ(scale_byte(RowCodec::kV4Fp8, 64, 0.0F), 127 - 22);
  EXPECT_EQ(scale_byte(RowCodec::kIndexFp4, 32, 6.0F), 127);
  EXPECT_EQ(scale_byte(RowCodec::kIndexFp4, 32, 6.01F), 128);
  EXPECT_EQ(scale_byte(RowCodec::kIndexFp4, 32, 0.0F), 1);
}

TEST(Plane, V4RowIsLaidOutByteForByte) {
  const RowFormat format = make_row_format(RowCodec::kV4Fp8, 128, 64);
  std::vector<float> x(128, 0.0F);
  x[0] = 448.0F;
  x[1] = -1.0F;
  x[63] = 0x1p-9F;  // the smallest e4m3
  x[64] = 1.0F;     // rotary
  x[127] = -2.0F;
  std::vector<std::byte> bytes(200, std::byte{0xAA});
  encode_row(format, x.data(), {bytes.data(), bytes.data() + 192});
  EXPECT_EQ(bytes[0], std::byte{0x7E});
  EXPECT_EQ(bytes[1], std::byte{0xB8});
  EXPECT_EQ(bytes[2], std::byte{0});
  EXPECT_EQ(bytes[63], std::byte{1});
  EXPECT_EQ(bytes[64], std::byte{0x80});  // bf16 1.0 = 0x3F80, little endian
  EXPECT_EQ(bytes[65], std::byte{0x3F});
  EXPECT_EQ(bytes[191], std::byte{0xC0});
  EXPECT_EQ(bytes[192], std::byte{127});
  for (std::size_t i = 193; i < 200; ++i) EXPECT_EQ(bytes[i], std::byte{0}) << i;  // padding
  std::vector<float> back(128);
  decode_row(format, {bytes.data(), bytes.data() + 192}, back.data());
  EXPECT_TRUE(same_bits(back, x));
}

TEST(Plane, MlaRowHasOneScaleForEach128) {
  const RowFormat format = make_row_format(RowCodec::kMlaFp8, 208, 16);  // 128 + 64, and 16 rotary
  std::vector<float> x(208, 0.0F);
  x[0] = -896.0F;
  x[128] = 448.0F;
  x[191] = 1.0F;
  x[192] = 1.0F;  // rotary
  std::vector<std::byte> bytes(static_cast<std::size_t>(format.row_bytes()), std::byte{0xAA});
  encode_row(format, x.data(), {bytes.data(), bytes.data() + format.data_bytes});
  EXPECT_EQ(bytes[0], std::byte{0xFE});
  EXPECT_EQ(bytes[128], std::byte{0x7E});
  EXPECT_EQ(bytes[191], std::byte{0x38});
  EXPECT_EQ(bytes[193], std::byte{0x3F});
  float scales[2];
  ASSERT_EQ(format.data_bytes, 192 + 32);
  std::memcpy(scales, bytes.data() + format.data_bytes, sizeof scales);
  EXPECT_EQ(scales[0], 2.0F);
  EXPECT_EQ(scales[1], 1.0F);
}

TEST(Plane, IndexFp4HasEvenValuesInLowNibbles) {
  const RowFormat format = make_row_format(RowCodec::kIndexFp4, 32, 0);
  std::vector<float> x(32, 0.0F);
  x[0] = 1.0F;
  x[1] = -6.0F;
  std::vector<std::byte> bytes(17);
  encode_row(format, x.data(), {bytes.data(), bytes.data() + 16});
  EXPECT_EQ(bytes[0], std::byte{0xF2});
}

TEST(Plane, DecodingAnEncodedRowIsSimulatingIt) {
  Random random(11);
  for (const RowFormat& format : row_formats()) {
    for (int round = 0; round < 50; ++round) {
      const std::vector<float> x =
          random.floats(static_cast<std::size_t>(format.dims), std::ldexp(1.0F, random.between(-9, 9)));
      std::vector<std::byte> bytes(static_cast<std::size_t>(format.row_bytes()));
      const RowRef row{bytes.data(), bytes.data() + format.data_bytes};
      encode_row(format, x.data(), row);
      std::vector<float> decoded(x.size()), simulated = x;
      decode_row(format, row, decoded.data());
      simulate_row(format.codec, format.dims, format.rope_dims, simulated.data());
      const RowCodecInfo& info = row_codec(format.codec);
      if (info.quantised()) {  // values that are not in blocks are left to the caller
        for (int i = info.in_blocks(format.dims, format.rope_dims); i < format.dims; ++i) {
          float& value = simulated[static_cast<std::size_t>(i)];
          value = round_to_bf16(value);
        }
      }
      EXPECT_TRUE(same_bits(decoded, simulated)) << name(format.codec) << " " << format.dims;
      simulate_row(format.codec, format.dims, format.rope_dims, simulated.data());
      EXPECT_TRUE(same_bits(decoded, simulated)) << "simulating twice, " << name(format.codec);
    }
  }
}

// Processors give different NaNs; stored rows must not tell them apart.
TEST(Plane, OfNaNsNeitherSignNorPayloadIsStored) {
  Random random(13);
  constexpr std::uint32_t kNaNs[] = {0x7FC00000U, 0xFFC00000U, 0x7FFFFFFFU, 0xFFFFFFFFU, 0xFFABCDEFU};
  for (const RowFormat& format : row_formats()) {
    if (format.codec == RowCodec::kF32) continue;
    std::vector<float> x = random.floats(static_cast<std::size_t>(format.dims)), others = x;
    for (std::size_t i = 0; i < x.size(); i += 3) {
      x[i] = std::bit_cast<float>(kNaNs[0]);
      others[i] = std::bit_cast<float>(kNaNs[i % std::size(kNaNs)]);
    }
    ThreadPool one(1);
    for (const KernelTable* table : all_tables()) {
      const auto coded = [&](const std::vector<float>& values) {
        std::vector<std::byte> bytes(static_cast<std::size_t>(format.row_bytes()), std::byte{0x55});
        const PlaneView view{bytes.data(), bytes.size(), 1, format};
        const RowSlot slot(0);
        encode_rows(Exec{&one, table}, {&view, 1, values.data(), format.dims, &slot});
        return bytes;
      };
      EXPECT_EQ(coded(others), coded(x)) << name(format.codec) << " " << table->name;
    }
  }
}

TEST(Plane, EveryTableCodesTheSameBytes) {
  constexpr int kRows = kSanitized ? 40 : 200;
  Random random(12);
  std::vector<RowSlot> slots;
  for (int i = 0; i < kRows; ++i) slots.emplace_back(i);
  for (const RowFormat& format : row_formats()) {
    SCOPED_TRACE(::testing::Message() << name(format.codec) << " " << format.dims);
    std::vector<float> x;
    for (int i = 0; i < kRows; ++i) {
      const std::vector<float> row = hard_values(random, format.dims);
      x.insert(x.end(), row.begin(), row.end());
    }
    expect_same_on_all([&](const Exec& exec) {
      std::vector<std::byte> bytes(kRows * static_cast<std::size_t>(format.row_bytes()), std::byte{0x55});
      const PlaneView page{bytes.data(), bytes.size(), kRows, format};
      encode_rows(exec, {&page, kRows, x.data(), format.dims, slots.data()});
      return bytes_as_floats(bytes);
    });
    expect_same_on_all([&](const Exec& exec) {
      std::vector<float> y = x;
      simulate_rows(exec, {format.codec, format.dims, format.rope_dims, kRows, y.data(), format.dims});
      return y;
    });
  }
}

TEST(Plane, EveryTableDecodesEveryBytePattern) {
  Random random(13);
  FlushDenormals flush;
  for (const RowFormat& format : row_formats()) {
    for (int round = 0; round < 200; ++round) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(format.row_bytes()));
      const bool tame = round % 2 == 0;  // nearly all random rows have a NaN, which takes the slow way
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.between(0, 255) & (tame ? 0xBE : 0xFF));
      const RowRef row{bytes.data(), bytes.data() + format.data_bytes};
      std::vector<float> expected(static_cast<std::size_t>(format.dims));
      decode_row(format, row, expected.data());
      for (const KernelTable* table : all_tables()) {
        std::vector<float> found(expected.size());
        table->decode_rows(format, &row, 1, found.data(), format.dims);
        EXPECT_TRUE(same_bits(found, expected)) << table->name << " " << name(format.codec) << " " << format.dims;
      }
    }
  }
}

TEST(Plane, AddressesAreWide) {
  // Far more than 4 GiB of address space, of which two rows are touched.
  const RowFormat format = make_row_format(RowCodec::kV4Fp8, 512, 64);
  const std::size_t page_bytes = 128 * 584;
  const std::int32_t pages = 120000;
  const std::size_t size = page_bytes * static_cast<std::size_t>(pages);
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const PlaneView view{static_cast<std::byte*>(memory), page_bytes, 128, format};
  const RowRef first = view.row(0, 0), last = view.row(pages - 1, 127);
  EXPECT_EQ(last.scales + format.scale_bytes, view.base + size);
  const std::vector<float> ones(512, 1.0F), twos(512, 2.0F);
  encode_row(format, ones.data(), first);
  encode_row(format, twos.data(), last);
  std::vector<float> x(512);
  for (const KernelTable* table : all_tables()) {
    const RowRef rows[2] = {last, first};
    std::vector<float> both(1024);
    table->decode_rows(format, rows, 2, both.data(), 512);
    EXPECT_EQ(both[0], 2.0F);
    EXPECT_EQ(both[1023], 1.0F);
  }
  munmap(memory, size);
}

}  // namespace
}  // namespace sluice::plane_test
