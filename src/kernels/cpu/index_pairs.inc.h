// The indexer's dot products as chains over pairs of dims, the odd one first (kernels/indexer.h), with keys of any
// other codec as floats: a tile is [dims][32 keys], the dims even in number by a zero.
#pragma once

#include "kernels/cpu/index_select.inc.h"
#include "kernels/cpu/keys.inc.h"
#include "kernels/tiles.h"

namespace sluice::cpu {

template <class Isa>
class IndexPairs {
  using V = typename Isa::Vec;
  using I = typename V::Int;

 public:
  static constexpr int kKeys = 32, kGroups = Isa::kPairsGroups, kHeads = Isa::kPairsHeads;

  IndexPairs(const IndexSelectArgs& args, int begin, int end)
      : format_(args.keys->format), heads_(args.heads), dims_(padded_dims(args.dims)), begin_(begin) {
    const bool copied = dims_ != args.dims || format_.codec == RowCodec::kIndexFp8;
    const auto queries = static_cast<std::size_t>((end - begin) * heads_);
    const auto width = static_cast<std::size_t>(dims_);
    keys_ = thread_scratch(kKeys * width + 16 * static_cast<std::size_t>(key_stride(dims_)) + copied * queries * width);
    decoded_ = keys_ + kKeys * width;
    queries_ = args.q + static_cast<std::ptrdiff_t>(begin) * heads_ * args.dims;
    if (copied) copy_queries(static_cast<int>(queries), args.dims, decoded_ + 16 * key_stride(dims_));
    const int pairs = kKeys / 16 / kGroups * ((heads_ + kHeads - 1) / kHeads) * (dims_ / 16);
    ahead_ = (kKeys * ((format_.data_bytes + 63) / 64) + pairs - 1) / pairs;
  }

  static bool decoded(int) { return true; }

  [[gnu::noinline]] void turn_to(const RowRef* rows) {
    const std::ptrdiff_t stride = key_stride(dims_);
    for (int group = 0; group < kKeys / 16; ++group) {
      RowRef values[16];
      for (int i = 0; i < 16; ++i) {
        const float* key = key_values<V>(format_, rows[16 * group + i], decoded_ + i * stride);
        values[i].data = const_cast<std::byte*>(reinterpret_cast<const std::byte*>(key));
      }
      for (int d = 0; d < dims_; d += 4) {
        I dwords[4];
        Isa::transpose(values, static_cast<int>(sizeof(float)) * d, dwords);
        for (int i = 0; i < 4; ++i) as_float(dwords[i]).store(keys_ + (d + i) * kKeys + 16 * group);
      }
    }
  }

  template <int H, bool kDecode>
  [[gnu::always_inline]] void dots(int row, int head, int group, V (&y)[H][kGroups], IndexAhead& ahead) const {
    const float* q = queries_ + (static_cast<std::ptrdiff_t>(row - begin_) * heads_ + head) * dims_;
#pragma GCC unroll 8
    for (int h = 0; h < H; ++h) {
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) y[h][g] = V::zero();
    }
    const float* keys = keys_ + 16 * group;
    for (int d = 0; d < dims_; d += 16) {
      ahead.fetch(ahead_);
      for (int i = d; i < d + 16; i += 2) {
        add<H>(q + i + 1, keys + (i + 1) * kKeys, y);
        add<H>(q + i, keys + i * kKeys, y);
      }
    }
  }

 private:
  template <int H>
  [[gnu::always_inline]] void add(const float* q, const float* keys, V (&y)[H][kGroups]) const {
    V key[kGroups];
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) key[g] = V::load(keys + 16 * g);
#pragma GCC unroll 8
    for (int h = 0; h < H; ++h) {
      const V query = V::broadcast(q[h * dims_]);
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) y[h][g] = fma(query, key[g], y[h][g]);
    }
  }

  void copy_queries(int count, int dims, float* to) {
    const float* from = queries_;
    queries_ = to;
    for (int i = 0; i < count; ++i, from += dims, to += dims_) {
      for (int d = 0; d < dims_; d += 16) {
        V x = d < dims ? load_up_to_16<V>(from + d, dims - d) : V::zero();
        if (format_.codec == RowCodec::kIndexFp8) x = as_float(shift_left<16>(bf16_codes(x)));
        x.store(to + d);
      }
    }
  }

  const RowFormat& format_;
  int heads_, dims_, begin_, ahead_;
  float *keys_, *decoded_;
  const float* queries_;
};

}  // namespace sluice::cpu
