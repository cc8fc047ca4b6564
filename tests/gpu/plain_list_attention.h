// A plain kernel of attention over lists of rows, in the order of kernels/cuda/sm90/attend_list_parts.h.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "base/formats/number_formats.h"
#include "kernels/cuda/shared/row_codec.h"
#include "kernels/cuda/sm90/attend_list_parts.h"
#include "kernels/cuda/sm90/sm90_ops.h"
#include "sm90_testing.h"

namespace sluice::gpu_list_attention_test {
namespace {

using namespace sm90_testing;

struct Shape {
  int heads, key_heads, dims, value_dims, value_offset;
  RowCodec codec = RowCodec::kBf16;
  int rope = 0, max_selected = 0, window_tokens = 0,
      first_key = 0;  // max_selected 0: all; window_tokens 0: latent rows

  int row_dims() const { return value_offset > 0 ? value_offset + value_dims : dims; }
  float scale() const { return 1.0F / std::sqrt(static_cast<float>(dims)); }
};
struct TestSpan {
  int rows, first_position;
};

// The items that a row sees: [begin, begin + count), one after the other from `first` of a list of rows of all key
// heads.
struct PlainRow {
  int begin, count, first;
};

__device__ void plain_step(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ std::uint32_t plain_pair(float low, float high) {
  return to_bf16(low).bits | static_cast<std::uint32_t>(to_bf16(high).bits) << 16;
}
__device__ float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ float finite(float m) {
  return m == -INFINITY ? 0.0F : m;
}

// A warp has up to 16 heads of a row that share a key head, and adds block after block. `values` and
// `total` [row][head][value dim], padded to `tiles` times 16 heads, are where running values and those of the segments
// before are kept.
__global__ void plain_attention(RowFormat format, const RowRef* keys, const PlainRow* of_rows, Shape shape, int tiles,
                                const float* q, const float* sink, float factor, float* values, float* total,
                                float* out) {
  const int row = static_cast<int>(blockIdx.x), tile = static_cast<int>(blockIdx.y);
  const int lane = static_cast<int>(threadIdx.x), g = lane / 4, t = lane % 4;
  const int sharing = shape.heads / shape.key_heads, of_key_head = tiles / shape.key_heads;
  const int key_head = tile / of_key_head, first_head = key_head * sharing + tile % of_key_head * 16;
  const int heads = min(16, (key_head + 1) * sharing - first_head);
  const PlainRow list = of_rows[row];
  const RowRef* rows = keys + list.first + key_head * list.count;
  const int end = list.begin + list.count;
  __shared__ float p[16][64];
  const auto query = [&](int head, int d) {
    if (head >= heads || d >= shape.dims) return 0.0F;
    return q[(static_cast<std::size_t>(row) * shape.heads + first_head + head) * shape.dims + d];
  };
  const auto value = [&](int item, int d, int dims, int offset) {
    if (item < list.begin || item >= end || d >= dims) return 0.0F;
    return cuda_ops::decode_value(format, rows[item - list.begin], offset + d);
  };
  const auto at = [&](float* of, int head, int d) -> float* {
    return of + ((static_cast<std::size_t>(row) * tiles + tile) * 16 + head) * shape.value_dims + d;
  };
  float all_m[2] = {-INFINITY, -INFINITY}, all_l[2] = {}, m[2], l[2];
  for (int d = lane; d < 16 * shape.value_dims; d += 32) *at(total, 0, d) = 0.0F;
  __syncwarp();
  int begin = 0;
  while (list.count > 0 && begin < end) {
    const int length = begin < 8192 ? 512 : begin < 65536 ? 1024 : 4096, last = min(begin + length, end);
    if (last <= list.begin) {
      begin += length;
      continue;
    }
    for (int h = 0; h < 2; ++h) m[h] = -INFINITY, l[h] = 0.0F;
    for (int d = lane; d < 16 * shape.value_dims; d += 32) *at(values, 0, d) = 0.0F;
    __syncwarp();
    for (int block = max(begin, list.begin / 64 * 64); block < last; block += 64) {
      float s[8][4], alpha[2];
      for (int n = 0; n < 8; ++n) {
        for (float& of : s[n]) of = 0.0F;
        for (int step = 0; step < (shape.dims + 15) / 16; ++step) {
          std::uint32_t a[4], b[2];
          for (int r = 0; r < 4; ++r) {
            const int d = fragment_input(lane, step, r), item = block + 8 * n + g;
            a[r] = plain_pair(query(fragment_row(lane, r), d), query(fragment_row(lane, r), d + 1));
            if (r % 2 == 0) b[r / 2] = plain_pair(value(item, d, shape.dims, 0), value(item, d + 1, shape.dims, 0));
          }
          plain_step(s[n], a, b);
        }
      }
      for (int h = 0; h < 2; ++h) {
        float most = m[h], sum = 0.0F;
        for (int n = 0; n < 8; ++n) {
          for (int e = 0; e < 2; ++e) {
            const int item = block + 8 * n + 2 * t + e;
            if (item < list.begin || item >= end) s[n][2 * h + e] = -INFINITY;
            most = fmaxf(most, s[n][2 * h + e]);
          }
        }
        for (const int other : {1, 2}) most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, other));
        alpha[h] = exp2_of((m[h] - finite(most)) * factor);
        for (int n = 0; n < 8; ++n) {
          for (int e = 0; e < 2; ++e) {
            const float w = exp2_of(std::fma(s[n][2 * h + e], factor, -(finite(most) * factor)));
            p[g + 8 * h][8 * n + 2 * t + e] = w;
            sum += w;
          }
        }
        l[h] = std::fma(l[h], alpha[h], sum);
        m[h] = most;
      }
      __syncwarp();
      for (int d = 0; d < shape.value_dims; d += 8) {
        float v[4];
        for (int i = 0; i < 4; ++i) v[i] = *at(values, g + i / 2 * 8, d + 2 * t + i % 2) * alpha[i / 2];
        for (int step = 0; step < 4; ++step) {
          std::uint32_t a[4], b[2];
          for (int r = 0; r < 4; ++r) {
            const int k = fragment_input(lane, step, r);
            a[r] = plain_pair(p[fragment_row(lane, r)][k], p[fragment_row(lane, r)][k + 1]);
            if (r % 2 != 0) continue;
            const auto of_key = [&](int i) { return value(block + i, d + g, shape.value_dims, shape.value_offset); };
            b[r / 2] = plain_pair(of_key(k), of_key(k + 1));
          }
          plain_step(v, a, b);
        }
        for (int i = 0; i < 4; ++i) *at(values, g + i / 2 * 8, d + 2 * t + i % 2) = v[i];
      }
      __syncwarp();
    }
    for (int h = 0; h < 2; ++h) {
      for (const int other : {1, 2}) l[h] += __shfl_xor_sync(0xFFFFFFFFU, l[h], other);
      const float most = fmaxf(all_m[h], m[h]);
      const float a = exp2_of((all_m[h] - finite(most)) * factor), b = exp2_of((m[h] - finite(most)) * factor);
      all_l[h] = std::fma(b, l[h], a * all_l[h]);
      for (int d = t; d < shape.value_dims; d += 4) {
        float* sum = at(total, g + 8 * h, d);
        *sum = std::fma(b, *at(values, g + 8 * h, d), a * *sum);
      }
      all_m[h] = most;
    }
    __syncwarp();
    begin += length;
  }
  for (int h = 0; h < 2; ++h) {
    if (g + 8 * h >= heads) continue;
    const int head = first_head + g + 8 * h;
    const float all =
        sink == nullptr ? all_l[h] : all_l[h] + exp2_of(std::fma(sink[head], kLog2E, -(all_m[h] * factor)));
    for (int d = t; d < shape.value_dims; d += 4) {
      const float sum = *at(total, g + 8 * h, d);
      out[(static_cast<std::size_t>(row) * shape.heads + head) * shape.value_dims + d] =
          list.count > 0 ? sum * (1.0F / all) + 0.0F : 0.0F;
    }
  }
}

}  // namespace
}  // namespace sluice::gpu_list_attention_test
