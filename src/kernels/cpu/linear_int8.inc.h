// MXFP4 weights times int8 inputs (kernels/linear.h, InputForm::kInt8), over the lines of cpu/linear_layout.h.
//
// A weight is 2 e2m1 + 12, an unsigned byte, so that four of them meet four codes in one dot instruction; the
// accumulator starts at QuantizedBlock::start, which takes the 12s off again and makes its bits the float
// 12582912 + acc. Few rows decode lines in registers; many rows decode a tile into a buffer in L2 first.
//
// An Isa has Vec, kTileGroups, kInt8Rows (rows at once), kInt8BufferFrom (rows from which decoding once pays) and the
// struct Int8 with the type Bytes (64 bytes), low(line) and high(line), which
// decode a line's low nibbles (inputs 0 4 1 5 of each output) and high ones (2 6 3 7), load, store, broadcast(four
// codes), and add_dot(acc, bytes, four).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/linear_formats.inc.h"
#include "kernels/cpu/linear_tile.inc.h"
#include "kernels/linear_inputs.h"

namespace sluice::cpu {

template <class Isa>
class LinearInt8 {
  using V = typename Isa::Vec;
  using I = typename V::Int;
  using Int8 = typename Isa::Int8;
  using Bytes = typename Int8::Bytes;
  static constexpr int kBlockLines = 4;
  static constexpr std::size_t kLineBytes = 64;
  // Decoded at once: two buffers' worth of bytes a line, kept in L2.
  static constexpr int kBufferBlocks = 64;

 public:
  static void run(const LinearJob& job, int rows, int begin, int end) {
    const LinearLayout layout(job.weight->view(), Isa::kTileGroups);
    constexpr int kTileOutputs = Isa::kTileGroups * kGroupOutputs;
    int index = begin / kTileOutputs;
    if constexpr (Isa::kStreams) {
      const int whole = std::min(end, layout.out) / kTileOutputs;
      for (; rows == 1 && index + 2 <= whole; index += 2) {
        const LinearTile tile(layout, job.weight->packed(), index);
        LinearInt8(tile, job, 1, 0).template multiply<2 * Isa::kTileGroups, false, 1>(0, tile.blocks, 0);
      }
    }
    for (; index * kTileOutputs < end; ++index) {
      const LinearTile tile(layout, job.weight->packed(), index);
      const bool whole = tile.groups == Isa::kTileGroups && tile.outputs == kTileOutputs;
      if (!whole) {
        for (int g = 0; g < tile.groups; ++g) LinearInt8(tile, job, rows, g).template groups<1, false>(0, tile.blocks);
      } else if (rows < Isa::kInt8BufferFrom) {
        LinearInt8(tile, job, rows, 0).template groups<Isa::kTileGroups, false>(0, tile.blocks);
      } else {
        LinearInt8(tile, job, rows, 0).buffered();
      }
    }
  }

 private:
  LinearInt8(const LinearTile& tile, const LinearJob& job, int rows, int group)
      : tile_(tile), job_(job), rows_(rows), group_(group) {}

  // More groups than a tile has are two whole tiles.
  template <int kGroups>
  static constexpr int kTile = std::min(kGroups, Isa::kTileGroups);
  // Where group g's `size` bytes lie among those of its tile, from the first tile's on.
  template <int kGroups>
  [[gnu::always_inline]] std::size_t at(int g, std::size_t size) const {
    return static_cast<std::size_t>(g / kTile<kGroups>) * tile_.tile_bytes +
           static_cast<std::size_t>(g % kTile<kGroups>) * size;
  }

  int lines_of(int block) const { return (std::min(tile_.block, tile_.in - block * tile_.block) + 7) / 8; }
  const std::byte* lines(int block) const { return tile_.lines(block) + static_cast<std::size_t>(group_) * kLineBytes; }

  void buffered() {
    for (int first = 0; first < tile_.blocks; first += kBufferBlocks) {
      const int last = std::min(tile_.blocks, first + kBufferBlocks);
      decode(first, last);
      next_ = {lines(last), std::min<std::size_t>(kBufferBlocks, static_cast<std::size_t>(tile_.blocks)) *
                                (tile_.block_bytes + tile_.scale_bytes)};  // the next tile's follow the last block
      groups<Isa::kTileGroups, true>(first, last);
    }
  }

  // buffer_: [block] { [line][low, high][group], [group] half a scale, [group] its offset }.
  void decode(int first, int last) {
    const Int8 int8;
    std::byte* to = buffer_;
    for (int block = first; block < last; ++block) {
      const std::byte* line = lines(block);
      const int count = lines_of(block);
      for (int l = 0; l < count; ++l) {
        for (int g = 0; g < Isa::kTileGroups; ++g, line += kLineBytes) {
          const auto codes = Int8::load(line);
          Int8::store(int8.low(codes), to + static_cast<std::size_t>(g) * kLineBytes);
          Int8::store(int8.high(codes), to + static_cast<std::size_t>(Isa::kTileGroups + g) * kLineBytes);
        }
        to += 2 * Isa::kTileGroups * kLineBytes;
      }
      const Factors<Isa::kTileGroups> factors(tile_.scales(block), 0);
      for (int g = 0; g < Isa::kTileGroups; ++g, to += kLineBytes) factors.half[g].store(reinterpret_cast<float*>(to));
      for (int g = 0; g < Isa::kTileGroups; ++g, to += kLineBytes)
        factors.offset[g].store(reinterpret_cast<float*>(to));
    }
  }

  // All rows, in parts as even as they come.
  template <int kGroups, bool kDecoded>
  void groups(int first, int last) {
    const int parts = (rows_ + Isa::kInt8Rows - 1) / Isa::kInt8Rows;
    for (int part = 0, row = 0; part < parts; ++part) {
      const int count = (rows_ - row + parts - part - 1) / (parts - part);
      if constexpr (kDecoded) next_.prefetch(part, parts);
      with_rows<kGroups, kDecoded, Isa::kInt8Rows>(first, last, row, count);
      row += count;
    }
  }

  template <int kGroups, bool kDecoded, int kRows>
  void with_rows(int first, int last, int row, int count) {
    if constexpr (kRows > 1) {
      if (count < kRows) return with_rows<kGroups, kDecoded, kRows - 1>(first, last, row, count);
    }
    multiply<kGroups, kDecoded, kRows>(first, last, row);
  }

  template <int kGroups, bool kDecoded, int kRows>
  [[gnu::noinline]] void multiply(int first, int last, int row) {
    const Int8 int8;
    const QuantizedBlock* x[kRows];
    V y[kRows][kGroups];
    for (int r = 0; r < kRows; ++r) {
      x[r] = reinterpret_cast<const QuantizedBlock*>(job_.x_row(row + r));
      for (int g = 0; g < kGroups; ++g) {
        y[r][g] = first == 0 ? V::zero() : load_outputs<V>(outputs(row + r, g), outputs_left(g));
      }
    }
    const std::byte* buffer = buffer_;
    const std::size_t stride = static_cast<std::size_t>(tile_.groups) * kLineBytes;
    for (int block = first; block < last; ++block) {
      I acc[kRows][kGroups];
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
        for (int g = 0; g < kGroups; ++g) acc[r][g] = I::broadcast(x[r][block].start);
      }
      const std::byte* line = lines(block);
      const int count = lines_of(block);
      for (int l = 0; l < count; ++l) {
        Bytes low[kGroups], high[kGroups];
#pragma GCC unroll 4
        for (int g = 0; g < kGroups; ++g) {
          if constexpr (kDecoded) {
            low[g] = Int8::load(buffer + static_cast<std::size_t>(g) * kLineBytes);
            high[g] = Int8::load(buffer + static_cast<std::size_t>(kGroups + g) * kLineBytes);
          } else {
            const std::byte* from = line + at<kGroups>(g, kLineBytes);
            if constexpr (Isa::kStreams && kRows == 1) prefetch_lines(from);
            const auto codes = Int8::load(from);
            low[g] = int8.low(codes);
            high[g] = int8.high(codes);
          }
        }
        const auto add = [&](const Bytes(&weights)[kGroups], int at) __attribute__((always_inline)) {
#pragma GCC unroll 8
          for (int r = 0; r < kRows; ++r) {
            const std::int8_t* codes = x[r][block].codes + at;
            // Sixteen sums and more fill the registers: without this the compiler gathers the codes of both halves
            // first and spills the sums.
            if constexpr (kRows > 2) asm("" : "+r"(codes));
            const auto four = Int8::broadcast(codes);
#pragma GCC unroll 4
            for (int g = 0; g < kGroups; ++g) acc[r][g] = Int8::add_dot(acc[r][g], weights[g], four);
          }
        };
        add(low, 8 * l);
        add(high, 8 * l + 4);
        if constexpr (kDecoded) {
          buffer += 2 * kGroups * kLineBytes;
        } else {
          line += stride;
        }
      }
      if constexpr (kDecoded) {
        add_block(Factors<kGroups>::load(buffer), block, acc, x, y);
        buffer += 2 * kGroups * kLineBytes;
      } else {
        const std::byte* scales = tile_.scales(block) + group_ * kGroupOutputs;
        if constexpr (Isa::kStreams && kRows == 1) prefetch_lines(scales);
        add_block(Factors<kGroups>(scales, tile_.tile_bytes), block, acc, x, y);
      }
    }
    for (int r = 0; r < kRows; ++r) {
      for (int g = 0; g < kGroups; ++g) store_outputs(outputs(row + r, g), y[r][g], outputs_left(g));
    }
  }

  // Half the scales of a block, and what takes the accumulator's 12582912 off again.
  template <int kGroups>
  struct Factors {
    Factors() = default;
    [[gnu::always_inline]] Factors(const std::byte* scales, std::size_t tile_bytes) {
#pragma GCC unroll 8
      for (int g = 0; g < kGroups; ++g) {
        const std::byte* from = scales + static_cast<std::size_t>(g / kTile<kGroups>) * tile_bytes;
        half[g] = ScaledE8m0<V>::load(from + g % kTile<kGroups> * kGroupOutputs) * V::broadcast(0.5F);
        offset[g] = half[g] * V::broadcast(-kQuantizedMagic);
      }
    }
    [[gnu::always_inline]] static Factors load(const std::byte* from) {
      const auto* floats = reinterpret_cast<const float*>(from);
      Factors factors;
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) {
        factors.half[g] = V::load(floats + g * kGroupOutputs);
        factors.offset[g] = V::load(floats + (kGroups + g) * kGroupOutputs);
      }
      return factors;
    }
    V half[kGroups], offset[kGroups];
  };

  template <int kGroups, int kRows>
  [[gnu::always_inline]] static void add_block(const Factors<kGroups>& factors, int block,
                                               const I (&acc)[kRows][kGroups], const QuantizedBlock* const* x,
                                               V (&y)[kRows][kGroups]) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const V scale = V::broadcast(x[r][block].scale);
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) {
        y[r][g] = fma(fma(as_float(acc[r][g]), factors.half[g], factors.offset[g]), scale, y[r][g]);
      }
    }
  }

  float* outputs(int row, int group) const {
    return job_.y + row * job_.ldy + tile_.first_output + (group_ + group) * kGroupOutputs;
  }
  int outputs_left(int group) const {
    const int groups = group < Isa::kTileGroups ? group : 0;  // that of a second tile is whole
    return tile_.outputs - (group_ + groups) * kGroupOutputs;
  }

  const LinearTile& tile_;
  const LinearJob& job_;
  int rows_, group_;  // the first group
  NextWeights next_;
  alignas(64) std::byte buffer_[kBufferBlocks * (kBlockLines + 1) * 2 * Isa::kTileGroups * kLineBytes];
};

}  // namespace sluice::cpu
