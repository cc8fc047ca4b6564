// The indexer's dot products with FP4 keys, by integers: a key's value is 2 e2m1 + 12, an unsigned byte, a query's
// 2 e2m1, a signed one. A sum begins at the bits of 12582912.0f less 12 times the sum of the query's bytes, which takes
// the 12s off again and makes its bits those of the float 12582912 + I (kernels/ops/indexer.h). The scales come in one
// of two ways, the same bits:
//   by fma        fma(fma(12582912 + I, k, -12582912 k), s / 4, y)
//   by exponents  a sum begins with the exponents of k and s / 4 added to its bits, so that it ends as the float
//                 (12582912 + I) k s / 4; less 12582912 k s / 4 it is added to y. Four instructions instead of two,
//                 none of which needs the multipliers, on which AMD processors run the dot products, too.
//
// A tile of 64 keys: lines of 64 bytes, [group of 16 keys][block][dword of the row][its even dims, its odd dims], with
// four dims for each key. The scales follow, by block: [k, -12582912 k][64 keys], or the exponent of k in its place.
//
// An Isa has Vec, kByExponents, kFp4Groups, kFp4Heads, transpose (see below), and Bytes with e2m1_low and e2m1_high,
// which decode the low and the high nibbles of sixteen dwords. Its Dot has sums of four products each in sixteen lanes.
// Used by index.isa.cc and kernels/cpu/avx512_vnni/index_fp4.cc.
#pragma once

#include "kernels/cpu/attention/index_scorer.h"
#include "kernels/cpu/cpu_rows.h"
#include "kernels/cpu/linear/tiles.h"

namespace sluice::cpu::SLUICE_ISA {

// 32 dims of a query, with their scale s.
struct IndexQueryBlock {
  std::int32_t start;  // the start of a sum; with kByExponents the exponent of s / 4 is added
  std::int32_t scale;  // the bits of s / 4; with kByExponents of 12582912 s / 4
  // Eight dims after the other, each eight as 0 2 4 6 1 3 5 7: the order of the nibbles of a dword.
  std::int8_t codes[32];
};

template <class Isa>
class IndexFp4 {
  using V = typename Isa::Vec;
  using I = typename V::Int;
  static constexpr int kBlockDims = 32, kLine = 64, kBlockLines = 8;

 public:
  static constexpr int kKeys = 64, kGroups = Isa::kFp4Groups, kHeads = Isa::kFp4Heads;

  IndexFp4(const IndexSelectArgs& args, int begin, int end)
      : heads_(args.heads), blocks_(args.dims / kBlockDims), begin_(begin) {
    const std::size_t keys = static_cast<std::size_t>(kKeys * args.dims) / sizeof(float);
    const std::size_t scales = static_cast<std::size_t>(2 * kKeys * blocks_);
    const std::size_t queries = static_cast<std::size_t>((end - begin) * heads_ * blocks_);
    float* scratch = thread_scratch(keys + scales + queries * sizeof(IndexQueryBlock) / sizeof(float));
    keys_ = reinterpret_cast<std::byte*>(scratch);
    scales_ = scratch + keys;
    queries_ = reinterpret_cast<IndexQueryBlock*>(scales_ + scales);
    const float* q = args.q + static_cast<std::ptrdiff_t>(begin) * heads_ * args.dims;
    for (std::size_t i = 0; i < queries; ++i) code_query(q + i * kBlockDims, queries_[i]);
    // The lines to fetch ahead during each block of the first row's products, so that all lines are requested by the
    // end of that row.
    const int blocks = kKeys / 16 / kGroups * ((heads_ + kHeads - 1) / kHeads) * blocks_;
    ahead_ = (kKeys * ((args.dims / 2 + 63) / 64) + blocks - 1) / blocks;
  }

  void turn_to(const RowRef* rows) {
    rows_ = rows;
    decoded_ = 0;
  }
  bool decoded(int group) const { return (decoded_ >> group & 1U) != 0; }

  template <int H, bool kDecode>
  [[gnu::always_inline]] void dots(int row, int head, int group, V (&y)[H][kGroups], IndexAhead& ahead) {
    const Isa isa;
    const IndexQueryBlock* q = queries_ + ((row - begin_) * heads_ + head) * blocks_;
    if constexpr (kDecode) {
      for (int g = 0; g < kGroups; ++g) decode_scales(group + g);
      decoded_ |= 1U << group;
    }
#pragma GCC unroll 8
    for (int h = 0; h < H; ++h) {
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) y[h][g] = V::zero();
    }
    const std::ptrdiff_t group_bytes = blocks_ * kBlockLines * kLine;
    std::byte* line = keys_ + group * group_bytes;
    for (int block = 0; block < blocks_; ++block, ++q) {
      const float* scales = scales_ + 2 * block * kKeys + 16 * group;
      typename Isa::Dot dot[H][kGroups];
#pragma GCC unroll 8
      for (int h = 0; h < H; ++h) {
#pragma GCC unroll 4
        for (int g = 0; g < kGroups; ++g) dot[h][g].begin(plus_exponent(q[h * blocks_].start, scales + 16 * g));
      }
      ahead.fetch(ahead_);
      I dwords[kGroups][4];
      if constexpr (kDecode) {
#pragma GCC unroll 4
        for (int g = 0; g < kGroups; ++g) Isa::transpose(rows_ + 16 * (group + g), 16 * block, dwords[g]);
      }
#pragma GCC unroll 8
      for (int l = 0; l < kBlockLines; ++l, line += kLine) {
        typename Isa::Bytes keys[kGroups];
#pragma GCC unroll 4
        for (int g = 0; g < kGroups; ++g) {
          if constexpr (kDecode) {
            keys[g] = l % 2 == 0 ? isa.e2m1_low(dwords[g][l / 2]) : isa.e2m1_high(dwords[g][l / 2]);
            keys[g].store(line + g * group_bytes);
          } else {
            keys[g] = Isa::Bytes::load(line + g * group_bytes);
          }
        }
#pragma GCC unroll 8
        for (int h = 0; h < H; ++h) {
          std::int32_t four;
          __builtin_memcpy(&four, q[h * blocks_].codes + 4 * l, 4);
#pragma GCC unroll 4
          for (int g = 0; g < kGroups; ++g) dot[h][g].add(keys[g], four);
        }
      }
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) {
#pragma GCC unroll 8
        for (int h = 0; h < H; ++h) {
          const V sum = as_float(dot[h][g].end(plus_exponent(q[h * blocks_].start, scales + 16 * g)));
          y[h][g] = add_block(sum, q[h * blocks_].scale, scales + 16 * g, y[h][g]);
        }
      }
    }
  }

 private:
  static constexpr float kMagic = 12582912.0F;  // 1.5 * 2^23: adding it leaves a small integer in the low bits
  static constexpr std::int32_t kMagicBits = 0x4B400000, kOneBits = 0x3F800000;

  [[gnu::always_inline]] static I plus_exponent(std::int32_t bits, const float* scales) {
    const I all = I::broadcast(bits);
    if constexpr (Isa::kByExponents) return all + as_bits(V::load(scales));
    return all;
  }
  [[gnu::always_inline]] static V add_block(V sum, std::int32_t scale, const float* scales, V y) {
    if constexpr (Isa::kByExponents) return y + (sum - as_float(plus_exponent(scale, scales)));
    return fma(fma(sum, V::load(scales), V::load(scales + kKeys)), as_float(I::broadcast(scale)), y);
  }

  static int limited(int code) {
    return code < kMinIndexScale ? kMinIndexScale : code > kMaxIndexScale ? kMaxIndexScale : code;
  }

  static void code_query(const float* x, IndexQueryBlock& block) {
    const V scale = block_scale<V, RowValues::kE2m1>(x, kBlockDims), factor = inverse(scale);
    std::byte code;
    store_scale<RowScales::kE8m0>(scale, &code);
    const std::int32_t exponent = (limited(static_cast<int>(code)) - 2) << 23;
    std::byte bytes[kBlockDims];
    I sum = I::broadcast(0);
    for (int i = 0; i < kBlockDims; i += 16) {
      const V value = e2m1_values(e2m1_codes(V::load(x + i) * factor));
      const I bits = as_bits(value + value + V::broadcast(kMagic));
      sum = sum + (bits - I::broadcast(kMagicBits));
      bits.store_bytes(bytes + i);
    }
    std::int32_t lanes[16], all = 0;
    sum.store(lanes);
    for (const std::int32_t lane : lanes) all += lane;
    block.start = kMagicBits - 12 * all;
    block.scale = exponent;
    if constexpr (Isa::kByExponents) {
      block.start += exponent - kOneBits;
      block.scale = kMagicBits + (exponent - kOneBits);
    }
    for (int i = 0; i < kBlockDims; i += 8) {
      std::uint64_t eight;
      __builtin_memcpy(&eight, bytes + i, 8);
      const std::uint64_t ordered = even_bytes(eight) | even_bytes(eight >> 8) << 32;
      __builtin_memcpy(block.codes + i, &ordered, 8);
    }
  }
  static std::uint64_t even_bytes(std::uint64_t x) {
    x &= 0x00FF00FF00FF00FFU;
    x = (x | x >> 8) & 0x0000FFFF0000FFFFU;
    return (x | x >> 16) & 0x00000000FFFFFFFFU;
  }

  // Returns the scale codes of blocks [block, block + count), at most four, of sixteen keys: a byte for each block.
  [[gnu::always_inline]] static I scale_codes(const RowRef* rows, int block, int count) {
    const std::byte* first = rows[0].scales;
    if (count == 4 && blocks_are_side_by_side(rows)) return I::load(reinterpret_cast<const std::int32_t*>(first));
    std::int32_t codes[16];
    for (int i = 0; i < 16; ++i) {
      codes[i] = 0;
      for (int b = 0; b < count; ++b) codes[i] |= static_cast<std::int32_t>(rows[i].scales[block + b]) << 8 * b;
    }
    return I::load(codes);
  }
  // Returns true if each row has four blocks and the rows follow each other in memory.
  [[gnu::always_inline]] static bool blocks_are_side_by_side(const RowRef* rows) {
    return rows[1].scales == rows[0].scales + 4 && rows[15].scales == rows[0].scales + 60;
  }
  [[gnu::noinline]] void decode_scales(int group) const {
    const RowRef* rows = rows_ + 16 * group;
    for (int block = 0; block < blocks_; block += 4) {
      const int count = blocks_ - block < 4 ? blocks_ - block : 4;
      I left = scale_codes(rows, block, count);
      for (int b = 0; b < count; ++b, left = shift_right<8>(left)) {
        const I code =
            max_of(min_of(left & I::broadcast(0xFF), I::broadcast(kMaxIndexScale)), I::broadcast(kMinIndexScale));
        const V scale = as_float(shift_left<23>(code));
        float* to = scales_ + 2 * (block + b) * kKeys + 16 * group;
        if constexpr (Isa::kByExponents) {
          as_float(as_bits(scale) - I::broadcast(kOneBits)).store(to);
        } else {
          scale.store(to);
          (scale * V::broadcast(-kMagic)).store(to + kKeys);
        }
      }
    }
  }

  int heads_, blocks_, begin_, ahead_;
  const RowRef* rows_ = nullptr;
  unsigned decoded_ = 0;  // bit g: groups [g, g + kGroups) are decoded
  std::byte* keys_;
  float* scales_;
  IndexQueryBlock* queries_;
};

}  // namespace sluice::cpu::SLUICE_ISA
