// Used by files/tensor_view.cc, gguf_file.cc and gguf_writer.cc.
#include "files/gguf/gguf_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "base/formats/block_codes.h"
#include "base/formats/number_formats.h"

namespace sluice {

namespace {

struct TensorType {
  std::uint32_t code;
  DType dtype;
};
constexpr TensorType kTensorTypes[] = {
    {0, DType::kF32},   {1, DType::kF16},   {2, DType::kQ4_0},    {3, DType::kQ4_1},    {6, DType::kQ5_0},
    {7, DType::kQ5_1},  {8, DType::kQ8_0},  {10, DType::kQ2_K},   {11, DType::kQ3_K},   {12, DType::kQ4_K},
    {13, DType::kQ5_K}, {14, DType::kQ6_K}, {20, DType::kIQ4_NL}, {23, DType::kIQ4_XS}, {26, DType::kI32},
    {28, DType::kF64},  {30, DType::kBF16}, {39, DType::kMXFP4},
};

}  // namespace

std::optional<DType> gguf_tensor_dtype(std::uint32_t code) {
  const auto* known = std::ranges::find(kTensorTypes, code, &TensorType::code);
  return known == std::end(kTensorTypes) ? std::nullopt : std::optional(known->dtype);
}

std::optional<std::uint32_t> gguf_tensor_code(DType dtype) {
  const auto* known = std::ranges::find(kTensorTypes, dtype, &TensorType::dtype);
  return known == std::end(kTensorTypes) ? std::nullopt : std::optional(known->code);
}

// The types that are numbered and not read.
std::string gguf_tensor_code_name(std::uint32_t code) {
  struct Name {
    std::uint32_t code;
    std::string_view name;
  };
  static constexpr Name kNames[] = {
      {9, "Q8_1"},   {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"},
      {21, "IQ3_S"}, {22, "IQ2_S"}, {24, "I8"},      {25, "I16"},    {27, "I64"},     {29, "IQ1_M"},
      {34, "TQ1_0"}, {35, "TQ2_0"}, {40, "NVFP4"},   {41, "Q1_0"},
  };
  const auto* named = std::ranges::find(kNames, code, &Name::code);
  return named == std::end(kNames) ? fmt::format("type {}", code) : fmt::format("{} ({})", named->name, code);
}

std::string gguf_tensor_type_names() {
  std::string names;
  for (const TensorType& type : kTensorTypes) {
    names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", dtype_name(type.dtype), type.code);
  }
  return names;
}

namespace {

using Byte = unsigned char;

// 16 bytes of nibbles: the low ones are elements 0 to 15, the high ones 16 to 31.
template <class Decode>
void decode_halves(const Byte* codes, float* out, const Decode& decode) {
  for (int i = 0; i < 16; ++i) {
    out[i] = decode(codes[i] & 0xF);
    out[i + 16] = decode(codes[i] >> 4);
  }
}

// An e8m0 scale, here that of the doubled values, nibbles of e2m1. Unlike in the OCP format, codes 0 and 255 of the
// scale are powers of two like the others, and there is no negative zero.
void decode_mxfp4(const Byte* block, float* out) {
  static constexpr float kDoubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  const std::uint32_t e = block[0];
  const auto d = std::bit_cast<float>(e < 2 ? 0x00200000U << e : (e - 1) << 23);  // 2^(e - 128), also below 2^-126
  decode_halves(block + 1, out, [d](int code) { return d * kDoubled[code]; });
}

template <class Stored>
void widen(const Byte* bytes, std::size_t elements, float* out) {
  for (std::size_t i = 0; i < elements; ++i) {
    Stored value;
    std::memcpy(&value, bytes + i * sizeof(Stored), sizeof(Stored));
    out[i] = to_float(value);
  }
}

void dequantize_blocks(DType dtype, const Byte* bytes, std::size_t elements, float* out) {
  if (dtype == DType::kMXFP4) {
    const auto block_bytes = static_cast<std::size_t>(dtype_block(dtype).bytes);
    for (std::size_t i = 0; i < elements / 32; ++i) decode_mxfp4(bytes + i * block_bytes, out + i * 32);
    return;
  }
  const BlockCodes form = block_codes(dtype);
  const auto inputs = static_cast<std::size_t>(form.inputs);
  CodedPart part;
  for (std::size_t i = 0; i < elements / inputs; ++i) {
    read_part(dtype, reinterpret_cast<const std::byte*>(bytes), i, part);
    decode_part(form, part, out + i * inputs);
  }
}

}  // namespace

bool is_dequantizable(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16 || dtype == DType::kMXFP4 ||
         dtype == DType::kF64 || block_codes(dtype).inputs > 0;
}

void dequantize(DType dtype, const std::byte* data, std::size_t elements, float* out) {
  const auto* bytes = reinterpret_cast<const Byte*>(data);
  if (elements == 0) return;
  if (dtype == DType::kF32) {
    std::memcpy(out, bytes, elements * sizeof(float));
  } else if (dtype == DType::kF16) {
    widen<f16>(bytes, elements, out);
  } else if (dtype == DType::kBF16) {
    widen<bf16>(bytes, elements, out);
  } else if (dtype == DType::kF64) {
    for (std::size_t i = 0; i < elements; ++i) {
      double value;
      std::memcpy(&value, bytes + i * sizeof value, sizeof value);
      out[i] = static_cast<float>(value);
    }
  } else {
    const auto block = static_cast<std::size_t>(dtype_block(dtype).elements);
    SLUICE_CHECK(is_dequantizable(dtype) && elements % block == 0, "whole blocks of a type that stands for numbers");
    dequantize_blocks(dtype, bytes, elements, out);
  }
}

}  // namespace sluice
