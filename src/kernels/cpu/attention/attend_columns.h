// Attention in the order of AMX tiles (AttendArgs::tiles of kernels/ops/attention.h), over sixteen lanes V.
//
// A column is a head of a row. Sixteen columns make a block, a lane each, and two blocks are computed together. Their
// scores with all keys at hand, [key][column], become weights in place, which then multiply the values. The keys of a
// split, or of the window, lie in slots. Item i of a split's list is in slot i. Position p of the window is in slot p -
// `base`, a multiple of 32. Rows of a span share keys; a key that a column's row does not see gets weight 0.
//
// A Products holds the keys of the split at hand and multiplies them:
//   bytes(shape, slots, shared)              bytes of scratch for `slots` keys, and `shared` rows decoded once
//   Products(shape, slots, memory)
//   begin(), then decode(slot, format, row) or zero(slot) for each slot, finish(slots), finite()   see bring() below
//   share(entry, format, row), take(slot, entry)   decodes a latent row once; copies it to a slot
//   queries(b, column, q)                    sets a column of block b, 0 or 1; null: no such column
//   scores(blocks, first, last, s)           writes scores of slots [first, last), multiples of 32, to s[b] + 16 * slot
//   values(blocks, first, last, s, use)      calls use(b, column, d, count, values): 16 dims from d, `count` real
// Used by attend_columns.isa.cc, attend_tiles.isa.cc and kernels/cpu/avx512vbmi/column_tiles.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention/attend_rows.h"
#include "kernels/cpu/cpu_rows.h"
#include "kernels/cpu/linear/tiles.h"
#include "kernels/weights/tile_inputs.h"

namespace sluice::cpu::SLUICE_ISA {

// The dims of a row of keys, and the place of its values.
struct ColumnShape {
  int dims, row_dims, value_dims, value_offset;

  [[gnu::always_inline]] int slices() const { return slices_of(row_dims); }
};

template <class V, class Products>
class AttendColumns : AttendRows {
  using I = typename V::Int;
  static constexpr int kBlock = 16, kSpanRows = 16, kRowsAhead = 8;
  // Most bytes of selected rows that are decoded once for all rows.
  static constexpr std::size_t kSharedBytes = std::size_t{1} << 20;

  struct Keys {
    int first, last;  // slots
  };

 public:
  AttendColumns(const AttendArgs& args, int span, int begin, int end, int head_begin, int head_end)
      : AttendRows(args, span, begin, end, head_begin, head_end),
        shape_{args.dims, (latent_ != nullptr ? latent_ : window_)->format.dims, args.value_dims, args.value_offset},
        slots_(slots_of(window_ != nullptr ? args.window_tokens + kSpanRows + 2 * kSliceInputs : 0)),
        shared_(args.selected != nullptr && !sees_all_entries() ? shared_entries() : 0),
        products_(shape_, slots_, carve()) {}

  void run() {
    if (latent_ != nullptr) {
      if (args_.selected == nullptr) {
        attend_entries(args_.first_key, true);
      } else if (sees_all_entries()) {
        attend_entries(0, false);
      } else {
        attend_selected();
      }
    }
    if (window_ != nullptr) attend_window();
    for (int r = 0; r < rows_; ++r) finish<V>(r);
  }

 private:
  static int slots_of(int window) { return (window > kSplitKeys ? window : kSplitKeys) / kSliceInputs * kSliceInputs; }
  // Carves the scratch; returns the part for products_.
  std::byte* carve() {
    const std::size_t columns = static_cast<std::size_t>(rows_ * heads_ + kBlock);
    const std::size_t scores = kBlock * static_cast<std::size_t>(slots_);
    float* p = thread_scratch(Products::bytes(shape_, slots_, shared_) / sizeof(float) + 2 * scores + 2 * columns + 32);
    for (float*& s : scores_) s = p, p += scores;
    max_ = p;
    sum_ = max_ + (columns + 15) / 16 * 16;
    return reinterpret_cast<std::byte*>(sum_ + (columns + 15) / 16 * 16);
  }
  const float* query(int r, int h) const {
    return args_.q + (static_cast<std::ptrdiff_t>(begin_ + r) * args_.heads + head_begin_ + h) * args_.dims;
  }
  const std::int32_t* selected(int r) const {
    return args_.selected + static_cast<std::ptrdiff_t>(begin_ + r) * args_.max_selected;
  }
  int visible_entries(int r) const { return (position(r) + 1) / args_.tokens_per_row; }

  // True if the rows have selected all entries that they see: entry e is then item e of each list.
  bool sees_all_entries() const {
    for (int r = 0; r < rows_; ++r) {
      if (args_.selected_count[begin_ + r] != visible_entries(r)) return false;
    }
    return true;
  }
  // The number of latent entries to decode for all rows at once: those that the last row sees, if that is less work
  // than decoding each row's own.
  int shared_entries() const {
    const int visible = visible_entries(rows_ - 1);
    int wanted = 0;
    for (int r = 0; r < rows_; ++r) wanted += args_.selected_count[begin_ + r];
    const std::size_t bytes = static_cast<std::size_t>(visible) * static_cast<std::size_t>(shape_.slices()) * kTileLine;
    return bytes <= kSharedBytes && visible < wanted ? visible : 0;
  }

  // Calls bring(first row, last row) and add() with the same rows. If a key is not finite, each row has its own keys
  // brought alone: a key that it does not see would be NaN times 0.
  template <class Bring, class Add>
  void for_rows(const Bring& bring, const Add& add) {
    bring(0, rows_);
    if (rows_ == 1 || products_.finite()) return add(0, rows_);
    for (int r = 0; r < rows_; ++r) {
      bring(r, r + 1);
      add(r, r + 1);
    }
  }
  // Fills the slots [first, last) by decode(slot), and the other slots of whole slices with zeros.
  template <class Decode>
  void bring(int first, int last, const Decode& decode) {
    products_.begin();
    const int slots = (last + kSliceInputs - 1) / kSliceInputs * kSliceInputs;
    for (int i = 0; i < first; ++i) products_.zero(i);
    for (int i = first; i < last; ++i) decode(i);
    for (int i = last; i < slots; ++i) products_.zero(i);
    products_.finish(slots);
  }

  RowRef latent(std::int32_t e) const { return latent_row(*args_.step, span_, *latent_, e); }

  // Attends to the entries from `from` on that each row sees.
  void attend_entries(int from, bool may_fault) {
    // The planted fault (Exec::fault_future_entries): all rows see the entries that the last row sees.
    const bool fault = may_fault && span_.rows <= args_.fault_future_entries;
    const auto seen = [&](int r) { return visible_entries(fault ? rows_ - 1 : r); };
    for (int first = from; first < seen(rows_ - 1); first += kSplitKeys) {
      const auto count = [&](int r) {
        const int left = seen(r) - first;
        return left < 0 ? 0 : left < kSplitKeys ? left : kSplitKeys;
      };
      for_rows(
          [&](int, int end) {
            bring(0, count(end - 1), [&](int i) { products_.decode(i, latent_->format, latent(first + i)); });
          },
          [&](int begin, int end) { add_keys(begin, end, [&](int r) { return Keys{0, count(r)}; }); });
    }
  }

  void attend_selected() {
    for (int e = 0; e < shared_; ++e) products_.share(e, latent_->format, latent(e));
    for (int r = 0; r < rows_; ++r) {
      const std::int32_t* list = selected(r);
      const int count = args_.selected_count[begin_ + r];
      for (int first = 0; first < count; first += kSplitKeys) {
        const int n = count - first < kSplitKeys ? count - first : kSplitKeys;
        bring(0, n, [&](int i) {
          if (shared_ > 0) return products_.take(i, list[first + i]);
          if (first + i + kRowsAhead < count) ask_for(list[first + i + kRowsAhead]);
          products_.decode(i, latent_->format, latent(list[first + i]));
        });
        add_keys(r, r + 1, [&](int) { return Keys{0, n}; });
      }
    }
  }
  // Selected rows lie anywhere, so that no processor fetches them by itself.
  void ask_for(std::int32_t e) const {
    const RowRef row = latent(e);
    for (int i = 0; i < latent_->format.data_bytes; i += 64) __builtin_prefetch(row.data + i);
    __builtin_prefetch(row.scales);
  }

  void attend_window() {
    Position base = 0;
    const auto keys = [&](int r, bool before, bool after) {
      const Position begin = window_begin(r), cut = window_cut(begin);
      return Keys{(before ? begin : cut) - base, (after ? position(r) + 1 : cut) - base};
    };
    for_rows(
        [&](int begin, int end) {
          base = window_begin(begin) / kSliceInputs * kSliceInputs;
          bring(window_begin(begin) - base, position(end - 1) + 1 - base, [&](int i) {
            products_.decode(i, window_->format, window_row(*args_.step, span_, *window_, base + i));
          });
        },
        [&](int begin, int end) {
          if (args_.fault_chunk_anchored_splits) {
            add_keys(begin, end, [&](int r) { return keys(r, true, false); });
            add_keys(begin, end, [&](int r) { return keys(r, false, true); });
          } else {
            add_keys(begin, end, [&](int r) { return keys(r, true, true); });
          }
        });
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

  // A block of columns and the slots that each of them sees.
  struct Block {
    int first = 0, count = 0;                                  // columns
    int least = 0, most = 0, inner_least = 0, inner_most = 0;  // [least, most): slots that any sees; inner: all see
    alignas(64) std::int32_t from[kBlock]{}, to[kBlock]{};
    float* out[kBlock]{};  // the outputs of columns with keys
    float old_factor[kBlock], new_factor[kBlock];
    unsigned seen = 0;  // bit j: column j has had a split before
  };

  // Adds one split of rows [begin, end): for row r the slots keys(r), which may be none.
  template <class KeysOf>
  void add_keys(int begin, int end, const KeysOf& keys) {
    for (int column = begin * heads_; column < end * heads_; column += 2 * kBlock) {
      const int left = end * heads_ - column;
      Block blocks[2];
      const int count = left > kBlock ? 2 : 1;
      for (int b = 0; b < count; ++b) make_block(blocks[b], column + b * kBlock, left - b * kBlock, keys);
      add_keys_of_blocks(blocks, count);
    }
    for (int r = begin; r < end; ++r) seen_ |= keys(r).first < keys(r).last ? 1U << r : 0U;
  }

  template <class KeysOf>
  void make_block(Block& block, int first, int left, const KeysOf& keys) const {
    block.first = first;
    block.count = left < kBlock ? left : kBlock;
    block.least = block.inner_most = slots_;
    for (int j = 0; j < block.count; ++j) {
      const int r = (first + j) / heads_;
      const Keys of_row = keys(r);
      if ((seen_ >> r & 1U) != 0) block.seen |= 1U << j;
      block.from[j] = of_row.first, block.to[j] = of_row.last;
      if (of_row.first >= of_row.last) {
        block.from[j] = block.to[j] = block.inner_most = 0;
        continue;
      }
      block.out[j] = out(r, (first + j) % heads_);
      block.least = block.least < of_row.first ? block.least : of_row.first;
      block.most = block.most > of_row.last ? block.most : of_row.last;
      block.inner_least = block.inner_least > of_row.first ? block.inner_least : of_row.first;
      block.inner_most = block.inner_most < of_row.last ? block.inner_most : of_row.last;
    }
  }

  void add_keys_of_blocks(Block* blocks, int count) {
    int first = slots_, last = 0;
    for (int b = 0; b < count; ++b) {
      first = first < blocks[b].least ? first : blocks[b].least;
      last = last > blocks[b].most ? last : blocks[b].most;
    }
    if (first >= last) return;
    first = first / kSliceInputs * kSliceInputs;
    last = (last + kSliceInputs - 1) / kSliceInputs * kSliceInputs;
    for (int b = 0; b < count; ++b) {
      for (int j = 0; j < kBlock; ++j) {
        const int column = blocks[b].first + j;
        products_.queries(b, j, j < blocks[b].count ? query(column / heads_, column % heads_) : nullptr);
      }
    }
    products_.scores(count, first, last, scores_);
    for (int b = 0; b < count; ++b) softmax(blocks[b], scores_[b], first, last);
    products_.values(count, first, last, scores_, [&](int b, int j, int d, int n, V v) __attribute__((always_inline)) {
      const Block& block = blocks[b];
      if (block.out[j] == nullptr) return;
      float* o = block.out[j] + d;
      // The order's last step (kernels/ops/attention.h), which makes a -0 a +0.
      v = v + V::zero();
      if ((block.seen >> j & 1U) != 0) {
        const V old = V::broadcast(block.old_factor[j]) * load_up_to_16<V>(o, n);
        v = fma(V::broadcast(block.new_factor[j]), v, old);
      }
      store_up_to_16(v, o, n);
    });
  }

  // Turns a block's scores of slots [first, last) into weights, and adds their maximum and sum to the columns'.
  void softmax(Block& block, float* s, int first, int last) {
    const V scale = V::broadcast(args_.scale), nothing = V::broadcast(-__builtin_inff());
    const I from = I::load(block.from), to = I::load(block.to);
    const auto each = [&](const auto& visit) __attribute__((always_inline)) {
      const auto some = [&](int i) __attribute__((always_inline)) {
        return greater(I::broadcast(i + 1), from) & greater(to, I::broadcast(i));
      };
      int i = first;
      for (; i < last && i < block.inner_least; ++i) visit(i, [&](V v, V other) { return select(some(i), v, other); });
      for (; i < last && i < block.inner_most; ++i) visit(i, [](V v, V) { return v; });
      for (; i < last; ++i) visit(i, [&](V v, V other) { return select(some(i), v, other); });
    };
    V m = nothing;
    each([&](int i, const auto& inside) __attribute__((always_inline)) {
      const V scaled = V::load(s + kBlock * i) * scale;
      scaled.store(s + kBlock * i);
      m = max_of(inside(scaled, nothing), m);
    });
    alignas(64) float z[kBlock][kBlock];  // z[l]: the sum of lane l of lanes16 (kernels/device/exec.h)
    for (auto& lane : z) V::zero().store(lane);
    each([&](int i, const auto& inside) __attribute__((always_inline)) {
      const V weight = as_float(shift_left<16>(bf16_codes(exp(V::load(s + kBlock * i) - m))));
      const V w = inside(weight, V::zero());
      w.store(s + kBlock * i);
      (V::load(z[i % kBlock]) + w).store(z[i % kBlock]);
    });
    for (int half = kBlock / 2; half > 0; half /= 2) {
      for (int l = 0; l < half; ++l) (V::load(z[l]) + V::load(z[l + half])).store(z[l]);
    }
    merge(block, m, V::load(z[0]));
  }

  void merge(Block& block, V m, V z) {
    float *max = max_ + block.first, *sum = sum_ + block.first;
    const V old_max = load_up_to_16<V>(max, block.count), old_sum = load_up_to_16<V>(sum, block.count);
    const V merged = max_of(m, old_max);
    const V a = exp(old_max - merged), b = exp(m - merged);
    a.store(block.old_factor);
    b.store(block.new_factor);
    const auto any = greater(I::load(block.to), I::load(block.from));
    alignas(64) std::int32_t seen[kBlock];
    for (int j = 0; j < kBlock; ++j) seen[j] = static_cast<std::int32_t>(block.seen >> j & 1U);
    const auto before = greater(I::load(seen), I::broadcast(0));
    const V new_max = select(before, merged, m), new_sum = select(before, fma(b, z, a * old_sum), z);
    store_up_to_16(select(any, new_max, old_max), max, block.count);
    store_up_to_16(select(any, new_sum, old_sum), sum, block.count);
  }

  const ColumnShape shape_;
  const int slots_, shared_;
  float* scores_[2] = {};  // [slots_][16] for each block
  Products products_;
};

template <class V, class Products>
void attend_columns(const AttendArgs& args, int span, int begin, int end, int head_begin, int head_end) {
  constexpr int kRows = 16;
  for (int row = begin; row < end; row += kRows) {
    const int last = end - row < kRows ? end : row + kRows;
    AttendColumns<V, Products>(args, span, row, last, head_begin, head_end).run();
  }
}

}  // namespace sluice::cpu::SLUICE_ISA
