#include "kernels/linear_testing.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/number_formats.h"
#include "kernels/op_testing.h"

namespace sluice {

namespace {

template <class T>
void append(std::vector<std::byte>& bytes, T value) {
  const auto* from = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), from, from + sizeof(T));
}

std::uint8_t random_e4m3(std::mt19937& random) {
  const auto code = static_cast<std::uint8_t>(random() & 0xFF);
  return (code & 0x7F) == 0x7F ? 0 : code;
}

// Any bits, but for scales, which are finite and of a size that keeps products small; now and then zero or denormal.
void append_block(std::mt19937& random, DType codes, std::vector<std::byte>& bytes) {
  const std::size_t begin = bytes.size();
  for (int i = 0; i < dtype_block(codes).bytes; ++i) append(bytes, static_cast<std::uint8_t>(random()));
  for (const std::size_t at : scale_places(codes)) {
    const auto magnitude = static_cast<std::uint16_t>(random() % 32 == 0 ? random() % 0x400 : random() % 0x2C00);
    const auto bits = static_cast<std::uint16_t>(random() % 50 == 0 ? 0 : magnitude | (random() & 0x8000));
    std::memcpy(bytes.data() + begin + at, &bits, sizeof bits);
  }
}

void append_row(std::mt19937& random, const WeightSpec& spec, int in, std::vector<std::byte>& bytes) {
  std::normal_distribution<float> normal;
  switch (spec.format) {
    case WeightFormat::kF32:
      for (int k = 0; k < in; ++k) append(bytes, normal(random));
      break;
    case WeightFormat::kBf16:
      for (int k = 0; k < in; ++k) append(bytes, to_bf16(normal(random)).bits);
      break;
    case WeightFormat::kFp8:
      for (int k = 0; k < in; ++k) append(bytes, random_e4m3(random));
      break;
    case WeightFormat::kMxfp4:
      for (int k = 0; k < in; k += 2) append(bytes, static_cast<std::uint8_t>(random()));
      break;
    case WeightFormat::kCodes:
      for (int k = 0; k < in; k += dtype_block(spec.codes).elements) append_block(random, spec.codes, bytes);
      break;
    case WeightFormat::kTransposedCodes:
      SLUICE_CHECK(false, "made of kCodes");
  }
}

}  // namespace

std::vector<std::size_t> scale_places(DType codes) {
  if (codes == DType::kQ6_K) return {208};
  if (codes == DType::kQ8_0 || codes == DType::kQ4_0) return {0};
  return {0, 2};
}

std::string describe(const WeightSpec& spec) {
  std::string text = name(spec.format);
  if (spec.format == WeightFormat::kCodes) return text + " " + std::string(dtype_name(spec.codes));
  if (spec.scale_format == ScaleFormat::kE8m0) text += " e8m0";
  if (spec.scale_format == ScaleFormat::kF32) text += " f32";
  return text + " " + std::to_string(spec.block_out) + "x" + std::to_string(spec.block_in);
}

std::vector<WeightSpec> weight_specs() {
  std::vector<WeightSpec> specs = {
      {WeightFormat::kF32, ScaleFormat::kNone},           {WeightFormat::kBf16, ScaleFormat::kNone},
      {WeightFormat::kFp8, ScaleFormat::kE8m0, 128, 128}, {WeightFormat::kFp8, ScaleFormat::kE8m0, 32, 32},
      {WeightFormat::kFp8, ScaleFormat::kF32, 128, 128},  {WeightFormat::kFp8, ScaleFormat::kF32, 32, 32},
      {WeightFormat::kFp8, ScaleFormat::kNone},           {WeightFormat::kMxfp4, ScaleFormat::kE8m0, 1, 32}};
  for (const DType codes : {DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K}) {
    specs.push_back({.format = WeightFormat::kCodes, .codes = codes});
  }
  return specs;
}

RandomWeight::RandomWeight(std::mt19937& random, const WeightSpec& spec, int out, int in) {
  if (spec.format == WeightFormat::kCodes) {
    const int block = dtype_block(spec.codes).elements;
    in = (in + block - 1) / block * block;
  }
  for (int n = 0; n < out; ++n) append_row(random, spec, in, data_);
  const int scale_rows = (out + spec.block_out - 1) / spec.block_out;
  const int scale_columns = (in + spec.block_in - 1) / spec.block_in;
  for (int i = 0; i < scale_rows * scale_columns; ++i) {
    if (spec.scale_format == ScaleFormat::kE8m0) append(scales_, static_cast<std::uint8_t>(117 + random() % 15));
    if (spec.scale_format == ScaleFormat::kF32) {
      append(scales_, std::uniform_real_distribution<float>(1e-3F, 0.1F)(random));
    }
  }
  view_ = {.format = spec.format,
           .out = out,
           .in = in,
           .data = data_.data(),
           .scale_format = spec.scale_format,
           .scales = scales_.data(),
           .block_out = spec.block_out,
           .block_in = spec.block_in,
           .scale_columns = scale_columns,
           .first_row = 0,
           .codes = spec.codes};
}

std::vector<float> random_inputs(std::mt19937& random, std::size_t count) {
  std::normal_distribution<float> normal;
  std::vector<float> x(count);
  for (float& value : x) {
    value = normal(random);
    if (random() % 16 == 0) {
      constexpr float kOdd[] = {0.0F, -0.0F, 1e-39F, -1e-39F, 1e-37F, 1e18F, -3e-30F};
      value = kOdd[random() % std::size(kOdd)];
    }
  }
  return x;
}

std::vector<KernelTable> linear_tables() {
  std::vector<KernelTable> tables;
  for (const KernelTable* table : all_tables()) tables.push_back(*table);
  return tables;
}

std::ptrdiff_t first_difference(const std::vector<float>& a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i])) return static_cast<std::ptrdiff_t>(i);
  }
  return -1;
}

}  // namespace sluice
