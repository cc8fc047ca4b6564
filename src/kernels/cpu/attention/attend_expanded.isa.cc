// Compiled for avx2 and avx512.
// Attention over expanded keys and values (kernels/ops/attend_expanded.h) over sixteen lanes V.
//
// A tile is some rows of one head, and goes split by split: 64 keys and values (80 KB with 192 + 128 dims) stay in L2
// while blocks of kRowBlock rows multiply them. Queries and running values are first copied next to each other: in the
// batch a head's rows lie a power of two apart, on the same cache sets.
#include "kernels/ops/attend_expanded.h"

#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/linear/products.h"
#include "kernels/cpu/linear/tiles.h"
#include "kernels/cpu/vec.h"

namespace sluice::cpu::SLUICE_ISA {

template <class V>
class ExpandedTile {
  using Products = FloatProducts<V, false>;
  static constexpr int kRowBlock = 16, kMostRows = 64;
  static constexpr int kScoreStride = kExpandedSplitKeys + 16;

 public:
  [[gnu::always_inline]] ExpandedTile(const AttendExpandedArgs& args, int head, int begin, int end)
      : args_(args),
        head_(head),
        begin_(begin),
        rows_(end - begin),
        dims_(expanded_value_offset(args.key_dims)),
        values_(expanded_value_offset(args.value_dims)),
        row_floats_(expanded_row_floats(args.key_dims, args.value_dims)) {
    const std::ptrdiff_t queries = std::ptrdiff_t{kMostRows} * (dims_ + 16);
    q_ = thread_scratch(static_cast<std::size_t>(queries + std::ptrdiff_t{kMostRows} * values_));
    v_ = q_ + queries;
  }

  void run() {
    copy_queries();
    const float* keys = args_.kv + static_cast<std::ptrdiff_t>(head_) * args_.keys * row_floats_;
    const int seen = visible(rows_ - 1);
    for (int first = 0; first < seen; first += kExpandedSplitKeys) {
      const int count = seen - first < kExpandedSplitKeys ? seen - first : kExpandedSplitKeys;
      for (int i = 0; i < count; ++i) list_[i] = keys + (first + i) * row_floats_;
      for (int i = count; i % 4 != 0; ++i) list_[i] = list_[0];  // register tiles take keys in fours
      for (int r = 0; r < rows_; r += kRowBlock) add_split(r, rows_ - r < kRowBlock ? rows_ - r : kRowBlock, first);
    }
    for (int r = 0; r < rows_; ++r) finish(r);
  }

 private:
  int visible(int r) const {
    const int n = args_.visible + begin_ + r;
    return n < args_.keys ? n : args_.keys;
  }
  // Returns how many keys of the split that begins at key `first` row r sees.
  int seen_of(int r, int first) const {
    const int n = visible(r) - first;
    return n < 0 ? 0 : n < kExpandedSplitKeys ? n : kExpandedSplitKeys;
  }

  void copy_queries() {
    for (int r = 0; r < rows_; ++r) {
      const float* q = args_.q + (begin_ + r) * args_.ldq + static_cast<std::ptrdiff_t>(head_) * args_.key_dims;
      for (int d = 0; d < dims_; d += 16) {
        load_up_to_16<V>(q + d, args_.key_dims - d).store(q_ + r * (dims_ + 16) + d);
      }
    }
  }

  void add_split(int row, int rows, int first) {
    const int seen = seen_of(row + rows - 1, first);  // the last row sees the most keys
    if (seen == 0) return;
    dot_products<V, Products>(q_ + row * (dims_ + 16), dims_ + 16, rows, list_, 0, (seen + 3) / 4 * 4, dims_, scores_,
                              kScoreStride);
    float old_factor[kRowBlock], new_factor[kRowBlock];
    for (int r = 0; r < rows; ++r) {
      const int own = seen_of(row + r, first);
      float &max = max_[row + r], &sum = sum_[row + r], m, z;
      softmax(scores_ + r * kScoreStride, own, seen, m, z);
      old_factor[r] = 1.0F, new_factor[r] = 0.0F;  // for a row that sees no key of this split
      if (first == 0) {
        max = m, sum = z;
      } else if (own > 0) {
        const float merged = m > max ? m : max;
        const V a = exp(V::broadcast(max - merged)), b = exp(V::broadcast(m - merged));
        max = merged;
        sum = fma(b, V::broadcast(z), a * V::broadcast(sum)).first_lane();
        old_factor[r] = a.first_lane(), new_factor[r] = b.first_lane();
      }
    }
    float* values = v_ + static_cast<std::ptrdiff_t>(row) * values_;
    if (first == 0) {
      weighted_values<V, Products>(scores_, kScoreStride, rows, list_, 0, seen, dims_, values_,
                                   [&](int r, int d, int, V v) { v.store(values + r * values_ + d); });
    } else {
      weighted_values<V, Products>(scores_, kScoreStride, rows, list_, 0, seen, dims_, values_,
                                   [&](int r, int d, int, V v) {
                                     float* to = values + r * values_ + d;
                                     const V old = V::broadcast(old_factor[r]) * V::load(to);
                                     fma(V::broadcast(new_factor[r]), v, old).store(to);
                                   });
    }
  }

  // Turns products [0, own) into weights and products [own, seen) into 0; sets *max and *sum of the weights.
  [[gnu::always_inline]] void softmax(float* s, int own, int seen, float& max, float& sum) {
    const V scale = V::broadcast(args_.scale), nothing = V::broadcast(-__builtin_inff());
    V m = nothing;
    for (int i = 0; i < own; i += 16) {
      const V scaled = V::load(s + i) * scale;
      scaled.store(s + i);
      m = max_of(select(first_lanes_of<V>(own - i), scaled, nothing), m);
    }
    m = tree_max(m);
    V z = V::zero();
    for (int i = 0; i < seen; i += 16) {
      const V w = select(first_lanes_of<V>(own - i), exp(V::load(s + i) - m), V::zero());
      w.store(s + i);
      z = z + w;
    }
    max = m.first_lane();
    sum = tree_sum(z).first_lane();
  }

  void finish(int r) {
    const bool any = visible(r) > 0;
    const V z = V::broadcast(sum_[r]);
    float* out = args_.out + (begin_ + r) * args_.ldo + static_cast<std::ptrdiff_t>(head_) * args_.value_dims;
    for (int d = 0; d < args_.value_dims; d += 16) {
      store_up_to_16(any ? V::load(v_ + r * values_ + d) / z : V::zero(), out + d, args_.value_dims - d);
    }
    args_.lse[(begin_ + r) * args_.ld_lse + head_] =
        any ? (V::broadcast(max_[r]) + log(z)).first_lane() : -__builtin_inff();
  }

  const AttendExpandedArgs& args_;
  const int head_, begin_, rows_;
  const int dims_, values_;  // in whole vectors
  const std::ptrdiff_t row_floats_;
  float *q_, *v_;  // [rows_][dims_ + 16], [rows_][values_]
  const float* list_[kExpandedSplitKeys];
  alignas(64) float scores_[kRowBlock * kScoreStride];
  float max_[kMostRows], sum_[kMostRows];
};

void attend_expanded(const AttendExpandedArgs& args, int head, int begin, int end) {
  using V = F32x16;
  ExpandedTile<V>(args, head, begin, end).run();
}

void merge_attention(const MergeAttentionArgs& args, int begin, int end) {
  using V = F32x16;
  constexpr float kNothing = -__builtin_inff();
  for (int row = begin; row < end; ++row) {
    const float* part = args.part + static_cast<std::ptrdiff_t>(row) * args.value_dims;
    float* total = args.total + static_cast<std::ptrdiff_t>(row) * args.value_dims;
    const float a = args.total_lse[row], b = args.part_lse[row];
    const auto each = [&](const auto& of) {
      for (int d = 0; d < args.value_dims; d += 16) {
        const int left = args.value_dims - d;
        store_up_to_16(of(load_up_to_16<V>(total + d, left), load_up_to_16<V>(part + d, left)), total + d, left);
      }
    };
    if (a == kNothing) {
      if (b == kNothing) {
        each([](V, V) { return V::zero(); });
      } else {
        each([](V, V from_part) { return from_part; });
      }
      args.total_lse[row] = b;
    } else if (b != kNothing) {
      const V m = V::broadcast(b > a ? b : a);
      const V x = exp(V::broadcast(a) - m), y = exp(V::broadcast(b) - m), sum = x + y;
      each([&](V from_total, V from_part) { return fma(y, from_part, x * from_total) / sum; });
      args.total_lse[row] = (m + log(sum)).first_lane();
    }
  }
}

namespace {

constexpr Kernel kKernels[] = {
    SLUICE_KERNEL(attend_expanded, attend_expanded),
    SLUICE_KERNEL(merge_attention, merge_attention),
};

}  // namespace

SLUICE_KERNELS(attend_expanded, kKernels, {});

}  // namespace sluice::cpu::SLUICE_ISA
