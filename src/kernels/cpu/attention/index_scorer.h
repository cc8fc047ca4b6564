// The indexer's tiles (kernels/ops/indexer.h): keys lie in lanes, sixteen to a vector, decoded once for all rows and
// heads of the tile. A Product computes the dot products: IndexFp4 (index_fp4.h) or IndexPairs (index_pairs.h).
//
// A Product has kKeys (keys at once), kGroups (vectors of keys at once), kHeads (heads at once), and
//   Product(args, begin, end)          codes the queries of these rows
//   turn_to(rows)                      makes these rows the keys
//   decoded(group)                     true if groups [group, group + kGroups) of them are decoded
//   dots<H, kDecode>(row, head, group, y, ahead)
//                                      y[H][kGroups] = dot(q of `row`, head .. head + H; those groups' keys), decoding
//                                      them on the way if kDecode
// Keys are decoded where they are first multiplied: decoding or products alone would leave half of the core idle.
// Used by index_fp4.h and index_pairs.h.
#pragma once

#include "kernels/cpu/order.h"

namespace sluice::cpu::SLUICE_ISA {

// The lines of the keys that come next, fetched a few at a time between products. The loads of one core are limited by
// the lines under way, so that fetching in bursts stalls it.
class IndexAhead {
 public:
  [[gnu::always_inline]] IndexAhead(const RowFormat& format, const RowRef* rows, int count)
      : rows_(rows), count_(count), lines_((format.data_bytes + 63) / 64) {}
  // Fetches some more lines.
  [[gnu::always_inline]] void fetch(int lines) {
    for (; lines > 0 && at_ < count_; --lines) {
      const std::byte* data = rows_[at_].data + 64 * line_;
      __builtin_prefetch(data);
      if (line_ == 0 && at_ % 16 == 0) __builtin_prefetch(rows_[at_].scales);
      if (++line_ == lines_) line_ = 0, ++at_;
    }
  }

 private:
  const RowRef* rows_;
  int count_, lines_;
  int at_ = 0, line_ = 0;
};

template <class V, class Product>
class IndexScorer {
  static constexpr int kKeys = Product::kKeys, kGroups = Product::kGroups;
  static_assert(kKeys <= IndexTile::kKeys && kKeys % (16 * kGroups) == 0);

 public:
  explicit IndexScorer(const IndexTile& tile)
      : tile_(tile),
        args_(*tile.args),
        span_(args_.step->spans[static_cast<std::size_t>(tile.span)]),
        product_(args_, tile.begin, tile.end) {}

  void run() {
    RowRef rows[2][kKeys];
    int count = find(tile_.first, rows[0]);
    for (std::int32_t e = tile_.first, i = 0; e < tile_.last; e += kKeys, i ^= 1) {
      const int next = find(e + kKeys, rows[i ^ 1]);
      for (int j = count; j < kKeys; ++j) rows[i][j] = rows[i][0];
      product_.turn_to(rows[i]);
      IndexAhead ahead(args_.keys->format, rows[i ^ 1], next);
      for (int row = tile_.begin; row < tile_.end; ++row) score(row, e, count, ahead);
      count = next;
    }
  }

 private:
  int find(std::int32_t first, RowRef* rows) const {
    const int count = tile_.last - first < kKeys ? tile_.last - first : kKeys;
    if (count > 0) index_rows(*args_.step, span_, *args_.keys, first, count, rows);
    return count;
  }

  void score(int row, std::int32_t first, int count, IndexAhead& ahead) {
    const int left = visible_entries(args_, span_, row) - first;
    if (left < count) count = left;
    if (count <= 0) return;
    alignas(64) float scores[kKeys];
    for (int group = 0; 16 * group < count; group += kGroups) {
      V sums[kGroups];
      for (int g = 0; g < kGroups; ++g) sums[g] = V::zero();
      for (int head = 0; head < args_.heads;) head += heads<Product::kHeads>(row, head, group, sums, ahead);
      for (int g = 0; g < kGroups; ++g) sums[g].store(scores + 16 * (group + g));
    }
    for (std::int32_t e = first; e < args_.first_entry && e < first + count; ++e) scores[e - first] = -__builtin_inff();
    if (args_.scores != nullptr) {
      float* to = args_.scores + row * args_.scores_stride + first;
      for (int i = 0; i < count; i += 16) store_up_to_16(V::load(scores + i), to + i, count - i);
    }
    IndexCandidates& candidates = tile_.candidates[row - tile_.begin];
    if (candidates.capacity > 0) add_candidates<V>(scores, first, count, args_.top_k, candidates);
  }

  // Scores H heads, or half as many and so on if fewer are left; returns how many.
  template <int H>
  [[gnu::always_inline]] int heads(int row, int head, int group, V (&sums)[kGroups], IndexAhead& ahead) {
    if constexpr (H > 1) {
      if (args_.heads - head < H) return heads<H / 2>(row, head, group, sums, ahead);
    }
    if (product_.decoded(group)) {
      add_heads<H, false>(row, head, group, sums, ahead);
    } else {
      add_heads<H, true>(row, head, group, sums, ahead);
    }
    return H;
  }
  template <int H, bool kDecode>
  [[gnu::noinline]] void add_heads(int row, int head, int group, V (&sums)[kGroups], IndexAhead& ahead) {
    V y[H][kGroups];
    product_.template dots<H, kDecode>(row, head, group, y, ahead);
    const float* weights = args_.weights + static_cast<std::ptrdiff_t>(row) * args_.heads + head;
#pragma GCC unroll 8
    for (int h = 0; h < H; ++h) {
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) {
        sums[g] = fma(V::broadcast(weights[h]), max_of(y[h][g], V::zero()), sums[g]);
      }
    }
  }

  const IndexTile& tile_;
  const IndexSelectArgs& args_;
  const RowSpan& span_;
  Product product_;
};

}  // namespace sluice::cpu::SLUICE_ISA
