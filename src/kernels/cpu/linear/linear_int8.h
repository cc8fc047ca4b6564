// Integer weights times int8 inputs (kernels/ops/linear.h, InputForm::kInt8), over the lines of
// kernels/cpu/linear/linear_layout.h: MXFP4 and integer codes.
//
// A weight is an unsigned byte, its integer and an offset (2 e2m1 + 12 for MXFP4), so that one dot instruction
// multiplies four of them by four codes. The accumulator starts at kQuantizedMagicBits less offset x sum of the inputs'
// codes, which takes the offsets off again and makes its bits the float 12582912 + acc. Few rows decode lines in
// registers; many rows decode a tile into a buffer in L2 first.
//
// An Isa has Vec, kTileGroups, and
//   kInt8DirectRows, kInt8BufferRows  rows at once of lines decoded in registers, and of a buffer
//   kInt8BufferFrom                   rows from which decoding once pays; 0: never
//   kInt8KeptSums                     floats' vectors, rows x groups, that fit in registers with as many integers';
//                                     more stay in L1
//   int8_groups(rows)                 groups of a tile whose integers are summed at once: the others' lines of a block
//                                     wait in L1
// and the struct Int8, whose scales are one of those below:
//   Bytes (64 bytes), load(line), low(codes), high(codes): the inputs 0 4 1 5 of each output and 2 6 3 7
//   load_bytes, store, broadcast(four codes), add_dot(acc, bytes, four)
// Used by kernels/cpu.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/linear/linear_formats.h"
#include "kernels/cpu/linear/linear_tile.h"
#include "kernels/weights/linear_inputs.h"

namespace sluice::cpu::SLUICE_ISA {

// The scales of a kind of weights, by parts of kPart inputs: 32, or 16, of which `half` is the part's number in a block
// of 32 inputs. It gives kFactors vectors of factors for 16 outputs, the start of a sum of products, and y after the
// sum. It may have are_usual(scales): true if load_usual_factors() may replace load_factors() for a whole tile.
template <class V>
struct Mxfp4Int8Scales {
  using I = typename V::Int;
  static constexpr int kPart = 32, kFactors = 2;
  static constexpr std::size_t kLineBytes = 64, kScaleBytes = 1;
  // The scale is a power of two. factors[0] holds integers that multiply kQuantizedMagic + sum by half of the scale
  // when they are added to its bits, and factors[1] is what kQuantizedMagic becomes. If half of the scale is 0, the
  // product is a denormal, which counts as zero, and factors[1] is zero. If it is too large, or NaN, the result is NaN.
  [[gnu::always_inline]] static void load_factors(const std::byte* scales, V (&factors)[kFactors]) {
    constexpr std::int32_t kExponent = 0x7F800000;
    factors[1] = ScaledE8m0<V>::load(scales) * V::broadcast(0.5F) * V::broadcast(kQuantizedMagic);
    factors[0] =
        as_float((as_bits(factors[1]) & I::broadcast(kExponent)) - I::broadcast(kQuantizedMagicBits & kExponent));
  }
  // Returns kQuantizedMagic + sum times the half of the scale, less the same multiple of kQuantizedMagic: exact.
  [[gnu::always_inline]] static V scaled(I acc, const V (&factors)[kFactors]) {
    return as_float(acc + as_bits(factors[0])) - factors[1];
  }
  [[gnu::always_inline]] static I start(const QuantizedBlock& x, int) { return I::broadcast(x.start); }
  [[gnu::always_inline]] static V finish(I acc, const V (&factors)[kFactors], const QuantizedBlock& x, int, V y) {
    return fma(scaled(acc, factors), V::broadcast(x.scale), y);
  }
};

// The scales of integer codes. Form: a CodesForm (kernels/cpu/linear/linear_codes.h); kOffset: a byte of add_dot() less
// its code.
template <class V, class Form, int kOffset>
struct CodesInt8Scales {
  using I = typename V::Int;
  static constexpr int kPart = Form::kPart, kFactors = Form::kMin ? 3 : 2;
  static constexpr std::size_t kLineBytes = Form::kLineBytes, kScaleBytes = Form::kScaleBytes;
  [[gnu::always_inline]] static void load_factors(const std::byte* scales, V (&factors)[kFactors]) {
    factors[0] = Form::Load::load(scales);
    factors[1] = factors[0] * V::broadcast(-kQuantizedMagic);
    if constexpr (Form::kMin) factors[2] = Form::Load::load(scales + Form::kMinAt);
  }
  [[gnu::always_inline]] static std::int32_t sum(const QuantizedBlock& x, int half) {
    if (kPart == kQuantizedInputs) return x.sum;
    return half == 0 ? x.sum - x.upper_sum : x.upper_sum;
  }
  [[gnu::always_inline]] static I start(const QuantizedBlock& x, int half) {
    return I::broadcast(kOffset == 0 ? kQuantizedMagicBits : kQuantizedMagicBits - kOffset * sum(x, half));
  }
  [[gnu::always_inline]] static V finish(I acc, const V (&factors)[kFactors], const QuantizedBlock& x, int half, V y) {
    V product = fma(as_float(acc), factors[0], factors[1]);
    if constexpr (Form::kMin) product = fma(to_float(I::broadcast(sum(x, half))), factors[2], product);
    return fma(product, V::broadcast(x.scale), y);
  }
};

template <class Isa>
class LinearInt8 {
  using V = typename Isa::Vec;
  using I = typename V::Int;
  using Int8 = typename Isa::Int8;
  using Bytes = typename Int8::Bytes;
  static constexpr int kBlockLines = Int8::kPart / 8, kInputParts = kQuantizedInputs / Int8::kPart;
  static constexpr int kFactors = Int8::kFactors;
  static constexpr std::size_t kLineBytes = Int8::kLineBytes, kBytes = 64;
  static constexpr std::size_t kGroupScales = kGroupOutputs * Int8::kScaleBytes;
  // The blocks that the buffer holds, which stays in L2.
  static constexpr int kBufferBlocks = 64;

 public:
  // With one row, begin and end may be at any group of a tile.
  static void run(const LinearJob& job, int rows, int begin, int end) {
    const LinearLayout layout(job.weight->view(), Isa::kTileGroups);
    const auto part = [&](int index, int group, int last) {
      some_groups(LinearTile(layout, job.weight->packed(), index), job, rows, group, last);
    };
    const auto whole = [&](int index, int last) { tiles(layout, job, rows, index, last); };
    OutputRange{Isa::kTileGroups, layout.out, begin, end}.walk(part, whole);
  }

 private:
  LinearInt8(const LinearTile& tile, const LinearJob& job, int rows, int group)
      : tile_(tile), job_(job), rows_(rows), group_(group) {}

  static void tiles(const LinearLayout& layout, const LinearJob& job, int rows, int index, int last) {
    constexpr int kTileOutputs = Isa::kTileGroups * kGroupOutputs;
    if constexpr (Isa::kStreams) {
      const int pairs = std::min(last, layout.out / kTileOutputs);
      for (; rows == 1 && index + 2 <= pairs; index += 2) {
        const LinearTile tile(layout, job.weight->packed(), index);
        LinearInt8(tile, job, 1, 0).template multiply<2 * Isa::kTileGroups, false, 1>(0, tile.blocks, 0);
      }
    }
    for (; index < last; ++index) {
      const LinearTile tile(layout, job.weight->packed(), index);
      if (tile.outputs < kTileOutputs) {
        some_groups(tile, job, rows, 0, tile.groups);
      } else if (Isa::kInt8BufferFrom == 0 || rows < Isa::kInt8BufferFrom) {
        LinearInt8(tile, job, rows, 0).template groups<Isa::kTileGroups, false>(0, tile.blocks);
      } else {
        LinearInt8(tile, job, rows, 0).buffered();
      }
    }
  }
  static void some_groups(const LinearTile& tile, const LinearJob& job, int rows, int group, int last) {
    if constexpr (Isa::kTileGroups > 2) {
      for (; rows == 1 && group + 2 <= last; group += 2) {
        LinearInt8(tile, job, 1, group).template multiply<2, false, 1>(0, tile.blocks, 0);
      }
    }
    for (; group < last; ++group) LinearInt8(tile, job, rows, group).template groups<1, false>(0, tile.blocks);
  }

  // If kGroups is more than a tile has, it means two whole tiles.
  template <int kGroups>
  static constexpr int kTile = std::min(kGroups, Isa::kTileGroups);
  // Returns the offset of group g's `size` bytes from the first tile's; groups past a tile are in the next tile.
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
      // After the last block, prefetching goes on with the next tile.
      next_ = {lines(last), std::min<std::size_t>(kBufferBlocks, static_cast<std::size_t>(tile_.blocks)) *
                                (tile_.block_bytes + tile_.scale_bytes)};
      groups<Isa::kTileGroups, true>(first, last);
    }
  }

  // buffer_: [block] { [line][low, high][group], [group][factor] }.
  void decode(int first, int last) {
    const Int8 int8;
    std::byte* to = buffer_;
    for (int block = first; block < last; ++block) {
      const std::byte* line = lines(block);
      const int count = lines_of(block);
      for (int l = 0; l < count; ++l) {
        for (int g = 0; g < Isa::kTileGroups; ++g, line += kLineBytes) {
          const auto codes = Int8::load(line);
          Int8::store(int8.low(codes), to + static_cast<std::size_t>(g) * kBytes);
          Int8::store(int8.high(codes), to + static_cast<std::size_t>(Isa::kTileGroups + g) * kBytes);
        }
        to += 2 * Isa::kTileGroups * kBytes;
      }
      for (int g = 0; g < Isa::kTileGroups; ++g) {
        V factors[kFactors];
        Int8::load_factors(tile_.scales(block) + static_cast<std::size_t>(g) * kGroupScales, factors);
        for (const V& factor : factors) {
          factor.store(reinterpret_cast<float*>(to));
          to += kBytes;
        }
      }
    }
  }

  // Multiplies all rows, in parts as even as they come.
  template <int kGroups, bool kDecoded>
  void groups(int first, int last) {
    constexpr int kRows = kDecoded ? Isa::kInt8BufferRows : Isa::kInt8DirectRows;
    const int parts = (rows_ + kRows - 1) / kRows;
    for (int part = 0, row = 0; part < parts; ++part) {
      const int count = (rows_ - row + parts - part - 1) / (parts - part);
      if constexpr (kDecoded) next_.prefetch(part, parts);
      with_rows<kGroups, kDecoded, kRows>(first, last, row, count);
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
    constexpr int kAtOnce = std::min(kGroups, Isa::int8_groups(kRows));
    using Sums = std::conditional_t<kRows * kGroups <= Isa::kInt8KeptSums, SumsInRegisters<kRows, kGroups>,
                                    SumsInMemory<kRows, kGroups>>;
    Sums y;
    for (int r = 0; r < kRows; ++r) {
      x[r] = reinterpret_cast<const QuantizedBlock*>(job_.x_row(row + r));
      for (int g = 0; g < kGroups; ++g) {
        y.set(r, g, first == 0 ? V::zero() : load_outputs<V>(outputs(row + r, g), outputs_left(g)));
      }
    }
    const std::byte* buffer = buffer_;
    for (int block = first; block < last; ++block) {
      unroll<kGroups / kAtOnce>([&]<int I>() __attribute__((always_inline)) {
        add_block<kGroups, kAtOnce, kDecoded>(int8, block, I * kAtOnce, buffer, x, y);
      });
      if constexpr (kDecoded) {
        buffer += static_cast<std::size_t>(lines_of(block)) * 2 * kGroups * kBytes + kFactors * kGroups * kBytes;
      }
    }
    for (int r = 0; r < kRows; ++r) {
      for (int g = 0; g < kGroups; ++g) store_outputs(outputs(row + r, g), y.get(r, g), outputs_left(g));
    }
  }

  template <int kRows, int kGroups>
  struct SumsInRegisters {
    [[gnu::always_inline]] V get(int r, int g) const { return v[r][g]; }
    [[gnu::always_inline]] void set(int r, int g, V y) { v[r][g] = y; }
    V v[kRows][kGroups];
  };
  template <int kRows, int kGroups>
  struct SumsInMemory {
    [[gnu::always_inline]] V get(int r, int g) const { return V::load(v[r][g]); }
    [[gnu::always_inline]] void set(int r, int g, V y) { y.store(v[r][g]); }
    alignas(64) float v[kRows][kGroups][kGroupOutputs];
  };

  template <int kGroups>
  struct Factors {
    [[gnu::always_inline]] static Factors load(const std::byte* from) {
      const auto* floats = reinterpret_cast<const float*>(from);
      Factors factors;
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) {
#pragma GCC unroll 4
        for (int i = 0; i < kFactors; ++i) factors.v[g][i] = V::load(floats + (g * kFactors + i) * kGroupOutputs);
      }
      return factors;
    }
    V v[kGroups][kFactors];
  };

  // Multiplies groups [from, from + kAtOnce) of the kGroups groups of y.
  template <int kGroups, int kAtOnce, bool kDecoded, int kRows, class Sums>
  [[gnu::always_inline]] void add_block(const Int8& int8, int block, int from, const std::byte* buffer,
                                        const QuantizedBlock* const (&rows)[kRows], Sums& y) const {
    const QuantizedBlock* x[kRows];
    I acc[kRows][kAtOnce];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      x[r] = rows[r] + block / kInputParts;
#pragma GCC unroll 4
      for (int g = 0; g < kAtOnce; ++g) acc[r][g] = Int8::start(*x[r], block % kInputParts);
    }
    const std::byte* line = lines(block);
    const std::size_t stride = static_cast<std::size_t>(tile_.groups) * kLineBytes;
    const int count = lines_of(block);
    for (int l = 0; l < count; ++l, line += stride, buffer += 2 * kGroups * kBytes) {
      Bytes low[kAtOnce], high[kAtOnce];
#pragma GCC unroll 4
      for (int g = 0; g < kAtOnce; ++g) {
        if constexpr (kDecoded) {
          low[g] = Int8::load_bytes(buffer + static_cast<std::size_t>(from + g) * kBytes);
          high[g] = Int8::load_bytes(buffer + static_cast<std::size_t>(kGroups + from + g) * kBytes);
        } else {
          const std::byte* at_line = line + at<kGroups>(from + g, kLineBytes);
          if constexpr (Isa::kStreams) prefetch_lines<Isa::kTileGroups / kTile<kGroups>>(at_line);
          const auto codes = Int8::load(at_line);
          low[g] = int8.low(codes);
          high[g] = int8.high(codes);
        }
      }
      const int codes = block % kInputParts * Int8::kPart + 8 * l;
      add_products(low, codes, x, acc);
      add_products(high, codes + 4, x, acc);
    }
    Factors<kAtOnce> factors;
    if constexpr (kDecoded) {
      factors = Factors<kAtOnce>::load(buffer + static_cast<std::size_t>(from) * kFactors * kBytes);
    } else {
      load_factors<kGroups>(tile_.scales(block) + static_cast<std::size_t>(group_) * kGroupScales, from, factors);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int g = 0; g < kAtOnce; ++g) {
        y.set(r, from + g, Int8::finish(acc[r][g], factors.v[g], *x[r], block % kInputParts, y.get(r, from + g)));
      }
    }
  }

  // Loads the factors of kAtOnce groups from `from` on. For a whole tile whose scales are all usual it uses the faster
  // load_usual_factors().
  template <int kGroups, int kAtOnce>
  [[gnu::always_inline]] void load_factors(const std::byte* scales, int from, Factors<kAtOnce>& factors) const {
    if constexpr (Isa::kStreams) prefetch_lines(scales);
    const auto load = [&](const auto& of_group) __attribute__((always_inline)) {
#pragma GCC unroll 8
      for (int g = 0; g < kAtOnce; ++g) of_group(scales + at<kGroups>(from + g, kGroupScales), factors.v[g]);
    };
    if constexpr (kAtOnce % Isa::kTileGroups == 0 && requires { Int8::are_usual(scales); }) {
      static_assert(kAtOnce <= 2 * Isa::kTileGroups);
      bool usual = Int8::are_usual(scales + at<kGroups>(from, kGroupScales));
      if constexpr (kAtOnce > Isa::kTileGroups) {
        usual = usual && Int8::are_usual(scales + at<kGroups>(from + Isa::kTileGroups, kGroupScales));
      }
      if (usual) [[likely]] {
        return load([](const std::byte* at, V(&of)[kFactors])
                        __attribute__((always_inline)) { Int8::load_usual_factors(at, of); });
      }
    }
    load([](const std::byte* at, V(&of)[kFactors]) __attribute__((always_inline)) { Int8::load_factors(at, of); });
  }

  // Broadcasts four codes of each row, from `at` on.
  template <int kRows, int kAtOnce>
  [[gnu::always_inline]] static void add_products(const Bytes (&weights)[kAtOnce], int at,
                                                  const QuantizedBlock* const (&x)[kRows], I (&acc)[kRows][kAtOnce]) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const std::int8_t* codes = x[r]->codes + at;
      // Sixteen or more sums fill the registers. Without this empty asm the compiler loads the codes of both halves
      // first and spills the sums.
      if constexpr (kRows > 2) asm("" : "+r"(codes));
      const auto four = Int8::broadcast(codes);
#pragma GCC unroll 4
      for (int g = 0; g < kAtOnce; ++g) acc[r][g] = Int8::add_dot(acc[r][g], weights[g], four);
    }
  }

  float* outputs(int row, int group) const {
    return job_.y + row * job_.ldy + tile_.first_output + (group_ + group) * kGroupOutputs;
  }
  int outputs_left(int group) const {
    // Groups past the tile are the second tile, which is whole.
    const int groups = group < Isa::kTileGroups ? group : 0;
    return tile_.outputs - (group_ + groups) * kGroupOutputs;
  }

  const LinearTile& tile_;
  const LinearJob& job_;
  int rows_, group_;  // rows of the job; the first group
  NextWeights next_;
  alignas(64) std::byte buffer_[kBufferBlocks * (kBlockLines * 2 + kFactors) * Isa::kTileGroups * kBytes];
};

}  // namespace sluice::cpu::SLUICE_ISA
