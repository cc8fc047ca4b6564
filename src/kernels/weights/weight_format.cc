// Used by kernels/ops/linear.h, model/weights/scale_tensors.h and narrow_weight.h.
#include "kernels/weights/weight_format.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/formats/block_codes.h"
#include "base/formats/number_formats.h"

namespace sluice {
namespace {

template <class T>
T stored(const std::byte* from, std::size_t index) {
  T value;
  std::memcpy(&value, from + index * sizeof(T), sizeof(T));
  return value;
}

const std::byte* row_at(const WeightView& view, int row) {
  return view.data + static_cast<std::size_t>(row) * view.row_bytes();
}

void f32_values(const WeightView& view, int row, int first, int count, float* out) {
  std::memcpy(out, row_at(view, row) + static_cast<std::size_t>(first) * sizeof(float),
              static_cast<std::size_t>(count) * sizeof(float));
}

void bf16_values(const WeightView& view, int row, int first, int count, float* out) {
  const std::byte* from = row_at(view, row) + static_cast<std::size_t>(first) * sizeof(bf16);
  for (int i = 0; i < count; ++i) out[i] = to_float(stored<bf16>(from, static_cast<std::size_t>(i)));
}

void fp8_values(const WeightView& view, int row, int first, int count, float* out) {
  const std::byte* from = row_at(view, row) + first;
  for (int i = 0; i < count; ++i) out[i] = e4m3_to_float(std::to_integer<std::uint8_t>(from[i]));
}

void mxfp4_values(const WeightView& view, int row, int first, int count, float* out) {
  static const auto kValues = [] {
    std::array<float, 16> values{};
    for (unsigned code = 0; code < 16; ++code) values[code] = e2m1_to_float(static_cast<std::uint8_t>(code));
    return values;
  }();
  const std::byte* from = row_at(view, row);
  for (int i = first; i < first + count; ++i)
    *out++ = kValues[std::to_integer<unsigned>(from[i / 2]) >> (i % 2 * 4) & 15U];
}

// Reads values [first, first + count) of the row that is stored at `from`.
void values_of_codes(DType codes, const std::byte* from, int first, int count, float* out) {
  const BlockCodes form = block_codes(codes);
  CodedPart part;
  float values[32];
  for (int i = first; i < first + count;) {
    const int n = std::min(form.inputs - i % form.inputs, first + count - i);
    read_part(codes, from, static_cast<std::size_t>(i / form.inputs), part);
    decode_part(form, part, values);
    out = std::copy_n(values + i % form.inputs, n, out);
    i += n;
  }
}

void codes_values(const WeightView& view, int row, int first, int count, float* out) {
  values_of_codes(view.codes, row_at(view, row), first, count, out);
}

void transposed_codes_values(const WeightView& view, int row, int first, int count, float* out) {
  for (int i = 0; i < count; ++i) values_of_codes(view.codes, row_at(view, first + i), row, 1, out + i);
}

constexpr DType kF32Values[] = {DType::kF32}, kBf16Values[] = {DType::kBF16}, kFp8Values[] = {DType::kF8E4M3},
                kFp4Values[] = {DType::kI8, DType::kU8, DType::kF4};

constexpr WeightFormatInfo kFormats[] = {
    {.format = WeightFormat::kF32,
     .name = "f32",
     .coding = Coding::kF32,
     .stored = kF32Values,
     .bytes = 4,
     .rounds_inputs = false,
     .values_of = f32_values},
    {.format = WeightFormat::kBf16,
     .name = "bf16",
     .coding = Coding::kBf16,
     .stored = kBf16Values,
     .bytes = 2,
     .values_of = bf16_values},
    {.format = WeightFormat::kFp8,
     .name = "fp8",
     .coding = Coding::kE4m3,
     .stored = kFp8Values,
     .scaled = true,
     .f32_scales = true,
     .values_of = fp8_values},
    {.format = WeightFormat::kMxfp4,
     .name = "mxfp4",
     .coding = Coding::kE2m1,
     .stored = kFp4Values,
     .values = 2,
     .scaled = true,
     .scale_block = 32,
     .integers = true,
     .values_of = mxfp4_values},
    {.format = WeightFormat::kCodes, .name = "codes", .integers = true, .values_of = codes_values},
    {.format = WeightFormat::kTransposedCodes,
     .name = "transposed codes",
     .rounds_inputs = false,
     .values_of = transposed_codes_values},
};
static_assert(std::size(kFormats) == kWeightFormats);

}  // namespace

int scale_bytes(ScaleFormat format) {
  constexpr int kBytes[] = {0, 1, 4, 2};
  return kBytes[static_cast<std::size_t>(format)];
}

int WeightTrait::scale_bytes() const {
  return sluice::scale_bytes(scales) * (min ? 2 : 1);
}

WeightTrait weight_trait(const WeightView& view) {
  const WeightFormatInfo& info = weight_format(view.format);
  if (!info.has_codes()) return {.coding = info.coding, .group = view.block_inputs(), .scales = view.scale_format};
  const BlockCodes form = block_codes(view.codes);
  return {.coding = form.bits == 4 ? Coding::kInt4 : Coding::kInt8,
          .group = form.inputs,
          .scales = form.f16 ? ScaleFormat::kF16 : ScaleFormat::kF32,
          .min = form.min,
          .lowest = form.lowest,
          .level = form.level};
}

std::span<const WeightFormatInfo> weight_formats() {
  return kFormats;
}

const WeightFormatInfo& weight_format(WeightFormat format) {
  return kFormats[static_cast<std::size_t>(format)];
}

const WeightFormatInfo* stored_format(DType dtype) {
  const auto* found = std::ranges::find_if(kFormats, [&](const WeightFormatInfo& info) {
    return std::ranges::find(info.stored, dtype) != info.stored.end();
  });
  return found == std::end(kFormats) ? nullptr : found;
}

InputForm input_form(InputForm wanted, WeightFormat format) {
  const WeightFormatInfo& info = weight_format(format);
  if (!info.rounds_inputs) return InputForm::kF32;
  if (wanted == InputForm::kTiles && info.has_codes()) return InputForm::kBf16;
  if (wanted == InputForm::kFp8Blocks && format != WeightFormat::kFp8) {
    return format == WeightFormat::kBf16 ? InputForm::kBf16 : InputForm::kFp8;
  }
  return wanted == InputForm::kInt8 && !info.integers ? InputForm::kBf16 : wanted;
}

InputForm float_inputs(InputForm inputs) {
  if (inputs == InputForm::kTiles) return inputs;
  const bool round = inputs == InputForm::kInt8 || inputs == InputForm::kBf16 || inputs == InputForm::kFp8Blocks;
  return round ? InputForm::kBf16 : InputForm::kF32;
}

std::size_t WeightView::row_bytes() const {
  const WeightFormatInfo& info = weight_format(format);
  const DTypeBlock unit = info.has_codes() ? dtype_block(codes) : DTypeBlock{info.values, info.bytes};
  const int inputs = transposed() ? out : in;
  return static_cast<std::size_t>((inputs + unit.elements - 1) / unit.elements) * static_cast<std::size_t>(unit.bytes);
}

int WeightView::block_inputs() const {
  if (format == WeightFormat::kCodes) return block_codes(codes).inputs;
  return scale_format == ScaleFormat::kNone ? 128 : block_in;
}

std::span<const std::byte> WeightView::stored_rows() const {
  return {data, static_cast<std::size_t>(out) * row_bytes()};
}

std::span<const std::byte> WeightView::scale_rows() const {
  if (scales == nullptr) return {};
  const int begin = first_row / block_out, end = (first_row + out + block_out - 1) / block_out;
  const std::size_t row = static_cast<std::size_t>(scale_columns) * static_cast<std::size_t>(scale_bytes(scale_format));
  return {scales + static_cast<std::size_t>(begin) * row, static_cast<std::size_t>(end - begin) * row};
}

float WeightView::scale(int row, int column) const {
  if (scale_format == ScaleFormat::kNone) return 1.0F;
  const auto index = static_cast<std::size_t>((first_row + row) / block_out) * static_cast<std::size_t>(scale_columns) +
                     static_cast<std::size_t>(column / block_in);
  if (scale_format == ScaleFormat::kE8m0) return e8m0_to_float(stored<std::uint8_t>(scales, index));
  return stored<float>(scales, index);
}

float WeightView::element(int row, int column) const {
  float value;
  values(row, column, 1, &value);
  return value;
}

void WeightView::values(int row, int first, int count, float* out) const {
  weight_format(format).values_of(*this, row, first, count, out);
}

void WeightView::read(int row, int first, int count, float* out) const {
  values(row, first, count, out);
  if (scale_format == ScaleFormat::kNone) return;
  for (int i = 0; i < count; ++i) out[i] *= scale(row, first + i);
}

void set_scale_blocks(WeightView& view, int block_rows, int block_columns) {
  const int of_row = weight_format(view.format).scale_block;
  view.block_out = of_row > 0 ? 1 : block_rows;
  view.block_in = of_row > 0 ? of_row : block_columns;
}

WeightView slice_rows(const WeightView& view, int first, int count) {
  SLUICE_CHECK(!view.transposed(), "its rows do not lie apart");
  SLUICE_CHECK(first >= 0 && count >= 0 && first + count <= view.out, "a slice of rows lies inside its weight");
  WeightView slice = view;
  slice.data = view.data + static_cast<std::size_t>(first) * view.row_bytes();
  slice.out = count;
  slice.first_row = view.first_row + first;
  return slice;
}

WeightView transposed_codes(const WeightView& view) {
  SLUICE_CHECK(view.format == WeightFormat::kCodes, "integer codes");
  WeightView transpose = view;
  transpose.format = WeightFormat::kTransposedCodes;
  std::swap(transpose.out, transpose.in);
  return transpose;
}

}  // namespace sluice
