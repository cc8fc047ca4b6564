#include "kernels/ops/attend_expanded.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/common/math.h"
#include "kernels/ref/kernels.h"
#include "kernels/ref/lanes16.h"

namespace sluice::ref {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

struct ExpandedPartial {  // the result of one row and head over some keys
  float m = kNothing, z = 0.0F;
  std::vector<float> v;
};

// Attends to keys [first, first + count) of those at `kv`.
ExpandedPartial attend_split(const AttendExpandedArgs& args, const float* q, const float* kv, int first, int count) {
  const int row_floats = expanded_row_floats(args.key_dims, args.value_dims);
  const auto row = [&](int i) { return kv + static_cast<std::ptrdiff_t>(first + i) * row_floats; };
  ExpandedPartial part;
  part.v.resize(static_cast<std::size_t>(args.value_dims));
  std::vector<float> scores;
  for (int i = 0; i < count; ++i) {
    scores.push_back(lanes16_dot(q, row(i), args.key_dims) * args.scale);
    part.m = scores.back() > part.m ? scores.back() : part.m;
  }
  Lanes16 z{};
  for (int i = 0; i < count; ++i) {
    const float w = exp_f32(scores[static_cast<std::size_t>(i)] - part.m);
    z[static_cast<std::size_t>(i % 16)] += w;
    const float* value = row(i) + expanded_value_offset(args.key_dims);
    for (float& v : part.v) v = std::fma(w, *value++, v);
  }
  part.z = tree_sum(z);
  return part;
}

void add(ExpandedPartial& total, const ExpandedPartial& part) {
  const float m = part.m > total.m ? part.m : total.m;
  const float a = exp_f32(total.m - m), b = exp_f32(part.m - m);
  total.m = m;
  total.z = std::fma(b, part.z, a * total.z);
  for (std::size_t d = 0; d < total.v.size(); ++d) total.v[d] = std::fma(b, part.v[d], a * total.v[d]);
}

}  // namespace

void attend_expanded(const AttendExpandedArgs& args, int head, int begin, int end) {
  const float* kv =
      args.kv + static_cast<std::ptrdiff_t>(head) * args.keys * expanded_row_floats(args.key_dims, args.value_dims);
  for (int row = begin; row < end; ++row) {
    const float* q = args.q + row * args.ldq + static_cast<std::ptrdiff_t>(head) * args.key_dims;
    float* out = args.out + row * args.ldo + static_cast<std::ptrdiff_t>(head) * args.value_dims;
    float& lse = args.lse[row * args.ld_lse + head];
    const int seen = std::min(args.keys, args.visible + row);
    if (seen <= 0) {
      std::fill_n(out, args.value_dims, 0.0F);
      lse = kNothing;
      continue;
    }
    ExpandedPartial total;
    for (int first = 0; first < seen; first += kExpandedSplitKeys) {
      ExpandedPartial part = attend_split(args, q, kv, first, std::min(kExpandedSplitKeys, seen - first));
      if (first == 0) {
        total = std::move(part);
      } else {
        add(total, part);
      }
    }
    for (int d = 0; d < args.value_dims; ++d) out[d] = total.v[static_cast<std::size_t>(d)] / total.z;
    lse = total.m + log_f32(total.z);
  }
}

void merge_attention(const MergeAttentionArgs& args, int begin, int end) {
  for (int row = begin; row < end; ++row) {
    const float* part = args.part + static_cast<std::ptrdiff_t>(row) * args.value_dims;
    float* total = args.total + static_cast<std::ptrdiff_t>(row) * args.value_dims;
    const float a = args.total_lse[row], b = args.part_lse[row];
    if (a == kNothing) {
      if (b == kNothing) {
        std::fill_n(total, args.value_dims, 0.0F);
      } else {
        std::copy_n(part, args.value_dims, total);
      }
      args.total_lse[row] = b;
    } else if (b != kNothing) {
      const float m = b > a ? b : a;
      const float x = exp_f32(a - m), y = exp_f32(b - m), sum = x + y;
      for (int d = 0; d < args.value_dims; ++d) total[d] = std::fma(y, part[d], x * total[d]) / sum;
      args.total_lse[row] = m + log_f32(sum);
    }
  }
}

}  // namespace sluice::ref
