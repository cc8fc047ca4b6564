// The indexer's dot products as chains over pairs of dims, the odd one first (kernels/ops/indexer.h). The keys, of any
// codec but FP4, are cells: floats, two for a pair of dims, or whatever else Isa::Pairs makes of a pair. A tile is
// [cell][kKeys], with the dims padded with zeros to a multiple of 16.
//
// Isa::Pairs has kCells, the cells of a pair (1 or 2), kKeys, and
//   store_keys(dwords, to, stride)   the cells of four dims of sixteen keys
//   store_queries(x, to)             the cells of sixteen dims of a query
//   add<H, G>(y, q, ldq, keys)       y[h][g] += a pair of dims of query h (cells at q + h * ldq) and keys of group g
// Used by index.isa.cc, kernels/cpu/avx2/index_isa.h, kernels/cpu/avx512/index_isa.h and
// kernels/cpu/avx512_bf16/index_pairs.cc.
#pragma once

#include "kernels/cpu/attention/index_scorer.h"
#include "kernels/cpu/cpu_rows.h"
#include "kernels/cpu/linear/tiles.h"

namespace sluice::cpu::SLUICE_ISA {

template <class V, int kTileKeys>
struct FloatPairs {
  static constexpr int kCells = 2, kKeys = kTileKeys;

  [[gnu::always_inline]] static void store_keys(const typename V::Int (&dwords)[4], float* to) {
    for (int i = 0; i < 4; ++i) as_float(dwords[i]).store(to + i * kKeys);
  }
  [[gnu::always_inline]] static void store_queries(V x, float* to) { x.store(to); }
  template <int H, int G>
  [[gnu::always_inline]] static void add(V (&y)[H][G], const float* q, std::ptrdiff_t ldq, const float* keys) {
    add_one(y, q + 1, ldq, keys + kKeys);
    add_one(y, q, ldq, keys);
  }

 private:
  template <int H, int G>
  [[gnu::always_inline]] static void add_one(V (&y)[H][G], const float* q, std::ptrdiff_t ldq, const float* keys) {
    V key[G];
#pragma GCC unroll 4
    for (int g = 0; g < G; ++g) key[g] = V::load(keys + 16 * g);
#pragma GCC unroll 8
    for (int h = 0; h < H; ++h) {
      const V query = V::broadcast(q[h * ldq]);
#pragma GCC unroll 4
      for (int g = 0; g < G; ++g) y[h][g] = fma(query, key[g], y[h][g]);
    }
  }
};

template <class Isa>
class IndexPairs {
  using V = typename Isa::Vec;
  using I = typename V::Int;
  using Pairs = typename Isa::Pairs;

 public:
  static constexpr int kKeys = Pairs::kKeys, kGroups = Isa::kPairsGroups, kHeads = Isa::kPairsHeads;

  IndexPairs(const IndexSelectArgs& args, int begin, int end)
      : format_(args.keys->format),
        rounds_queries_(index_queries(format_.codec) == IndexQueries::kBf16),
        heads_(args.heads),
        dims_(padded_dims(args.dims)),
        begin_(begin) {
    const bool coded = dims_ != args.dims || rounds_queries_ || Pairs::kCells != 2;
    const auto queries = static_cast<std::size_t>((end - begin) * heads_);
    cells_ = dims_ / 2 * Pairs::kCells;
    const auto width = static_cast<std::size_t>(cells_);
    keys_ = thread_scratch(kKeys * width + 16 * static_cast<std::size_t>(key_stride(dims_)) + coded * queries * width);
    decoded_ = keys_ + kKeys * width;
    queries_ = args.q + static_cast<std::ptrdiff_t>(begin) * heads_ * args.dims;
    if (coded) code_queries(static_cast<int>(queries), args.dims, decoded_ + 16 * key_stride(dims_));
    const int steps = kKeys / 16 / kGroups * ((heads_ + kHeads - 1) / kHeads) * (dims_ / 16);
    ahead_ = (kKeys * ((format_.data_bytes + 63) / 64) + steps - 1) / steps;
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
        Pairs::store_keys(dwords, keys_ + d / 2 * Pairs::kCells * kKeys + 16 * group);
      }
    }
  }

  template <int H, bool kDecode>
  [[gnu::always_inline]] void dots(int row, int head, int group, V (&y)[H][kGroups], IndexAhead& ahead) const {
    const float* q = queries_ + (static_cast<std::ptrdiff_t>(row - begin_) * heads_ + head) * cells_;
#pragma GCC unroll 8
    for (int h = 0; h < H; ++h) {
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) y[h][g] = V::zero();
    }
    const float* keys = keys_ + 16 * group;
    for (int d = 0; d < dims_; d += 16) {
      ahead.fetch(ahead_);
      for (int i = 0; i < 8; ++i, q += Pairs::kCells, keys += Pairs::kCells * kKeys) Pairs::add(y, q, cells_, keys);
    }
  }

 private:
  void code_queries(int count, int dims, float* to) {
    const float* from = queries_;
    queries_ = to;
    for (int i = 0; i < count; ++i, from += dims) {
      for (int d = 0; d < dims_; d += 16, to += 8 * Pairs::kCells) {
        V x = load_up_to_16<V>(from + d, dims - d);
        if (rounds_queries_) x = as_float(shift_left<16>(bf16_codes(x)));
        Pairs::store_queries(x, to);
      }
    }
  }

  const RowFormat& format_;
  bool rounds_queries_;
  int heads_, dims_, begin_, ahead_, cells_;
  float *keys_, *decoded_;
  const float* queries_;
};

}  // namespace sluice::cpu::SLUICE_ISA
