// The base of both forms of attend_keys() on the CPU: some rows of one span, and heads that share a key head. `out`
// holds the weighted values of the keys that a row has seen, until finish() divides them by the sum of their weights.
// Used by attend_columns.h and attend_tile.h.
#pragma once

#include <cstddef>

#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/math.h"

namespace sluice::cpu::SLUICE_ISA {

class AttendRows {
 protected:
  [[gnu::always_inline]] AttendRows(const AttendArgs& args, int span, int begin, int end, int head_begin, int head_end)
      : args_(args),
        span_(args.spans[static_cast<std::size_t>(span)]),
        begin_(begin),
        rows_(end - begin),
        head_begin_(head_begin),
        heads_(head_end - head_begin),
        latent_(plane_of(args.latent)),
        window_(plane_of(args.window)),
        first_(span_.first_position + (begin - span_.row_begin)) {}

  // The plane of the key head that these heads share.
  const PlaneView* plane_of(const PlaneView* planes) const {
    return planes == nullptr ? nullptr : planes + head_begin_ / (args_.heads / args_.key_heads);
  }
  Position position(int r) const { return first_ + r; }
  float* out(int r, int h) const {
    return args_.out + (static_cast<std::ptrdiff_t>(begin_ + r) * args_.heads + head_begin_ + h) * args_.value_dims;
  }

  template <class V>
  void finish(int r) {
    const bool any = (seen_ >> r & 1U) != 0;
    for (int h = 0; h < heads_; ++h) {
      V z = V::broadcast(sum_[r * heads_ + h]);
      if (any && args_.sink != nullptr) {
        z = z + exp(V::broadcast(args_.sink[head_begin_ + h]) - V::broadcast(max_[r * heads_ + h]));
      }
      float* o = out(r, h);
      for (int d = 0; d < args_.value_dims; d += 16) {
        const int left = args_.value_dims - d;
        store_up_to_16(any ? load_up_to_16<V>(o + d, left) / z : V::zero(), o + d, left);
      }
    }
  }

  const AttendArgs& args_;
  const RowSpan& span_;
  const int begin_, rows_, head_begin_, heads_;
  const PlaneView *latent_, *window_;
  const Position first_;
  unsigned seen_ = 0;     // bit r: row r has had a split
  float* max_ = nullptr;  // [rows_][heads_]
  float* sum_ = nullptr;
};

}  // namespace sluice::cpu::SLUICE_ISA
