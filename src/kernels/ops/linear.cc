// Used by bench, kernels and model.
#include "kernels/ops/linear.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/formats/block_codes.h"
#include "base/formats/number_formats.h"

namespace sluice {

LinearBytes packs_for(const Exec& exec, AlignedBytes of_view) {
  return {.packing = &linear_packing(*exec.kernels), .pool = exec.pool, .of_view = std::move(of_view)};
}

LinearWeight LinearWeight::make(const WeightView& view, InputForm wanted, LinearBytes from) {
  const WeightFormatInfo& info = weight_format(view.format);
  SLUICE_CHECK(info.scale_block == 0 || (view.scale_format == ScaleFormat::kE8m0 && view.block_in == info.scale_block),
               "weights with blocks of their own have one e8m0 scale for each");
  SLUICE_CHECK(!info.has_codes() || (block_codes(view.codes).inputs > 0 &&
                                     (view.transposed() ? view.out : view.in) % dtype_block(view.codes).elements == 0),
               "codes are integers, in whole blocks");
  SLUICE_CHECK(view.block_in > 0 && view.block_out > 0, "a scale covers at least one weight");
  LinearWeight weight;
  weight.view_ = view;
  weight.input_form_ = sluice::input_form(wanted, view.format);
  const LinearPacking* packing = from.packing != nullptr ? &from.packing->of(view, wanted) : nullptr;
  const std::size_t bytes = packing != nullptr ? packing->packed_bytes(view) : from.packed_bytes;
  weight.packed_when_used_ = from.when_used && bytes > 0;
  if (bytes == 0 || from.when_used) {
    weight.kept_ = std::move(from.of_view);
    return weight;
  }
  weight.packed_bytes_ = bytes;
  if (packing != nullptr) {
    weight.packed_ = AlignedBytes(bytes);
    pack_linear_weight(from.pool, *packing, view, weight.packed_.data());
  }
  weight.packed_at_ = packing != nullptr ? weight.packed_.data() : from.packed;
  if (packing == nullptr || from.of_view.size() > 0) weight.view_.data = nullptr;  // the view's bytes may be freed
  return weight;
}

void LinearWeight::place(const WeightView& view, const std::byte* packed) {
  view_ = view;
  packed_at_ = packed;
  packed_ = {};
  kept_ = {};
  placed_ = true;
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

WeightView int8_shape(const WeightView& view) {
  WeightView int8;
  int8.format = WeightFormat::kCodes;
  int8.codes = DType::kQ8_0;
  int8.out = view.out, int8.in = view.in;
  int8.first_out = view.first_out, int8.whole_out = view.whole_out;
  return int8;
}

void write_int8(ThreadPool* pool, const WeightView& view, std::byte* to) {
  constexpr int kRowsPerPiece = 64, kMostCode = 127;
  const std::size_t row_bytes = int8_shape(view).row_bytes();
  const auto write_block = [](const float* values, std::byte* block) {
    float most = 0;
    for (int i = 0; i < kInt8Block; ++i) most = std::max(most, std::abs(values[i]));
    const f16 scale = to_f16(most / kMostCode);
    const float step = to_float(scale);
    const bool usable = step > 0 && std::isfinite(step);
    const f16 stored = usable || most == 0 ? scale : to_f16(std::numeric_limits<float>::quiet_NaN());
    std::memcpy(block, &stored, sizeof(stored));
    for (int i = 0; i < kInt8Block; ++i) {
      const float code = usable ? std::clamp(std::nearbyint(values[i] / step), -1.0F * kMostCode, 1.0F * kMostCode) : 0;
      block[sizeof(stored) + static_cast<std::size_t>(i)] = static_cast<std::byte>(static_cast<std::int8_t>(code));
    }
  };
  pool->run((view.out + kRowsPerPiece - 1) / kRowsPerPiece, [&](int piece, int) {
    const KeepDenormals exact;
    float values[kInt8Block];
    const int end = std::min(view.out, (piece + 1) * kRowsPerPiece);
    for (int row = piece * kRowsPerPiece; row < end; ++row) {
      std::byte* block = to + static_cast<std::size_t>(row) * row_bytes;
      for (int first = 0; first < view.in; first += kInt8Block, block += sizeof(f16) + kInt8Block) {
        view.read(row, first, kInt8Block, values);
        write_block(values, block);
      }
    }
  });
}

}  // namespace sluice
