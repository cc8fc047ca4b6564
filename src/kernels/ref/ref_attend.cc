#include <algorithm>
#include <limits>
#include <vector>

#include "base/formats/number_formats.h"
#include "kernels/common/math.h"
#include "kernels/ref/kernels.h"
#include "kernels/ref/lanes16.h"
#include "kernels/ref/tile_order.h"

namespace sluice::ref {
namespace {

struct Partial {  // the result of one head over some keys
  float m = 0.0F, z = 0.0F;
  std::vector<float> v;
};

// Returns the plane that a head reads: that of its key head.
const PlaneView* of_head(const AttendArgs& args, const PlaneView* planes, int head) {
  return planes == nullptr ? nullptr : planes + head / (args.heads / args.key_heads);
}

float score(const AttendArgs& args, const float* q, const float* key) {
  if (args.tiles) return add_slices([&](int d) { return q[d]; }, [&](int d) { return key[d]; }, args.dims, 0.0F);
  return args.bf16 ? lanes16_dot_of_pairs(q, key, args.dims) : lanes16_dot(q, key, args.dims);
}

// `keys`: [count, row_dims]. `first` is where they begin in the list, or among positions. It decides the keys' lanes in
// z's sum, and the place of each key in its pair and in its slice.
Partial attend_split(const AttendArgs& args, const float* q, const std::vector<float>& keys, int row_dims, int count,
                     int first) {
  Partial part{-std::numeric_limits<float>::infinity(), 0.0F,
               std::vector<float>(static_cast<std::size_t>(args.value_dims))};
  const auto key = [&](int i) { return keys.data() + static_cast<std::ptrdiff_t>(i) * row_dims; };
  std::vector<float> weights(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    float& s = weights[static_cast<std::size_t>(i)];
    s = score(args, q, key(i)) * args.scale;
    part.m = s > part.m ? s : part.m;
  }
  Lanes16 z{};
  for (int i = 0; i < count; ++i) {
    float& w = weights[static_cast<std::size_t>(i)];
    w = exp_f32(w - part.m);
    if (args.bf16) w = round_to_bf16(w);
    z[static_cast<std::size_t>((first + i) % 16)] += w;
  }
  part.z = tree_sum(z);
  if (args.tiles) {
    const auto weight = [&](int i) { return weights[static_cast<std::size_t>(i)]; };
    for (int d = 0; d < args.value_dims; ++d) {
      const auto value = [&](int i) { return key(i)[args.value_offset + d]; };
      part.v[static_cast<std::size_t>(d)] = add_slices(weight, value, count, 0.0F, first % 32) + 0.0F;
    }
    return part;
  }
  const auto add = [&](int i) {
    if (i < 0 || i >= count) return;
    for (int d = 0; d < args.value_dims; ++d) {
      float& v = part.v[static_cast<std::size_t>(d)];
      v = std::fma(weights[static_cast<std::size_t>(i)], key(i)[args.value_offset + d], v);
    }
  };
  for (int i = args.bf16 ? -(first % 2) : 0; i < count; i += args.bf16 ? 2 : 1) {
    if (args.bf16) add(i + 1);
    add(i);
  }
  return part;
}

void merge(Partial& total, const Partial& part) {
  const float m = part.m > total.m ? part.m : total.m;
  const float a = exp_f32(total.m - m), b = exp_f32(part.m - m);
  total.m = m;
  total.z = std::fma(b, part.z, a * total.z);
  for (std::size_t d = 0; d < total.v.size(); ++d) total.v[d] = std::fma(b, part.v[d], a * total.v[d]);
}

// The running results of one row's heads.
struct RowState {
  const AttendArgs& args;
  int row, head_begin, head_end;
  bool any = false;
  std::vector<Partial> heads;

  void add_split(const std::vector<float>& keys, int row_dims, int count, int first) {
    for (int h = head_begin; h < head_end; ++h) {
      const float* row_q = args.q + (static_cast<std::ptrdiff_t>(row) * args.heads + h) * args.dims;
      std::vector<float> q(row_q, row_q + args.dims);
      if (args.bf16) std::transform(q.begin(), q.end(), q.begin(), round_to_bf16);
      Partial part = attend_split(args, q.data(), keys, row_dims, count, first);
      Partial& total = heads[static_cast<std::size_t>(h - head_begin)];
      if (any) {
        merge(total, part);
      } else {
        total = std::move(part);
      }
    }
    any = true;
  }

  void finish() {
    for (int h = head_begin; h < head_end; ++h) {
      float* out = args.out + (static_cast<std::ptrdiff_t>(row) * args.heads + h) * args.value_dims;
      const Partial& total = heads[static_cast<std::size_t>(h - head_begin)];
      const float z = any && args.sink != nullptr ? total.z + exp_f32(args.sink[h] - total.m) : total.z;
      for (int d = 0; d < args.value_dims; ++d) out[d] = any ? total.v[static_cast<std::size_t>(d)] / z : 0.0F;
    }
  }
};

void attend_latent(const AttendArgs& args, const RowSpan& span, Position p, RowState& state, std::vector<float>& keys) {
  const PlaneView& latent = *of_head(args, args.latent, state.head_begin);
  const std::int32_t* selected =
      args.selected != nullptr ? args.selected + static_cast<std::ptrdiff_t>(state.row) * args.max_selected : nullptr;
  const int count = selected != nullptr ? args.selected_count[state.row] : (p + 1) / args.tokens_per_row;
  for (int first = selected != nullptr ? 0 : args.first_key; first < count; first += kSplitKeys) {
    const int in_split = std::min(kSplitKeys, count - first);
    for (int i = 0; i < in_split; ++i) {
      const std::int32_t e = selected != nullptr ? selected[first + i] : first + i;
      decode_row(latent.format, latent_row(*args.step, span, latent, e),
                 keys.data() + static_cast<std::ptrdiff_t>(i) * latent.format.dims);
    }
    state.add_split(keys, latent.format.dims, in_split, 0);
  }
}

void attend_window(const AttendArgs& args, const RowSpan& span, Position p, RowState& state, std::vector<float>& keys) {
  const PlaneView& window = *of_head(args, args.window, state.head_begin);
  const auto add = [&](Position first, Position end) {
    for (Position i = first; i < end; ++i) {
      decode_row(window.format, window_row(*args.step, span, window, i),
                 keys.data() + static_cast<std::ptrdiff_t>(i - first) * window.format.dims);
    }
    state.add_split(keys, window.format.dims, end - first, first);
  };
  Position first = std::min(p, std::max(args.first_key, p - args.window_tokens + 1));
  if (args.fault_chunk_anchored_splits && span.first_position > first) {
    add(first, span.first_position);
    first = span.first_position;
  }
  add(first, p + 1);
}

}  // namespace

void attend(const AttendArgs& args, int span_index, int begin, int end, int head_begin, int head_end) {
  const RowSpan& span = args.spans[static_cast<std::size_t>(span_index)];
  const int row_dims = (args.latent != nullptr ? args.latent : args.window)->format.dims;
  std::vector<float> keys(static_cast<std::size_t>(std::max(kSplitKeys, args.window_tokens) * row_dims));
  for (int row = begin; row < end; ++row) {
    const Position p = span.first_position + (row - span.row_begin);
    RowState state{args,     row,   head_begin,
                   head_end, false, std::vector<Partial>(static_cast<std::size_t>(head_end - head_begin))};
    if (args.latent != nullptr) attend_latent(args, span, p, state, keys);
    if (args.window != nullptr) attend_window(args, span, p, state, keys);
    state.finish();
  }
}

}  // namespace sluice::ref
