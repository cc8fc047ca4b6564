#include "kernels/linear.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "base/block_codes.h"
#include "base/check.h"
#include "base/number_formats.h"
#include "kernels/linear_packing.h"

namespace sluice {

namespace {

template <class T>
T stored(const std::byte* from, std::size_t index) {
  T value;
  std::memcpy(&value, from + index * sizeof(T), sizeof(T));
  return value;
}

// Value `i` of a row that is stored at `row`.
float value_of_codes(DType codes, const std::byte* row, int i) {
  const BlockCodes form = block_codes(codes);
  CodedPart part;
  float values[32];
  read_part(codes, row, static_cast<std::size_t>(i / form.inputs), part);
  decode_part(form, part, values);
  return values[i % form.inputs];
}

}  // namespace

const char* name(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return "f32";
    case WeightFormat::kBf16:
      return "bf16";
    case WeightFormat::kFp8:
      return "fp8";
    case WeightFormat::kMxfp4:
      return "mxfp4";
    case WeightFormat::kCodes:
      return "codes";
    case WeightFormat::kTransposedCodes:
      return "transposed codes";
  }
  return "?";
}

InputForm input_form(InputForm wanted, WeightFormat format) {
  if (format == WeightFormat::kF32 || format == WeightFormat::kTransposedCodes) return InputForm::kF32;
  const bool integers = format == WeightFormat::kMxfp4 || format == WeightFormat::kCodes;
  return wanted == InputForm::kInt8 && !integers ? InputForm::kBf16 : wanted;
}

InputForm float_inputs(InputForm inputs) {
  return inputs == InputForm::kInt8 || inputs == InputForm::kBf16 ? InputForm::kBf16 : InputForm::kF32;
}

std::size_t WeightView::row_bytes() const {
  const auto inputs = static_cast<std::size_t>(format == WeightFormat::kTransposedCodes ? out : in);
  switch (format) {
    case WeightFormat::kF32:
      return inputs * 4;
    case WeightFormat::kBf16:
      return inputs * 2;
    case WeightFormat::kFp8:
      return inputs;
    case WeightFormat::kMxfp4:
      return (inputs + 1) / 2;
    case WeightFormat::kCodes:
    case WeightFormat::kTransposedCodes: {
      const DTypeBlock block = dtype_block(codes);
      return inputs / static_cast<std::size_t>(block.elements) * static_cast<std::size_t>(block.bytes);
    }
  }
  return 0;
}

int WeightView::block_inputs() const {
  if (format == WeightFormat::kCodes) return block_codes(codes).inputs;
  return scale_format == ScaleFormat::kNone ? 128 : block_in;
}

float WeightView::scale(int row, int column) const {
  if (scale_format == ScaleFormat::kNone) return 1.0F;
  const auto index = static_cast<std::size_t>((first_row + row) / block_out) * static_cast<std::size_t>(scale_columns) +
                     static_cast<std::size_t>(column / block_in);
  if (scale_format == ScaleFormat::kE8m0) return e8m0_to_float(stored<std::uint8_t>(scales, index));
  return stored<float>(scales, index);
}

float WeightView::element(int row, int column) const {
  const std::byte* bytes = data + static_cast<std::size_t>(row) * row_bytes();
  const auto index = static_cast<std::size_t>(column);
  switch (format) {
    case WeightFormat::kF32:
      return stored<float>(bytes, index);
    case WeightFormat::kBf16:
      return to_float(stored<bf16>(bytes, index));
    case WeightFormat::kFp8:
      return e4m3_to_float(stored<std::uint8_t>(bytes, index));
    case WeightFormat::kMxfp4:
      return e2m1_to_float(static_cast<std::uint8_t>(stored<std::uint8_t>(bytes, index / 2) >> (index % 2 * 4)));
    case WeightFormat::kCodes:
      return value_of_codes(codes, bytes, column);
    case WeightFormat::kTransposedCodes:
      return value_of_codes(codes, data + index * row_bytes(), row);
  }
  return 0.0F;
}

void WeightView::read(int row, int first, int count, float* out) const {
  if (format == WeightFormat::kCodes) {
    const BlockCodes form = block_codes(codes);
    CodedPart part;
    for (int i = 0; i < count; i += form.inputs) {
      read_part(codes, data + static_cast<std::size_t>(row) * row_bytes(),
                static_cast<std::size_t>((first + i) / form.inputs), part);
      decode_part(form, part, out + i);
    }
    return;
  }
  for (int i = 0; i < count; ++i) out[i] = element(row, first + i) * scale(row, first + i);
}

WeightView slice_rows(const WeightView& view, int first, int count) {
  SLUICE_CHECK(view.format != WeightFormat::kTransposedCodes, "its rows do not lie apart");
  SLUICE_CHECK(first >= 0 && count >= 0 && first + count <= view.out, "a slice of rows lies inside its weight");
  WeightView slice = view;
  slice.data = view.data + static_cast<std::size_t>(first) * view.row_bytes();
  slice.out = count;
  slice.first_row = view.first_row + first;
  return slice;
}

LinearWeight LinearWeight::pack(const Exec& exec, const WeightView& view, InputForm wanted) {
  return pack(exec.pool, linear_packing(*exec.kernels), view, wanted);
}

LinearWeight LinearWeight::pack(const Exec& exec, const WeightView& view, AlignedBytes bytes, InputForm wanted) {
  LinearWeight weight = pack(exec, view, wanted);
  if (weight.packed_bytes() == 0) {
    weight.kept_ = std::move(bytes);
  } else {
    weight.view_.data = nullptr;
  }
  return weight;
}

LinearWeight LinearWeight::pack(ThreadPool* pool, const LinearPacking& packing, const WeightView& view,
                                InputForm wanted) {
  LinearWeight weight = over(view, wanted);
  weight.packed_ = AlignedBytes(packing.packed_bytes(view));
  weight.packed_at_ = weight.packed_.data();
  weight.packed_bytes_ = weight.packed_.size();
  if (weight.packed_bytes_ > 0) pack_linear_weight(pool, packing, view, weight.packed_.data());
  return weight;
}

LinearWeight LinearWeight::packed_at(const WeightView& view, InputForm wanted, const std::byte* packed,
                                     std::size_t packed_bytes) {
  LinearWeight weight = over(view, wanted);
  weight.view_.data = nullptr;
  weight.packed_at_ = packed;
  weight.packed_bytes_ = packed_bytes;
  return weight;
}

LinearWeight LinearWeight::in_place(const LinearPacking& packing, const WeightView& view, InputForm wanted) {
  LinearWeight weight = over(view, wanted);
  weight.packed_when_used_ = packing.packed_bytes(view) > 0;
  return weight;
}

void LinearWeight::place_packed(const std::byte* packed) {
  packed_at_ = packed;
  packed_ = {};
  placed_ = true;
}

void LinearWeight::place_view(const WeightView& view) {
  view_ = view;
  kept_ = {};
  placed_ = true;
}

LinearWeight LinearWeight::over(const WeightView& view, InputForm wanted) {
  SLUICE_CHECK(view.format != WeightFormat::kMxfp4 || (view.scale_format == ScaleFormat::kE8m0 && view.block_in == 32),
               "MXFP4 weights have one e8m0 scale for 32 inputs");
  SLUICE_CHECK(view.format != WeightFormat::kCodes ||
                   (block_codes(view.codes).inputs > 0 && view.in % dtype_block(view.codes).elements == 0),
               "codes are integers, in whole blocks");
  SLUICE_CHECK(view.format != WeightFormat::kTransposedCodes ||
                   (block_codes(view.codes).inputs > 0 && view.out % dtype_block(view.codes).elements == 0),
               "codes are integers, in whole blocks");
  SLUICE_CHECK(view.block_in > 0 && view.block_out > 0, "a scale covers at least one weight");
  LinearWeight weight;
  weight.view_ = view;
  weight.input_form_ = sluice::input_form(wanted, view.format);
  return weight;
}

LinearWeight LinearWeight::pack_transposed(const Exec& exec, const WeightView& view, InputForm wanted) {
  WeightView transpose = transposed_shape(view);
  AlignedBytes bytes(static_cast<std::size_t>(transpose.out) * transpose.row_bytes());
  write_transpose(exec.pool, view, bytes.data());
  transpose.data = bytes.data();
  return pack(exec, transpose, std::move(bytes), wanted);
}

void pack_linear_weight(ThreadPool* pool, const LinearPacking& packing, const WeightView& view, std::byte* to) {
  constexpr int kOutputsPerPiece = 256;
  const int step = (kOutputsPerPiece + packing.out_tile - 1) / packing.out_tile * packing.out_tile;
  const int pieces = (view.out + step - 1) / step;
  auto pack_piece = [&](int piece, int) {
    packing.pack(view, piece * step, std::min(view.out, (piece + 1) * step), to);
  };
  if (pool != nullptr) {
    pool->run(pieces, std::ref(pack_piece));
  } else {
    for (int piece = 0; piece < pieces; ++piece) pack_piece(piece, 0);
  }
}

WeightView transposed_codes(const WeightView& view) {
  SLUICE_CHECK(view.format == WeightFormat::kCodes, "integer codes");
  WeightView transpose = view;
  transpose.format = WeightFormat::kTransposedCodes;
  std::swap(transpose.out, transpose.in);
  return transpose;
}

WeightView transposed_shape(const WeightView& view) {
  WeightView transpose;
  transpose.format = view.format == WeightFormat::kBf16 ? WeightFormat::kBf16 : WeightFormat::kF32;
  transpose.out = view.in;
  transpose.in = view.out;
  return transpose;
}

void write_transpose(ThreadPool* pool, const WeightView& view, std::byte* to) {
  const bool bf16_values = view.format == WeightFormat::kBf16;
  constexpr int kColumnsPerPiece = 64;
  const auto write_columns = [&](int piece, int) {
    const KeepDenormals exact;
    const int first = piece * kColumnsPerPiece, count = std::min(view.in - first, kColumnsPerPiece);
    float values[kColumnsPerPiece];
    for (int row = 0; row < view.out; ++row) {
      view.read(row, first, count, values);
      for (int i = 0; i < count; ++i) {
        const std::size_t at =
            static_cast<std::size_t>(first + i) * static_cast<std::size_t>(view.out) + static_cast<std::size_t>(row);
        if (bf16_values) {
          reinterpret_cast<bf16*>(to)[at] = to_bf16(values[i]);
        } else {
          reinterpret_cast<float*>(to)[at] = values[i];
        }
      }
    }
  };
  pool->run((view.in + kColumnsPerPiece - 1) / kColumnsPerPiece, write_columns);
}

}  // namespace sluice
