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
  const LinearPacking& of_weight = packing.of(view, wanted);
  weight.packed_ = AlignedBytes(of_weight.packed_bytes(view));
  weight.packed_at_ = weight.packed_.data();
  weight.packed_bytes_ = weight.packed_.size();
  if (weight.packed_bytes_ > 0) pack_linear_weight(pool, of_weight, view, weight.packed_.data());
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
  weight.packed_when_used_ = packing.of(view, wanted).packed_bytes(view) > 0;
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

WeightView coarse_shape(const WeightView& view) {
  WeightView coarse;
  coarse.format = WeightFormat::kCodes;
  coarse.codes = DType::kQ8_0;
  coarse.out = view.out, coarse.in = view.in;
  return coarse;
}

void write_coarse(ThreadPool* pool, const WeightView& view, std::byte* to) {
  constexpr int kRowsPerPiece = 64, kMostCode = 127;
  const std::size_t row_bytes = coarse_shape(view).row_bytes();
  const auto write_block = [](const float* values, std::byte* block) {
    float most = 0;
    for (int i = 0; i < kCoarseBlock; ++i) most = std::max(most, std::abs(values[i]));
    const f16 scale = to_f16(most / kMostCode);
    const float step = to_float(scale);
    const bool usable = step > 0 && std::isfinite(step);
    const f16 stored = usable || most == 0 ? scale : to_f16(std::numeric_limits<float>::quiet_NaN());
    std::memcpy(block, &stored, sizeof(stored));
    for (int i = 0; i < kCoarseBlock; ++i) {
      const float code = usable ? std::clamp(std::nearbyint(values[i] / step), -1.0F * kMostCode, 1.0F * kMostCode) : 0;
      block[sizeof(stored) + static_cast<std::size_t>(i)] = static_cast<std::byte>(static_cast<std::int8_t>(code));
    }
  };
  pool->run((view.out + kRowsPerPiece - 1) / kRowsPerPiece, [&](int piece, int) {
    const KeepDenormals exact;
    float values[kCoarseBlock];
    const int end = std::min(view.out, (piece + 1) * kRowsPerPiece);
    for (int row = piece * kRowsPerPiece; row < end; ++row) {
      std::byte* block = to + static_cast<std::size_t>(row) * row_bytes;
      for (int first = 0; first < view.in; first += kCoarseBlock, block += sizeof(f16) + kCoarseBlock) {
        view.read(row, first, kCoarseBlock, values);
        write_block(values, block);
      }
    }
  });
}

}  // namespace sluice
