#include "kernels/tests/linear_testing.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/formats/block_codes.h"
#include "base/formats/number_formats.h"
#include "kernels/tests/op_testing.h"

namespace sluice {

namespace {

template <class T>
void append(std::vector<std::byte>& bytes, T value) {
  const auto* from = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), from, from + sizeof(T));
}

// Scales are finite and of a size that keeps products small; now and then they are zero or denormal.
void draw_scales(Random& random, DType codes, std::byte* block) {
  for (const std::size_t at : scale_places(codes)) {
    const auto magnitude = random.between(0, 31) == 0 ? random.between(0, 0x3FF) : random.between(0, 0x2BFF);
    const int sign = random.between(0, 1) * 0x8000;
    const auto bits = static_cast<std::uint16_t>(random.between(0, 49) == 0 ? 0 : magnitude | sign);
    std::memcpy(block + at, &bits, sizeof bits);
  }
}

template <class T, class Draw>
std::vector<std::byte> drawn(std::size_t count, const Draw& draw) {
  std::vector<std::byte> bytes(count * sizeof(T));
  for (std::size_t i = 0; i < count; ++i) {
    const T value = draw();
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof value);
  }
  return bytes;
}

// Rows of any bits, except floats, which are normal numbers, scales of integer codes, and e4m3, which are not NaN.
std::vector<std::byte> random_rows(Random random, const WeightForm& form, int out, int in) {
  const std::size_t values = static_cast<std::size_t>(out) * static_cast<std::size_t>(in);
  if (form.format == WeightFormat::kF32) return drawn<float>(values, [&] { return random.normal(); });
  if (form.format == WeightFormat::kBf16) return drawn<bf16>(values, [&] { return to_bf16(random.normal()); });
  const WeightFormatInfo& info = weight_format(form.format);
  const DTypeBlock block = info.has_codes() ? dtype_block(form.codes) : DTypeBlock{info.values, 1};
  const auto blocks = static_cast<std::size_t>((in + block.elements - 1) / block.elements * out);
  std::vector<std::byte> bytes(blocks * static_cast<std::size_t>(block.bytes));
  random.fill(bytes);
  if (form.format == WeightFormat::kFp8) {
    for (std::byte& code : bytes) code = (code & std::byte{0x7F}) == std::byte{0x7F} ? std::byte{} : code;
  }
  for (std::size_t b = 0; info.has_codes() && b < blocks; ++b) {
    draw_scales(random, form.codes, bytes.data() + b * static_cast<std::size_t>(block.bytes));
  }
  return bytes;
}

}  // namespace

std::vector<std::size_t> scale_places(DType codes) {
  switch (codes) {
    case DType::kQ6_K:
      return {208};
    case DType::kQ2_K:
      return {80, 82};
    case DType::kQ3_K:
      return {108};
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
      return {0, 2};
    default:
      return {0};
  }
}

std::string describe(const WeightForm& form) {
  std::string text = name(form.format);
  if (form.format == WeightFormat::kCodes) return text + " " + std::string(dtype_name(form.codes));
  if (form.scale_format == ScaleFormat::kE8m0) text += " e8m0";
  if (form.scale_format == ScaleFormat::kF32) text += " f32";
  return text + " " + std::to_string(form.block_out) + "x" + std::to_string(form.block_in);
}

std::vector<WeightForm> weight_forms() {
  std::vector<WeightForm> forms;
  for (const WeightFormatInfo& info : weight_formats()) {
    if (info.format == WeightFormat::kTransposedCodes) continue;  // made of kCodes
    if (info.has_codes()) {
      for (const DType codes : code_types()) forms.push_back({.format = info.format, .codes = codes});
    } else if (info.scale_block > 0) {
      forms.push_back({info.format, ScaleFormat::kE8m0, 1, info.scale_block});
    } else {
      for (const int block : {128, 32}) {
        if (info.scaled) forms.push_back({info.format, ScaleFormat::kE8m0, block, block});
        if (info.f32_scales) forms.push_back({info.format, ScaleFormat::kF32, block, block});
      }
      forms.push_back({info.format, ScaleFormat::kNone});
    }
  }
  return forms;
}

std::vector<DType> code_types() {
  std::vector<DType> types;
  for (int i = 0; i < kDTypeCount + kBlockDTypeCount; ++i) {
    if (block_codes(static_cast<DType>(i)).inputs > 0) types.push_back(static_cast<DType>(i));
  }
  return types;
}

RandomWeight::RandomWeight(std::mt19937& random, const WeightForm& form, int out, int in) {
  if (form.format == WeightFormat::kCodes) {
    const int block = dtype_block(form.codes).elements;
    in = (in + block - 1) / block * block;
  }
  data_ = random_rows(Random::fixed(random()), form, out, in);
  const int scale_rows = (out + form.block_out - 1) / form.block_out;
  const int scale_columns = (in + form.block_in - 1) / form.block_in;
  for (int i = 0; i < scale_rows * scale_columns; ++i) {
    if (form.scale_format == ScaleFormat::kE8m0) append(scales_, static_cast<std::uint8_t>(117 + random() % 15));
    if (form.scale_format == ScaleFormat::kF32) {
      append(scales_, std::uniform_real_distribution<float>(1e-3F, 0.1F)(random));
    }
  }
  view_ = {.format = form.format,
           .out = out,
           .in = in,
           .data = data_.data(),
           .scale_format = form.scale_format,
           .scales = scales_.data(),
           .block_out = form.block_out,
           .block_in = form.block_in,
           .scale_columns = scale_columns,
           .first_row = 0,
           .codes = form.codes};
}

RandomWeight& RandomWeight::plant_extremes(std::mt19937& random) {
  constexpr int kCodes[] = {0x7F, 0xFF}, kScales[] = {0, 1, 254, 255};
  if (view_.format == WeightFormat::kFp8) data_[random() % data_.size()] = static_cast<std::byte>(kCodes[random() % 2]);
  if (view_.scale_format == ScaleFormat::kE8m0) {
    for (const int scale : kScales) scales_[random() % scales_.size()] = static_cast<std::byte>(scale);
  }
  return *this;
}

std::vector<float> random_inputs(std::mt19937& random, std::size_t count) {
  Random quick = Random::fixed(random());
  std::vector<float> x(count);
  for (float& value : x) {
    const std::uint64_t kind = quick.bits();
    constexpr float kOdd[] = {0.0F, -0.0F, 1e-39F, -1e-39F, 1e-37F, 1e18F, -3e-30F};
    value = kind % 16 == 0 ? kOdd[(kind >> 32) % std::size(kOdd)] : quick.normal();
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
