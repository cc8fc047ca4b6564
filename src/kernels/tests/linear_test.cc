#include "kernels/ops/linear.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/formats/block_codes.h"
#include "base/formats/number_formats.h"
#include "base/sanitizer_testing.h"
#include "kernels/device/cpu_features.h"
#include "kernels/ops/plane.h"
#include "kernels/tests/linear_formula_testing.h"
#include "kernels/tests/linear_testing.h"
#include "kernels/tests/op_testing.h"
#include "kernels/weights/linear_inputs.h"

namespace sluice::linear_test {
namespace {

using linear_formula::expected;

constexpr InputForm kForms[] = {InputForm::kF32, InputForm::kBf16, InputForm::kInt8, InputForm::kFp8,
                                InputForm::kTiles};

struct Product {
  const KernelTable& table;
  ThreadPool& pool;
  const LinearWeight& weight;

  // Computes y [rows, out + 3], the gap filled with 7, from x [rows, in].
  std::vector<float> operator()(const std::vector<float>& x, int rows, const std::int32_t* x_rows = nullptr) const {
    const std::ptrdiff_t ldy = weight.out() + 3;
    std::vector<float> y(static_cast<std::size_t>(ldy * rows), 7.0F);
    const LinearJob job{&weight, x.data(), weight.in(), y.data(), ldy, x_rows};
    linear(Exec{&pool, &table}, rows, std::span(&job, 1));
    return y;
  }
};

struct Shape {
  int out, in;
};

// Numbers of rows at which kernels go other ways. A sanitizer sees all of them with one shape, and most of them with
// all small shapes.
std::vector<int> row_counts(const Shape& shape) {
  const bool large = shape.out * shape.in >= 20000;
  if (kSanitized && large) return {1, 4, 17};
  std::vector<int> counts{1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 31};
  if (!large && (!kSanitized || shape.in == 131)) counts.insert(counts.end(), {70, 200});
  return counts;
}

TEST(Linear, EveryIsaGivesTheSpecifiedBits) {
  std::mt19937 random = fresh_generator(101);
  ThreadPool pool(1);
  for (const WeightForm& spec : weight_forms()) {
    for (const Shape shape : {Shape{200, 288}, Shape{64, 128}, Shape{77, 131}, Shape{24, 512}, Shape{4, 33},
                              Shape{8, 512}, Shape{131, 40}, Shape{16, 1}, Shape{1, 257}, Shape{136, 2080}}) {
      const bool large = shape.out * shape.in >= 20000;
      if (large && spec.format == WeightFormat::kCodes && spec.codes != DType::kQ4_0) continue;  // keeps the test short
      const std::vector<int> counts = row_counts(shape);
      const int most = counts.back();
      const RandomWeight weight(random, spec, shape.out, shape.in);
      const auto x = random_inputs(random, static_cast<std::size_t>(most * weight.view().in));
      for (const InputForm form : kForms) {
        if (input_form(form, spec.format) != form && shape.in != 131) continue;  // the form is replaced by another one
        const auto want = expected(weight.view(), x, most, form);
        for (const KernelTable& table : linear_tables()) {
          const auto packed = LinearWeight::make(weight.view(), form, packs_for(Exec{&pool, &table}));
          for (const int rows : counts) {
            // The scalar kernel has no blocks of rows.
            if (std::string(table.isa) == "scalar" && rows > 3 && rows != most) continue;
            const auto y = Product{table, pool, packed}(x, rows);
            const std::vector<float> first(want.begin(), want.begin() + static_cast<std::ptrdiff_t>(y.size()));
            const std::ptrdiff_t at = first_difference(first, y);
            ASSERT_EQ(at, -1) << table.name << " " << describe(spec) << " form " << static_cast<int>(form) << " rows "
                              << rows << " out " << shape.out << " in " << shape.in << ": row " << at / (shape.out + 3)
                              << " output " << at % (shape.out + 3) << ": expected "
                              << first[static_cast<std::size_t>(at)] << ", found " << y[static_cast<std::size_t>(at)];
          }
        }
      }
    }
  }
}

// The mixes of a hyper-connection are 16 and 8 outputs, read at every sub-layer.
TEST(Linear, FloatsOfEightOutputsArePackedWithoutPadding) {
  std::mt19937 random = fresh_generator(109);
  ThreadPool pool(1);
  for (const KernelTable& table : linear_tables()) {
    if (std::string(table.isa) == "scalar") continue;
    for (const auto& [out, outputs] : {std::pair(3, 8), std::pair(8, 8), std::pair(9, 16)}) {
      const RandomWeight weight(random, {.format = WeightFormat::kF32}, out, 512);
      const auto packed = LinearWeight::make(weight.view(), InputForm::kF32, packs_for(Exec{&pool, &table}));
      EXPECT_EQ(packed.packed_bytes(), static_cast<std::size_t>(outputs) * 512 * sizeof(float)) << table.name;
    }
  }
}

// Each row alone equals the same row in random batches, for any thread count.
TEST(Linear, RowsDoNotDependOnTheirBatch) {
  std::mt19937 random = fresh_generator(102);
  ThreadPool one(1), two(2), four(4);
  for (const KernelTable& table : linear_tables()) {
    const int cases = kSanitized || std::string(table.isa) == "scalar" ? 1 : 6;
    for (const WeightForm& spec : weight_forms()) {
      for (int i = 0; i < cases; ++i) {
        const int out = 1 + static_cast<int>(random() % 700);
        const int in = 1 + static_cast<int>(random() % 400);
        const RandomWeight weight(random, spec, out, in);
        constexpr int kRows = kSanitized ? 100 : 200;
        const auto x = random_inputs(random, static_cast<std::size_t>(kRows * weight.view().in));
        const InputForm form = kForms[random() % std::size(kForms)];
        const auto packed = LinearWeight::make(weight.view(), form, packs_for(Exec{&one, &table}));
        const std::size_t width = static_cast<std::size_t>(out) + 3;
        std::vector<float> alone(width * kRows);
        for (std::int32_t r = 0; r < kRows; ++r) {
          const auto y = Product{table, one, packed}(x, 1, &r);
          std::copy(y.begin(), y.end(), alone.begin() + static_cast<std::ptrdiff_t>(width) * r);
        }
        for (ThreadPool* pool : {&one, &two, &four}) {
          const int rows = random() % 4 == 0 ? kRows : 1 + static_cast<int>(random() % 70);
          std::vector<std::int32_t> chosen(static_cast<std::size_t>(rows));
          for (auto& r : chosen) r = static_cast<std::int32_t>(random() % kRows);
          const auto batch = Product{table, *pool, packed}(x, rows, chosen.data());
          for (std::size_t r = 0; r < chosen.size(); ++r) {
            const auto from = alone.begin() + static_cast<std::ptrdiff_t>(width) * chosen[r];
            const std::vector<float> want(from, from + static_cast<std::ptrdiff_t>(width));
            const auto at = batch.begin() + static_cast<std::ptrdiff_t>(width * r);
            const std::vector<float> got(at, at + static_cast<std::ptrdiff_t>(width));
            ASSERT_EQ(first_difference(want, got), -1)
                << table.name << " " << describe(spec) << " out " << out << " in " << in << " rows " << rows << " row "
                << r << " threads " << pool->threads();
          }
        }
      }
    }
  }
}

// A finite bf16 whose exponent field is anything, or near `around`, so that sums of products come close to a limit of
// f32.
bf16 random_bf16(std::mt19937& random, int around) {
  const auto spread = static_cast<int>(random() % 17) - 8;
  const auto exponent = static_cast<std::uint32_t>(around < 0 ? static_cast<int>(random() % 255) : around + spread);
  return {static_cast<std::uint16_t>((random() & 0x807FU) | (exponent << 7))};
}

// Sums that overflow, that vanish, and that are as small as a number can be: every kernel treats them alike. There are
// enough rows for the bf16 dot instruction, where there is one.
TEST(Linear, Bf16InputsOfAnyMagnitudeGiveTheSameBits) {
  std::mt19937 random = fresh_generator(103);
  ThreadPool pool(1);
  constexpr int kOut = 256, kIn = 4, kRows = 96;
  for (int round = 0; round < (kSanitized ? 6 : 45); ++round) {  // about 1.1 million sums in all
    constexpr int kAround[] = {-1, 64, 190};                     // -1: any exponent; 64: near 2^-63; 190: near 2^63
    const int around = kAround[round % 3];
    const InputForm form = round % 2 == 0 ? InputForm::kBf16 : InputForm::kTiles;
    std::vector<bf16> weights(kOut * kIn);
    for (bf16& weight : weights) weight = random_bf16(random, around);
    std::vector<float> x(kRows * kIn);
    for (float& value : x) value = to_float(random_bf16(random, around));
    const WeightView view{.format = WeightFormat::kBf16,
                          .out = kOut,
                          .in = kIn,
                          .data = reinterpret_cast<const std::byte*>(weights.data())};
    const auto want = expected(view, x, kRows, form);
    for (const KernelTable& table : linear_tables()) {
      const auto packed = LinearWeight::make(view, form, packs_for(Exec{&pool, &table}));
      const auto got = Product{table, pool, packed}(x, kRows);
      for (std::size_t i = 0; i < want.size(); ++i) {
        if (std::isnan(want[i]) && std::isnan(got[i])) continue;
        ASSERT_EQ(std::bit_cast<std::uint32_t>(want[i]), std::bit_cast<std::uint32_t>(got[i]))
            << table.name << " round " << round << " sum " << i << ": expected " << want[i] << ", found " << got[i];
      }
    }
  }
}

TEST(Linear, JobsOfOneCallEqualJobsAlone) {
  std::mt19937 random = fresh_generator(104);
  for (const KernelTable& table : linear_tables()) {
    ThreadPool pool(2);
    const Exec exec{&pool, &table};
    for (const int rows : {1, 3, 40}) {
      constexpr int kIn = 256;
      const auto x = random_inputs(random, static_cast<std::size_t>(rows * kIn * 2));
      std::vector<LinearWeight> weights;
      std::vector<RandomWeight> owners;
      for (const WeightForm& spec : weight_forms()) owners.emplace_back(random, spec, 100, kIn);
      for (const RandomWeight& owner : owners) {
        weights.push_back(LinearWeight::make(owner.view(), kForms[random() % std::size(kForms)], packs_for(exec)));
      }
      std::vector<std::vector<float>> together(weights.size()), alone(weights.size());
      std::vector<LinearJob> jobs;
      for (std::size_t i = 0; i < weights.size(); ++i) {
        together[i].resize(static_cast<std::size_t>(rows) * 100);
        alone[i].resize(together[i].size());
        // Every third job reads the second half of each row of x.
        jobs.push_back({&weights[i], x.data() + (i % 3 == 0 ? kIn : 0), 2 * kIn, together[i].data(), 100, nullptr});
      }
      linear(exec, rows, jobs);
      for (std::size_t i = 0; i < weights.size(); ++i) {
        jobs[i].y = alone[i].data();
        linear(exec, rows, std::span(&jobs[i], 1));
        EXPECT_EQ(first_difference(together[i], alone[i]), -1) << table.name << " rows " << rows << " job " << i;
      }
    }
  }
}

TEST(Linear, ASliceOfRowsGivesThoseOutputs) {
  std::mt19937 random = fresh_generator(105);
  for (const KernelTable& table : linear_tables()) {
    ThreadPool pool(1);
    const Exec exec{&pool, &table};
    for (const WeightForm& spec : weight_forms()) {
      const RandomWeight weight(random, spec, 300, 140);
      const auto x = random_inputs(random, static_cast<std::size_t>(weight.view().in));
      const auto whole =
          Product{table, pool, LinearWeight::make(weight.view(), InputForm::kF32, packs_for(exec))}(x, 1);
      const auto part = Product{
          table, pool, LinearWeight::make(slice_rows(weight.view(), 100, 90), InputForm::kF32, packs_for(exec))}(x, 1);
      for (std::size_t n = 0; n < 90; ++n) ASSERT_EQ(whole[100 + n], part[n]) << table.name << " " << describe(spec);
    }
  }
}

TEST(Linear, Int8InputsThatAreNotFiniteGiveNaN) {
  std::mt19937 random = fresh_generator(106);
  ThreadPool pool(1);
  const RandomWeight weight(random, {WeightFormat::kMxfp4, ScaleFormat::kE8m0, 1, 32}, 70, 96);
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    auto x = random_inputs(random, 96);
    x[40] = bad;
    for (const KernelTable& table : linear_tables()) {
      const auto packed = LinearWeight::make(weight.view(), InputForm::kInt8, packs_for(Exec{&pool, &table}));
      const auto y = Product{table, pool, packed}(x, 1);
      for (int n = 0; n < 70; ++n) EXPECT_TRUE(std::isnan(y[static_cast<std::size_t>(n)])) << table.name << " " << n;
    }
  }
}

// Results are within half a step of the codes, which are a 127th of the largest input of 32 apart.
TEST(Linear, Int8InputsAreNearTheInputs) {
  std::mt19937 random = fresh_generator(107);
  std::normal_distribution<float> normal;
  std::vector<float> x(32 * 50);
  for (float& value : x) value = normal(random);
  std::vector<QuantizedBlock> blocks(50);
  prepare_inputs(InputForm::kInt8, static_cast<int>(x.size()), x.data(), reinterpret_cast<float*>(blocks.data()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const QuantizedBlock& block = blocks[i / 32];
    const auto at = std::find(kQuantizedOrder.begin(), kQuantizedOrder.end(), static_cast<int>(i % 8));
    const auto place = i % 32 / 8 * 8 + static_cast<std::size_t>(at - kQuantizedOrder.begin());
    EXPECT_NEAR(x[i], block.scale * static_cast<float>(block.codes[place]), block.scale * 0.5001F);
  }
}

// A weight of one block whose outputs have the scales 0 to 255. Scales that are too small count as zero. From 2^106
// on (233; 255 is NaN itself) the output is NaN, for any number of rows.
TEST(Linear, Int8WithEveryScale) {
  std::mt19937 random = fresh_generator(108);
  std::vector<std::byte> data(std::size_t{256} * 16), scales(256);
  for (std::byte& byte : data) byte = static_cast<std::byte>(random());
  for (std::size_t n = 0; n < scales.size(); ++n) scales[n] = static_cast<std::byte>(n);
  const WeightView view{.format = WeightFormat::kMxfp4,
                        .out = 256,
                        .in = 32,
                        .data = data.data(),
                        .scale_format = ScaleFormat::kE8m0,
                        .scales = scales.data(),
                        .block_out = 1,
                        .block_in = 32,
                        .scale_columns = 1};
  std::normal_distribution<float> normal;
  std::vector<float> x(std::size_t{40} * 32);
  for (float& value : x) value = normal(random);
  const auto want = expected(view, x, 40, InputForm::kInt8);
  ThreadPool pool(1);
  for (const KernelTable& table : linear_tables()) {
    const auto packed = LinearWeight::make(view, InputForm::kInt8, packs_for(Exec{&pool, &table}));
    for (const int rows : {1, 2, 3, 8, 40}) {
      SCOPED_TRACE(std::string(table.isa) + ", rows " + std::to_string(rows));
      const auto y = Product{table, pool, packed}(x, rows);
      for (std::size_t i = 0; i < y.size(); ++i) {
        const std::size_t n = i % (256 + 3);
        if (n >= 233 && n < 256) {
          EXPECT_TRUE(std::isnan(y[i])) << "scale " << n << ": " << y[i];
        } else {
          EXPECT_EQ(std::bit_cast<std::uint32_t>(y[i]), std::bit_cast<std::uint32_t>(want[i]))
              << "scale " << n << ": " << y[i] << ", not " << want[i];
        }
      }
    }
  }
}

// In the order of tiles weights carry their scales. Whatever the scales and the inputs are, all kernels give the same
// bits.
TEST(Linear, TilesWithEveryScale) {
  std::mt19937 random = fresh_generator(109);
  ThreadPool pool(1);
  struct Case {
    WeightFormat format;
    int outputs;  // the number of outputs that share a scale
    int most_rows;
  };
  for (const auto& [format, outputs, most_rows] :
       {Case{WeightFormat::kMxfp4, 1, 40}, Case{WeightFormat::kFp8, 1, 40}, Case{WeightFormat::kFp8, 64, 17}}) {
    constexpr int kIn = 64, kScales = 256;
    const WeightForm spec{format, ScaleFormat::kE8m0, outputs, 32};
    const RandomWeight weight(random, spec, kScales * outputs, kIn);
    std::vector<std::byte> scales(std::size_t{kScales} * 2);
    for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<std::byte>(i / 2);
    WeightView view = weight.view();
    view.scales = scales.data();
    auto x = random_inputs(random, static_cast<std::size_t>(most_rows) * kIn);
    for (std::size_t i = 0; i < x.size(); ++i) {  // the inputs of most rows, too, are far from 1
      constexpr int kExponents[] = {0, 60, -60, 110, -100};
      x[i] = std::ldexp(x[i], kExponents[i / kIn % std::size(kExponents)]);
    }
    const auto want = expected(view, x, most_rows, InputForm::kTiles);
    for (const KernelTable& table : linear_tables()) {
      const auto packed = LinearWeight::make(view, InputForm::kTiles, packs_for(Exec{&pool, &table}));
      for (const int rows : {1, 2, 5, 7, 16, most_rows}) {
        SCOPED_TRACE(table.name + " " + name(format) + ", rows " + std::to_string(rows));
        const auto y = Product{table, pool, packed}(x, rows);
        for (std::size_t i = 0; i < y.size(); ++i) {
          if (std::isnan(want[i]) && std::isnan(y[i])) continue;  // whatever its sign
          ASSERT_EQ(std::bit_cast<std::uint32_t>(y[i]), std::bit_cast<std::uint32_t>(want[i]))
              << "scale " << static_cast<int>(i) % (kScales * outputs + 3) / outputs << ": " << y[i] << ", not "
              << want[i];
        }
      }
    }
  }
}

// A weight that is packed when it is used, from where it lies, gives the same bits. Pieces of outputs and a part of a
// tile at the end are included.
TEST(Linear, InPlaceGivesTheSpecifiedBits) {
  std::mt19937 random = fresh_generator(111);
  ThreadPool pool(2);
  for (const WeightForm& spec : weight_forms()) {
    for (const Shape shape : {Shape{200, 288}, Shape{4, 33}, Shape{519, 160}}) {
      constexpr int kMost = kSanitized ? 17 : 40;
      const RandomWeight whole(random, spec, shape.out + 100, shape.in);
      const WeightView view = slice_rows(whole.view(), 100, shape.out);
      const auto x = random_inputs(random, static_cast<std::size_t>(kMost * view.in));
      for (const InputForm form : kForms) {
        if (input_form(form, spec.format) != form && shape.in != 33) continue;
        const auto want = expected(view, x, kMost, form);
        for (const KernelTable& table : linear_tables()) {
          const auto weight = LinearWeight::make(view, form, {.packing = &table.linear.packing, .when_used = true});
          EXPECT_EQ(weight.packed_bytes(), 0U);
          for (const int rows : {1, 3, kMost}) {
            const auto y = Product{table, pool, weight}(x, rows);
            const std::vector<float> first(want.begin(), want.begin() + static_cast<std::ptrdiff_t>(y.size()));
            ASSERT_EQ(first_difference(first, y), -1) << table.name << " " << describe(spec) << " rows " << rows
                                                      << " out " << shape.out << " in " << shape.in;
          }
        }
      }
    }
  }
}

// Floats become the nearest of 255 codes. The scale maps the largest of 32 floats to the last code.
TEST(Linear, Int8WeightsAreTheNearestCodes) {
  std::mt19937 random = fresh_generator(115);
  ThreadPool pool(2);
  constexpr int kOut = 130, kIn = 96;
  std::normal_distribution<float> normal;
  std::vector<float> values(std::size_t{kOut} * kIn);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::ldexp(normal(random), static_cast<int>(i % 7) - 9);
  std::fill_n(values.begin(), kInt8Block, 0.0F);
  values[kIn] = std::numeric_limits<float>::infinity();
  WeightView view{.format = WeightFormat::kF32, .out = kOut, .in = kIn};
  view.data = reinterpret_cast<const std::byte*>(values.data());
  WeightView int8 = int8_shape(view);
  std::vector<std::byte> bytes(static_cast<std::size_t>(kOut) * int8.row_bytes());
  write_int8(&pool, view, bytes.data());
  int8.data = bytes.data();
  for (int row = 0; row < kOut; ++row) {
    for (int first = 0; first < kIn; first += kInt8Block) {
      float most = 0, worst = 0, codes[kInt8Block];
      int8.read(row, first, kInt8Block, codes);
      const float* const exact = &values[static_cast<std::size_t>(row) * kIn + static_cast<std::size_t>(first)];
      if (row == 1 && first == 0) {
        EXPECT_TRUE(std::isnan(codes[0]));
        continue;
      }
      for (int i = 0; i < kInt8Block; ++i) {
        most = std::max(most, std::abs(exact[i]));
        worst = std::max(worst, std::abs(exact[i] - codes[i]));
      }
      EXPECT_LE(worst, most / 127 * 0.51F) << row << " " << first;
    }
  }
}

// y = W^T x in the order of linear.h over the weights with their scales in.
TEST(Linear, TransposesAtLoad) {
  std::mt19937 random = fresh_generator(112);
  ThreadPool pool(2);
  for (const WeightForm& spec : weight_forms()) {
    SCOPED_TRACE(describe(spec));
    const RandomWeight whole(random, spec, 3 * 128 + 40, 160);
    const WeightView view = slice_rows(whole.view(), 128, 203);  // rows in two scale blocks and a part of a third
    std::vector<float> values(static_cast<std::size_t>(view.in * view.out));
    for (int n = 0; n < view.out; ++n) {
      for (int k = 0; k < view.in; ++k) {
        values[static_cast<std::size_t>(k * view.out + n)] = view.element(n, k) * view.scale(n, k);
      }
    }
    WeightView transpose;
    transpose.out = view.in;
    transpose.in = view.out;
    transpose.data = reinterpret_cast<const std::byte*>(values.data());
    const auto x = random_inputs(random, static_cast<std::size_t>(5 * view.out));
    const auto right = expected(transpose, x, 5, InputForm::kF32);
    for (const KernelTable& table : linear_tables()) {
      WeightView copy = transposed_shape(view);
      AlignedBytes bytes(static_cast<std::size_t>(copy.out) * copy.row_bytes());
      write_transpose(&pool, view, bytes.data());
      copy.data = bytes.data();
      const auto moved = LinearWeight::make(copy, InputForm::kF32, packs_for(Exec{&pool, &table}, std::move(bytes)));
      EXPECT_EQ(moved.out(), view.in);
      EXPECT_EQ(first_difference(Product{table, pool, moved}(x, 5), right), -1) << table.name;
    }
    if (view.format != WeightFormat::kCodes) continue;
    const WeightView codes = transposed_codes(view);
    for (const int rows : {1, 2, 5, 40}) {
      const auto many = random_inputs(random, static_cast<std::size_t>(rows * view.out));
      const auto want = expected(transpose, many, rows, InputForm::kF32);
      for (const KernelTable& table : linear_tables()) {
        const auto packed = LinearWeight::make(codes, InputForm::kInt8, packs_for(Exec{&pool, &table}));
        EXPECT_EQ(first_difference(Product{table, pool, packed}(many, rows), want), -1)
            << table.name << " rows " << rows;
      }
    }
  }
}

}  // namespace
}  // namespace sluice::linear_test
