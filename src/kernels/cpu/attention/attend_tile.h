// Attention (kernels/ops/attention.h) over sixteen lanes V, in the order of Products (kernels/cpu/linear/products.h).
//
// A tile is up to kTileRows rows of one span. Keys that several of its rows see are decoded once. A row's keys go in
// the order of kernels/ops/attention.h: dot products of kHeadBlock heads, softmax, weighted values. These are added to
// `out`, which holds the running sum until the division at the end.
// Used by cpu_attend.isa.cc and kernels/cpu/avx512_bf16/bf16_attend.cc.
#pragma once

#include <type_traits>
#include <utility>

#include "kernels/cpu/attention/attend_rows.h"
#include "kernels/cpu/linear/products.h"
#include "kernels/cpu/linear/tiles.h"

namespace sluice::cpu::SLUICE_ISA {

inline constexpr int kTileRows = 16, kHeadBlock = 8, kRowsAhead = 8;
inline constexpr std::size_t kSharedKeyCells = std::size_t{1} << 18;  // 1 MiB: most selected keys that are decoded once

template <class V, class Products>
class AttendTile : AttendRows {
  using Cell = typename Products::Cell;
  static_assert(sizeof(Cell) == sizeof(float), "they share scratch memory");
  static constexpr int kSoftmaxHeads = V::kDotHeads == 4 ? 4 : 1;  // their maxima and sums fit in registers

 public:
  [[gnu::always_inline]] AttendTile(const AttendArgs& args, int span, int begin, int end, int head_begin, int head_end)
      : AttendRows(args, span, begin, end, head_begin, head_end),
        dims_(Products::cells(args.dims)),
        stride_(Products::stride((latent_ != nullptr ? latent_ : window_)->format.dims)) {
    shared_ = args.selected != nullptr ? shared_entries() : 0;
    carve();
  }

  void run() {
    if (latent_ != nullptr) {
      if (args_.selected != nullptr) {
        attend_selected();
      } else {
        attend_all_latent();
      }
    }
    if (window_ != nullptr) attend_window();
    for (int r = 0; r < rows_; ++r) finish<V>(r);
  }

 private:
  // The number of latent entries to decode for all rows at once: those that the last row sees, if that is less work
  // than decoding each row's own.
  int shared_entries() const {
    const int visible = (position(rows_ - 1) + 1) / args_.tokens_per_row;
    int wanted = 0;
    for (int r = 0; r < rows_; ++r) wanted += args_.selected_count[begin_ + r];
    const bool fits = static_cast<std::size_t>(visible) * static_cast<std::size_t>(stride_) <= kSharedKeyCells;
    return fits && visible < wanted ? visible : 0;
  }

  void carve() {
    const int window_keys = window_ != nullptr ? args_.window_tokens + 2 * kTileRows : 0;
    const int list = window_keys > kSplitKeys ? window_keys : kSplitKeys;
    const int decoded = list > shared_ ? list : shared_;
    score_stride_ = (list + 15) / 16 * 16 + 16;
    const auto size = [](std::ptrdiff_t n) { return static_cast<std::size_t>((n + 15) / 16 * 16); };
    const std::size_t pointer_floats = size((list + decoded + 16) * 2);
    const std::size_t key_floats = size(decoded * stride_), score_floats = size(kHeadBlock * score_stride_);
    const std::size_t query_floats = size(kHeadBlock * dims_), stat_floats = size(2 * kTileRows * heads_);
    const std::size_t row_floats = size(key_stride((latent_ != nullptr ? latent_ : window_)->format.dims));
    float* p = thread_scratch(pointer_floats + key_floats + score_floats + query_floats + stat_floats + row_floats);
    list_ = reinterpret_cast<const Cell**>(p);
    entries_ = list_ + list + 16;
    keys_ = reinterpret_cast<Cell*>(p + pointer_floats);
    scores_ = p + pointer_floats + key_floats;
    queries_ = reinterpret_cast<Cell*>(scores_ + score_floats);
    max_ = scores_ + score_floats + query_floats;
    sum_ = max_ + kTileRows * heads_;
    row_ = max_ + stat_floats;
  }

  void attend_selected() {
    for (int e = 0; e < shared_; ++e) entries_[e] = latent_values(e, e);
    for (int r = 0; r < rows_; ++r) {
      const std::int32_t* selected = args_.selected + static_cast<std::ptrdiff_t>(begin_ + r) * args_.max_selected;
      const int count = args_.selected_count[begin_ + r];
      for (int first = 0; first < count; first += kSplitKeys) {
        const int n = count - first < kSplitKeys ? count - first : kSplitKeys;
        for (int i = 0; i < n; ++i) {
          const std::int32_t e = selected[first + i];
          if (shared_ == 0 && first + i + kRowsAhead < count) ask_for(selected[first + i + kRowsAhead]);
          list_[i] = shared_ > 0 ? entries_[e] : latent_values(e, i);
        }
        add_keys(r, 0, n);
      }
    }
  }

  void attend_all_latent() {
    const int last = (position(rows_ - 1) + 1) / args_.tokens_per_row;
    for (int first = args_.first_key; first < last; first += kSplitKeys) {
      const int n = last - first < kSplitKeys ? last - first : kSplitKeys;
      for (int i = 0; i < n; ++i) list_[i] = latent_values(first + i, i);
      for (int r = 0; r < rows_; ++r) {
        const int visible = visible_entries(r) - first;
        if (visible > 0) add_keys(r, 0, visible < n ? visible : n);
      }
    }
  }

  int visible_entries(int r) const {
    // A planted fault (Exec::fault_future_entries): the row sees the entries that the last row sees.
    const bool fault = span_.rows <= args_.fault_future_entries;
    return (position(fault ? rows_ - 1 : r) + 1) / args_.tokens_per_row;
  }

  void attend_window() {
    const Position first = window_begin(0), last = position(rows_ - 1);
    const Position base = first / 16 * 16;  // list index = position - base, so that a lane is position mod 16
    for (Position p = first; p <= last; ++p) {
      list_[p - base] = values(*window_, window_row(*args_.step, span_, *window_, p), p - first);
    }
    for (Position p = base; p < first; ++p) list_[p - base] = list_[first - base];
    for (int r = 0; r < rows_; ++r) {
      const Position begin = window_begin(r), cut = window_cut(begin);
      if (cut > begin) add_keys(r, begin - base, cut - base);
      add_keys(r, cut - base, position(r) + 1 - base);
    }
  }
  // The position where fault_chunk_anchored_splits (a planted fault) cuts a row's window in two splits; `begin`: no
  // cut.
  Position window_cut(Position begin) const {
    return args_.fault_chunk_anchored_splits && span_.first_position > begin ? span_.first_position : begin;
  }
  Position window_begin(int r) const {
    const Position begin = position(r) - args_.window_tokens + 1, first = args_.first_key;
    const Position clipped = begin > first ? begin : first;
    return clipped < position(r) ? clipped : position(r);
  }

  // Selected rows lie anywhere, so that no processor fetches them by itself.
  void ask_for(std::int32_t e) const {
    const RowRef row = latent_row(*args_.step, span_, *latent_, e);
    for (int i = 0; i < latent_->format.data_bytes; i += 64) __builtin_prefetch(row.data + i);
    __builtin_prefetch(row.scales);
  }
  const Cell* latent_values(std::int32_t e, int slot) const {
    return values(*latent_, latent_row(*args_.step, span_, *latent_, e), slot);
  }
  const Cell* values(const PlaneView& plane, RowRef row, int slot) const {
    return Products::key(plane.format, row, keys_ + slot * stride_, row_);
  }

  // Adds one split of row r: the keys list_[first..last).
  void add_keys(int r, int first, int last) {
    // A tile needs four keys, and values go in pairs. A key that is not in the split has weight 0. It must be a key of
    // the row all the same, since 0 times a key that is not finite is NaN.
    const int begin = first / 4 * 4, padded = (last + 3) / 4 * 4;
    const Cell* saved[6];
    int count = 0;
    const auto outside = [&](const auto& visit) {
      for (int i = begin; i < first; ++i) visit(i);
      for (int i = last; i < padded; ++i) visit(i);
    };
    outside([&](int i) { saved[count++] = std::exchange(list_[i], list_[first]); });
    for (int h = 0; h < heads_; h += kHeadBlock) {
      add_keys_of_heads(r, h, heads_ - h < kHeadBlock ? heads_ - h : kHeadBlock, first, last, padded);
    }
    count = 0;
    outside([&](int i) { list_[i] = saved[count++]; });
    seen_ |= 1U << r;
  }

  void add_keys_of_heads(int r, int head, int heads, int first, int last, int padded) {
    dot_products<V, Products>(queries(r, head, heads), dims_, heads, list_, first / 4 * 4, padded, dims_, scores_,
                              score_stride_);
    float* max = max_ + r * heads_ + head;
    float* sum = sum_ + r * heads_ + head;
    if ((seen_ >> r & 1U) == 0) {
      softmax(heads, first, last, max, sum);
      weighted_values<V, Products>(scores_, score_stride_, heads, list_, first, last, args_.value_offset,
                                   args_.value_dims,
                                   [&](int h, int d, int left, V v) { store_up_to_16(v, out(r, head + h) + d, left); });
      return;
    }
    float old_factor[kHeadBlock], new_factor[kHeadBlock], m[kHeadBlock], z[kHeadBlock];
    softmax(heads, first, last, m, z);
    for (int h = 0; h < heads; ++h) {
      const float merged = m[h] > max[h] ? m[h] : max[h];
      const V a = exp(V::broadcast(max[h] - merged)), b = exp(V::broadcast(m[h] - merged));
      max[h] = merged;
      sum[h] = fma(b, V::broadcast(z[h]), a * V::broadcast(sum[h])).first_lane();
      old_factor[h] = a.first_lane();
      new_factor[h] = b.first_lane();
    }
    weighted_values<V, Products>(scores_, score_stride_, heads, list_, first, last, args_.value_offset,
                                 args_.value_dims, [&](int h, int d, int left, V v) {
                                   float* o = out(r, head + h) + d;
                                   const V old = V::broadcast(old_factor[h]) * load_up_to_16<V>(o, left);
                                   store_up_to_16(fma(V::broadcast(new_factor[h]), v, old), o, left);
                                 });
  }

  const Cell* queries(int r, int head, int heads) {
    const float* q =
        args_.q + (static_cast<std::ptrdiff_t>(begin_ + r) * args_.heads + head_begin_ + head) * args_.dims;
    if constexpr (std::is_same_v<Products, FloatProducts<V, false>>) {
      if (dims_ == args_.dims) return q;
    }
    for (int h = 0; h < heads; ++h) Products::query(q + h * args_.dims, args_.dims, queries_ + h * dims_);
    return queries_;
  }

  // Turns the dot products of keys [first, last) into weights; gives their maxima and sums.
  void softmax(int heads, int first, int last, float* max, float* sum) {
    int h = 0;
    for (; h + kSoftmaxHeads <= heads; h += kSoftmaxHeads) softmax_of<kSoftmaxHeads>(h, first, last, max, sum);
    for (; h < heads; ++h) softmax_of<1>(h, first, last, max, sum);
  }
  // Does H heads at once, because the maximum and the sum of one head are chains that mostly wait.
  template <int H>
  [[gnu::always_inline]] void softmax_of(int head, int first, int last, float* max, float* sum) {
    using I = typename V::Int;
    const V scale = V::broadcast(args_.scale), nothing = V::broadcast(-__builtin_inff());
    const auto inside = [&](int i) {
      const I index = I::iota() + I::broadcast(i);
      return greater(index, I::broadcast(first - 1)) & greater(I::broadcast(last), index);
    };
    float* s[H];
    V m[H], z[H];
#pragma GCC unroll 4
    for (int h = 0; h < H; ++h) s[h] = scores_ + (head + h) * score_stride_, m[h] = nothing, z[h] = V::zero();
    for (int i = first / 16 * 16; i < last; i += 16) {
#pragma GCC unroll 4
      for (int h = 0; h < H; ++h) {
        const V scaled = V::load(s[h] + i) * scale;
        scaled.store(s[h] + i);
        m[h] = max_of(select(inside(i), scaled, nothing), m[h]);
      }
    }
#pragma GCC unroll 4
    for (int h = 0; h < H; ++h) m[h] = tree_max(m[h]);
    for (int i = first / 16 * 16; i < last; i += 16) {
#pragma GCC unroll 4
      for (int h = 0; h < H; ++h) {
        const V w = select(inside(i), Products::rounded(exp(V::load(s[h] + i) - m[h])), V::zero());
        w.store(s[h] + i);
        z[h] = z[h] + w;
      }
    }
#pragma GCC unroll 4
    for (int h = 0; h < H; ++h) {
      Products::pack_weights(s[h], first, last);
      max[head + h] = m[h].first_lane();
      sum[head + h] = tree_sum(z[h]).first_lane();
    }
  }

  const int dims_;               // cells of a row
  const std::ptrdiff_t stride_;  // from one decoded key to the next
  int shared_ = 0;
  std::ptrdiff_t score_stride_ = 0;
  const Cell** list_ = nullptr;     // the keys of the split at hand
  const Cell** entries_ = nullptr;  // [shared_] decoded entries
  Cell* keys_ = nullptr;            // decoded keys
  Cell* queries_ = nullptr;         // [kHeadBlock][dims_], unused if the queries are f32 cells already
  float* scores_ = nullptr;         // [kHeadBlock][score_stride_]
  float* row_ = nullptr;            // a decoded row, before it becomes cells
};

template <class V, class Products>
void attend_tiles(const AttendArgs& args, int span, int begin, int end, int head_begin, int head_end) {
  for (int row = begin; row < end; row += kTileRows) {
    const int last = end - row < kTileRows ? end : row + kTileRows;
    AttendTile<V, Products>(args, span, row, last, head_begin, head_end).run();
  }
}

}  // namespace sluice::cpu::SLUICE_ISA
