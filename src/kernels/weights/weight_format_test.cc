// Walks the table of weight formats: checks what follows from each line, and that every table of kernels has the
// kernels that it asks for.
#include "kernels/weights/weight_format.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>

#include "base/formats/number_formats.h"
#include "kernels/cuda/linear_layout.h"
#include "kernels/tests/linear_testing.h"
#include "kernels/tests/op_testing.h"

namespace sluice::weight_format_test {
namespace {

TEST(WeightFormats, EveryLineIsWhole) {
  std::set<std::string> names;
  std::set<DType> types;
  int place = 0;
  for (const WeightFormatInfo& info : weight_formats()) {
    SCOPED_TRACE(info.name);
    EXPECT_EQ(static_cast<int>(info.format), place++);
    EXPECT_STREQ(name(info.format), info.name);
    EXPECT_TRUE(names.insert(info.name).second);
    EXPECT_TRUE(info.scaled || (!info.f32_scales && info.scale_block == 0));
    WeightView view{.format = info.format, .out = 512, .in = 512};
    for (const DType type : info.stored) {
      EXPECT_TRUE(types.insert(type).second) << dtype_name(type);
      EXPECT_EQ(stored_format(type), &info);
      const DTypeBlock element = dtype_block(type);  // this many values in this many bytes
      const int values = info.values / element.elements;
      EXPECT_EQ(view.row_bytes(), static_cast<std::size_t>(512 / element.elements / values * element.bytes));
    }
    for (const DType codes : info.has_codes() ? code_types() : std::vector<DType>{}) {
      view.codes = codes;
      EXPECT_EQ(view.row_bytes(),
                static_cast<std::size_t>(512 / dtype_block(codes).elements * dtype_block(codes).bytes));
    }
  }
  EXPECT_EQ(stored_format(DType::kF64), nullptr);
}

// The tests above cannot miss these: the formats of published checkpoints (docs/models/deepseek_v4.md).
TEST(WeightFormats, LinesSayWhatCheckpointsHold) {
  const WeightFormatInfo &fp8 = weight_format(WeightFormat::kFp8), &mxfp4 = weight_format(WeightFormat::kMxfp4);
  EXPECT_TRUE(fp8.scaled && fp8.f32_scales) << "V3 has f32 scales, V4 e8m0";
  EXPECT_EQ(fp8.values, 1);
  EXPECT_TRUE(mxfp4.scaled && !mxfp4.f32_scales);
  EXPECT_EQ(mxfp4.scale_block, 32);
  EXPECT_EQ(mxfp4.values, 2);
}

TEST(WeightFormats, FormsOfEveryFormatAreTested) {
  std::set<WeightFormat> formats{WeightFormat::kTransposedCodes};  // it is made of codes
  for (const WeightForm& form : weight_forms()) formats.insert(form.format);
  EXPECT_EQ(formats.size(), weight_formats().size());
}

// Values that a format can hold come back from the bytes that the number formats say.
TEST(WeightFormats, ValuesComeBack) {
  const std::vector<float> values{0.0F, 1.0F, -1.5F, 4.0F, -6.0F, 0.5F, 3.0F};
  const auto count = static_cast<int>(values.size());
  for (const WeightFormatInfo& info : weight_formats()) {
    if (info.has_codes()) continue;  // base/formats/block_codes.h, files/gguf/gguf_blocks_test.cc
    std::vector<std::byte> bytes(64);
    for (int i = 0; i < count; ++i) {
      const float value = values[static_cast<std::size_t>(i)];
      std::byte* to = bytes.data() + i * info.bytes / info.values;
      if (info.values == 2) *to |= static_cast<std::byte>(float_to_e2m1(value) << (i % 2 * 4));
      if (info.values == 1 && info.bytes == 1) *to = std::byte{float_to_e4m3(value)};
      const std::uint16_t half = to_bf16(value).bits;
      if (info.bytes == 2) std::memcpy(to, &half, sizeof half);
      if (info.bytes == 4) std::memcpy(to, &value, sizeof value);
    }
    const WeightView view{.format = info.format, .out = 1, .in = count, .data = bytes.data()};
    std::vector<float> found(values.size());
    view.values(0, 0, count, found.data());
    EXPECT_TRUE(same_bits(found, values)) << info.name;
  }
}

// A part of a row, a value and a whole row agree, and so do a weight and its transpose.
TEST(WeightFormats, PartsAreThoseOfTheRow) {
  Random random(120);
  std::mt19937 generator = fresh_generator(121);
  for (const WeightForm& form : weight_forms()) {
    SCOPED_TRACE(describe(form));
    const RandomWeight weight(generator, form, 5, 512);
    const WeightView& view = weight.view();
    const int row = random.between(0, 4), first = random.between(0, 400), n = random.between(1, 100);
    std::vector<float> all(512), part(static_cast<std::size_t>(n)), scaled(512), product(512);
    view.values(row, 0, 512, all.data());
    view.values(row, first, n, part.data());
    EXPECT_TRUE(same_bits(part, std::span(all).subspan(static_cast<std::size_t>(first), part.size())));
    EXPECT_EQ(view.element(row, first), all[static_cast<std::size_t>(first)]);
    view.read(row, 0, 512, scaled.data());
    for (int k = 0; k < 512; ++k)
      product[static_cast<std::size_t>(k)] = all[static_cast<std::size_t>(k)] * view.scale(row, k);
    EXPECT_TRUE(same_bits(scaled, product));
    if (form.format == WeightFormat::kCodes) {
      EXPECT_EQ(transposed_codes(view).element(first, row), all[static_cast<std::size_t>(first)]);
    }
  }
}

// There is a kernel for each form of inputs that a format multiplies, for any number of rows; and CUDA has a packed
// form.
TEST(WeightFormats, EveryTableHasKernelsForEveryFormat) {
  std::mt19937 generator = fresh_generator(122);
  for (const WeightForm& form : weight_forms()) {
    const RandomWeight weight(generator, form, 256, 256);
    std::vector<WeightView> views{weight.view()};
    if (form.format == WeightFormat::kCodes) views.push_back(transposed_codes(weight.view()));
    for (const WeightView& view : views) {
      EXPECT_GT(CudaLinear(view).bytes(), 0U) << describe(form);
      for (const KernelTable* table : all_tables()) {
        for (const InputForm wanted :
             {InputForm::kF32, InputForm::kBf16, InputForm::kInt8, InputForm::kFp8, InputForm::kTiles}) {
          const auto& cell = table->linear.cell(view, input_form(wanted, view.format));
          EXPECT_NE(cell.front(), nullptr) << table->name << " " << describe(form);
        }
      }
    }
  }
}

}  // namespace
}  // namespace sluice::weight_format_test
