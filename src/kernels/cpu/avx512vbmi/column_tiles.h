// Keys, queries and weights of attention as AMX tiles, and their products (kernels/cpu/attention/attend_columns.h).
//
// Scores are tiles of 16 keys x 16 columns: keys as they lie, queries turned, with pairs of dims of a column in each
// dword. Values are tiles of 16 columns x 16 dims: the weights of a column in one line, and two keys' values in each
// dword. Unpacking two keys' lines gives such dwords: of 32 dims the first tile has those whose bit 2 is clear.
// Used by kernels/cpu/attention/attend_tiles.isa.cc.
#pragma once

#include <cstring>

#include "kernels/cpu/attention/attend_columns.h"
#include "kernels/cpu/avx512vbmi/amx_tiles.h"
#include "kernels/cpu/avx512vbmi/fp8_cells.h"
#include "kernels/cpu/avx512vbmi/tile_transpose.h"
#include "kernels/cpu/avx512vbmi/tile_weights.h"

namespace sluice::cpu::SLUICE_ISA {

class ColumnTiles {
 public:
  static std::size_t bytes(const ColumnShape& shape, int slots, int shared) {
    const auto keys = static_cast<std::size_t>(slots);
    return 2 * query_bytes(shape) + keys * row_bytes(shape) + keys * value_slices(shape) * kTileLine +
           2 * keys * kTileLine / 2 + 4 * kTileBytes + static_cast<std::size_t>(shared) * row_bytes(shape) +
           scratch_floats(shape) * sizeof(float);
  }
  ColumnTiles(const ColumnShape& shape, int slots, std::byte* memory) : shape_(shape), slices_(shape.slices()) {
    const auto keys = static_cast<std::size_t>(slots);
    const auto take = [&](std::size_t size) {
      std::byte* at = memory;
      memory += size;
      return at;
    };
    for (std::byte*& queries : queries_) queries = take(query_bytes(shape));
    keys_ = take(keys * row_bytes(shape));
    values_ = take(keys * value_slices(shape) * kTileLine);
    for (std::byte*& weights : weights_) weights = take(keys * kTileLine / 2);
    sums_ = reinterpret_cast<float*>(take(4 * kTileBytes));
    row_ = reinterpret_cast<float*>(take(scratch_floats(shape) * sizeof(float)));
    shared_ = memory;
  }

  void begin() { unusual_ = 0; }
  bool finite() const { return unusual_ == 0; }
  void decode(int slot, const RowFormat& format, RowRef row) { decode_to(line(slot), kTileBytes, format, row); }
  void zero(int slot) {
    std::byte* to = line(slot);
    for (int s = 0; s < slices_; ++s) _mm512_store_si512(to + at(s, kTileBytes), _mm512_setzero_si512());
  }
  void share(int entry, const RowFormat& format, RowRef row) { decode_to(shared(entry), kTileLine, format, row); }
  void take(int slot, int entry) {
    const std::byte* from = shared(entry);
    std::byte* to = line(slot);
    for (int s = 0; s < slices_; ++s) {
      _mm512_store_si512(to + at(s, kTileBytes), _mm512_load_si512(from + at(s, kTileLine)));
    }
  }
  // Makes the tiles of values from the keys' lines.
  void finish(int slots) {
    const int slices = static_cast<int>(value_slices(shape_));
    for (int slot = 0; slot < slots; slot += 2) {
      std::byte* to = value_tiles(slot) + static_cast<std::size_t>(slot % kSliceInputs / 2) * kTileLine;
      for (int s = 0; s < slices; ++s, to += 2 * kTileBytes) {
        const __m512i even = value_line(slot, s), odd = value_line(slot + 1, s);
        _mm512_store_si512(to, _mm512_unpacklo_epi16(even, odd));
        _mm512_store_si512(to + kTileBytes, _mm512_unpackhi_epi16(even, odd));
      }
    }
  }

  // Takes one query; with the last column of a block it transposes the block's queries.
  void queries(int b, int column, const float* q) {
    q_[column] = q;
    if (column < kTileRows - 1) return;
    for (int d = 0, s = 0; d < shape_.dims; d += kSliceInputs, ++s) {
      __m512i lines[kTileRows];
      for (int j = 0; j < kTileRows; ++j) {
        lines[j] = q_[j] != nullptr ? rounded_line(q_[j] + d, shape_.dims - d) : _mm512_setzero_si512();
      }
      store_turned(lines, queries_[b] + at(s, kTileBytes));
    }
  }

  void scores(int blocks, int first, int last, float* const (&s)[2]) const {
    for (int slot = first; slot < last; slot += 2 * kTileRows) {
      blocks == 2 ? score<2>(slot, s) : score<1>(slot, s);
    }
  }

  template <class Use>
  void values(int blocks, int first, int last, float* const (&s)[2], const Use& use) {
    for (int b = 0; b < blocks; ++b) pack_weights(b, first, last, s[b]);
    blocks == 2 ? weigh<2>(first, last, use) : weigh<1>(first, last, use);
  }

 private:
  static std::size_t row_bytes(const ColumnShape& shape) {
    return static_cast<std::size_t>(shape.slices()) * kTileLine;
  }
  static std::size_t value_slices(const ColumnShape& shape) {
    return static_cast<std::size_t>(slices_of(shape.value_dims));
  }
  static std::size_t query_bytes(const ColumnShape& shape) {
    return static_cast<std::size_t>(slices_of(shape.dims)) * kTileBytes;
  }
  static std::size_t scratch_floats(const ColumnShape& shape) {
    return static_cast<std::size_t>(shape.slices() * kSliceInputs + kSliceInputs);
  }
  static std::size_t at(int index, std::size_t size) { return static_cast<std::size_t>(index) * size; }

  // Returns the line of a key: keys are [block of 16 slots][slice][slot].
  std::byte* line(int slot) const {
    return keys_ + at(slot / kTileRows * slices_, kTileBytes) + at(slot % kTileRows, kTileLine);
  }
  std::byte* shared(int entry) const { return shared_ + at(entry * slices_, kTileLine); }
  // Returns the tiles of values, which are [32 slots][32 dims][2].
  std::byte* value_tiles(int slot) const {
    return values_ + at(slot / kSliceInputs, 2 * kTileBytes) * value_slices(shape_);
  }
  // Loads the values of slice s of a slot.
  __m512i value_line(int slot, int s) const {
    const int d = shape_.value_offset + s * kSliceInputs, slice = d / kSliceInputs;
    const std::byte* from = line(slot) + at(slice, kTileBytes);
    if (d % kSliceInputs == 0) return _mm512_load_si512(from);
    const __m256i low = _mm256_load_si256(reinterpret_cast<const __m256i*>(from + kTileLine / 2));
    if (slice + 1 == slices_) return _mm512_zextsi256_si512(low);
    const __m256i high = _mm256_load_si256(reinterpret_cast<const __m256i*>(from + kTileBytes));
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
  }

  void decode_to(std::byte* to, std::size_t step, const RowFormat& format, RowRef row) {
    const auto put = [&](int slice, __m512i values) __attribute__((always_inline)) {
      constexpr int kExponent = 0x7F807F80;
      const __m512i exponents = _mm512_and_si512(values, _mm512_set1_epi32(kExponent));
      unusual_ |= _mm512_cmpeq_epi16_mask(exponents, _mm512_set1_epi32(kExponent));
      _mm512_store_si512(to + at(slice, step), values);
    };
    if (decode_row_lines<kFp8InOrder>(format, row, put, put)) return;
    const float* values = key_values<F32x16>(format, row, row_);
    if (values != row_) std::memcpy(row_, values, static_cast<std::size_t>(padded_dims(format.dims)) * sizeof(float));
    for (int d = padded_dims(format.dims); d < slices_ * kSliceInputs; d += 16) F32x16::zero().store(row_ + d);
    for (int s = 0; s < slices_; ++s) put(s, rounded_line(row_ + s * kSliceInputs, kSliceInputs));
  }

  // Rounds 32 values to bf16; those from `count` on are 0.
  static __m512i rounded_line(const float* x, int count) {
    const auto codes = [&](int first) __attribute__((always_inline)) {
      const int left = count - first;
      return left > 0 ? bf16_codes(load_up_to_16<F32x16>(x + first, left)) : I32x16::broadcast(0);
    };
    const __m256i low = _mm512_cvtepi32_epi16(codes(0).v), high = _mm512_cvtepi32_epi16(codes(16).v);
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
  }
  static void store_turned(__m512i (&lines)[kTileRows], std::byte* to) {
    transpose_lines(lines);
#pragma GCC unroll 16
    for (int i = 0; i < kTileRows; ++i) _mm512_store_si512(to + at(i, kTileLine), lines[i]);
  }

  // Computes the scores of 32 keys from `slot` on and kBlocks blocks: tiles 0 to 3 are sums, [keys][block].
  template <int kBlocks>
  void score(int slot, float* const (&s)[2]) const {
    tile_zero<0>();
    tile_zero<2>();
    if constexpr (kBlocks == 2) {
      tile_zero<1>();
      tile_zero<3>();
    }
    const std::byte* low = line(slot);
    const std::byte* high = line(slot + kTileRows);
    for (int d = 0, slice = 0; d < shape_.dims; d += kSliceInputs, ++slice) {
      tile_load<4>(low + at(slice, kTileBytes));
      tile_load<5>(high + at(slice, kTileBytes));
      tile_load<6>(queries_[0] + at(slice, kTileBytes));
      tile_multiply<0, 4, 6>();
      tile_multiply<2, 5, 6>();
      if constexpr (kBlocks == 2) {
        tile_load<7>(queries_[1] + at(slice, kTileBytes));
        tile_multiply<1, 4, 7>();
        tile_multiply<3, 5, 7>();
      }
    }
    tile_store<0>(s[0] + 16 * slot);
    tile_store<2>(s[0] + 16 * (slot + kTileRows));
    if constexpr (kBlocks == 2) {
      tile_store<1>(s[1] + 16 * slot);
      tile_store<3>(s[1] + 16 * (slot + kTileRows));
    }
  }

  // Packs weights, 32 slots a tile, with a line for each column.
  void pack_weights(int b, int first, int last, const float* s) {
    for (int slot = first; slot < last; slot += kSliceInputs) {
      __m512i lines[kTileRows];
      for (int p = 0; p < kTileRows; ++p) {
        const float* pair = s + 16 * (slot + 2 * p);
        lines[p] = pairs_of(F32x16::load(pair), F32x16::load(pair + 16));
      }
      store_turned(lines, weights_[b] + at(slot / kSliceInputs, kTileBytes));
    }
  }

  // Computes 32 dims of values at a time: tiles 0 to 3 are sums, [block][half of the dims].
  template <int kBlocks, class Use>
  void weigh(int first, int last, const Use& use) {
    const std::size_t step = 2 * kTileBytes * value_slices(shape_);
    for (int d = 0; d < shape_.value_dims; d += kSliceInputs) {
      tile_zero<0>();
      tile_zero<1>();
      if constexpr (kBlocks == 2) {
        tile_zero<2>();
        tile_zero<3>();
      }
      const std::byte* values = value_tiles(first) + at(d / kSliceInputs, 2 * kTileBytes);
      for (int slot = first; slot < last; slot += kSliceInputs, values += step) {
        const std::size_t weights = at(slot / kSliceInputs, kTileBytes);
        tile_load<4>(weights_[0] + weights);
        tile_load<6>(values);
        tile_load<7>(values + kTileBytes);
        tile_multiply<0, 4, 6>();
        tile_multiply<1, 4, 7>();
        if constexpr (kBlocks == 2) {
          tile_load<5>(weights_[1] + weights);
          tile_multiply<2, 5, 6>();
          tile_multiply<3, 5, 7>();
        }
      }
      tile_store<0>(sums_);
      tile_store<1>(sums_ + 256);
      if constexpr (kBlocks == 2) {
        tile_store<2>(sums_ + 512);
        tile_store<3>(sums_ + 768);
      }
      for (int b = 0; b < kBlocks; ++b) use_sums(b, d, use);
    }
  }
  template <class Use>
  SLUICE_VEC void use_sums(int b, int d, const Use& use) const {
    const __m512i first = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
    const int left = shape_.value_dims - d;
    const float* from = sums_ + 512 * b;
    for (int j = 0; j < kTileRows; ++j, from += 16) {
      const __m512 clear = _mm512_load_ps(from), set = _mm512_load_ps(from + 256);
      use(b, j, d, left, F32x16{_mm512_permutex2var_ps(clear, first, set)});
      if (left > 16) use(b, j, d + 16, left - 16, F32x16{_mm512_permutex2var_ps(clear, second, set)});
    }
  }

  const ColumnShape shape_;
  const int slices_;
  const TileSession session_;
  __mmask32 unusual_ = 0;  // words that are not finite in the lines since begin(); 0: all are finite
  const float* q_[kTileRows] = {};
  std::byte *queries_[2] = {}, *weights_[2] = {};  // the tiles of each block: by slice, and by 32 slots
  std::byte *keys_ = nullptr, *values_ = nullptr, *shared_ = nullptr;
  float *sums_ = nullptr, *row_ = nullptr;
};

}  // namespace sluice::cpu::SLUICE_ISA
