// A plain kernel of attention over official FP8 rows in the order of the profile sm90
// (kernels/cuda/sm90/attend_rows.h).
#pragma once

#include <cuda_fp16.h>

#include "base/formats/number_formats.h"
#include "kernels/cuda/sm90/attend_rows.h"

namespace sluice::gpu_attention_test {
namespace {

constexpr int kRope = 64;

// A row's keys, one after the other.
struct PlainKeys {
  const RowRef* rows;  // on the device
  const std::int32_t *first, *count;
};

__device__ std::uint16_t plain_half(float x) {
  return __half_as_ushort(__float2half_rn(x));
}
// Returns a value in units of 2^exponent.
__device__ std::uint16_t plain_value(const RowRef& row, int dims, int d, int exponent) {
  const int codes = dims - kRope;
  if (d >= codes) {
    const auto* at = reinterpret_cast<const std::uint8_t*>(row.data) + codes + 2 * (d - codes);
    return plain_half(ldexpf(to_float(bf16{static_cast<std::uint16_t>(at[0] | at[1] << 8)}), -exponent));
  }
  const int scale = static_cast<std::uint8_t>(row.scales[d / 64]);
  return plain_half(ldexpf(e4m3_to_float(static_cast<std::uint8_t>(row.data[d])), scale - 127 - exponent));
}
__device__ void plain_step(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// Returns the exponent of a block; a warp computes it.
__device__ int plain_exponent(const RowRef* rows, int count, int dims) {
  int most = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count * (dims / 64 - 1); i += 32) {
    most =
        max(most, static_cast<int>(static_cast<std::uint8_t>(rows[i / (dims / 64 - 1)].scales[i % (dims / 64 - 1)])));
  }
  const int e = static_cast<int>(__reduce_max_sync(0xFFFFFFFFU, static_cast<unsigned>(most))) - 127;
  return e - min(max(e, -14), 4);
}
__device__ std::uint32_t plain_pair(std::uint16_t low, std::uint16_t high) {
  return low | static_cast<std::uint32_t>(high) << 16;
}
__device__ float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// A warp has 16 heads of a row and adds one block after the other, in the order of the header.
// `values` [row][head][dims] and `total` are where the running values, and those of the segments before, are kept.
__global__ void plain_attention(PlainKeys keys, const float* q, const float* sink, int heads, int dims, float factor,
                                float* values, float* total) {
  const int row = static_cast<int>(blockIdx.x), first_head = static_cast<int>(blockIdx.y) * 16;
  const int lane = static_cast<int>(threadIdx.x), g = lane / 4, t = lane % 4, count = keys.count[row];
  const RowRef* list = keys.rows + keys.first[row];
  __shared__ std::uint16_t p[16][64];
  const auto query = [&](int head, int d) {
    head += first_head;
    return head < heads ? q[(static_cast<std::size_t>(row) * heads + head) * dims + d] : 0.0F;
  };
  __shared__ int powers[16];  // powers of two of the queries
  for (int head = 0; head < 16; ++head) {
    float most = 0.0F;
    for (int d = lane; d < dims; d += 32) most = fmaxf(most, std::fabs(query(head, d)));
    const unsigned bits = __reduce_max_sync(0xFFFFFFFFU, __float_as_uint(most));
    powers[head] = max(static_cast<int>(bits >> 23) - 127, -64);
  }
  __syncwarp();
  const auto rounded_query = [&](int head, int d) { return plain_half(ldexpf(query(head, d), -powers[head])); };
  const float factors[2] = {ldexpf(factor, powers[g]), ldexpf(factor, powers[g + 8])};
  const auto at = [&](float* of, int head, int d) -> float* {
    return of + ((static_cast<std::size_t>(row) * gridDim.y * 16) + first_head + head) * dims + d;
  };
  float all_m[2], all_l[2], m[2], l[2];
  for (int begin = 0; begin < count; begin += 1024) {
    const int end = min(begin + 1024, count);
    for (int h = 0; h < 2; ++h) m[h] = -INFINITY, l[h] = 0.0F;
    int exponent = 0;
    for (int block = begin; block < end; block += 64) {
      const int before = exponent;
      exponent = plain_exponent(list + block, min(64, end - block), dims);
      const auto value = [&](int key, int d) {
        return key < end ? plain_value(list[key], dims, d, exponent) : std::uint16_t{0};
      };
      float s[8][4], alpha[2];
      for (int n = 0; n < 8; ++n) {
        for (float& value : s[n]) value = 0.0F;
        for (int step = 0; step < dims / 16; ++step) {
          std::uint32_t a[4], b[2];
          for (int r = 0; r < 4; ++r) {
            const int d = fragment_input(lane, step, r), key = block + 8 * n + g;
            a[r] = plain_pair(rounded_query(fragment_row(lane, r), d), rounded_query(fragment_row(lane, r), d + 1));
            if (r % 2 != 0) continue;
            b[r / 2] = plain_pair(value(key, d), value(key, d + 1));
          }
          plain_step(s[n], a, b);
        }
        for (float& of : s[n]) of = ldexpf(of, exponent);
      }
      for (int h = 0; h < 2; ++h) {
        float most = m[h], sum = 0.0F;
        for (int n = 0; n < 8; ++n) {
          for (int e = 0; e < 2; ++e) {
            if (block + 8 * n + 2 * t + e >= end) s[n][2 * h + e] = -INFINITY;
            most = fmaxf(most, s[n][2 * h + e]);
          }
        }
        for (const int other : {1, 2}) most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, other));
        alpha[h] = exp2_of((m[h] - most) * factors[h]);
        for (int n = 0; n < 8; ++n) {
          for (int e = 0; e < 2; ++e) {
            const float w = exp2_of(std::fma(s[n][2 * h + e], factors[h], -(most * factors[h])));
            p[g + 8 * h][8 * n + 2 * t + e] = plain_half(w);
            sum += w;
          }
        }
        for (const int other : {1, 2}) sum += __shfl_xor_sync(0xFFFFFFFFU, sum, other);
        l[h] = std::fma(l[h], alpha[h], sum);
        m[h] = most;
      }
      __syncwarp();
      for (int d = 0; d < dims; d += 8) {
        float v[4];
        for (int i = 0; i < 4; ++i) {
          v[i] = block == begin
                     ? 0.0F
                     : *at(values, g + i / 2 * 8, d + 2 * t + i % 2) * ldexpf(alpha[i / 2], before - exponent);
        }
        for (int step = 0; step < 4; ++step) {
          std::uint32_t a[4], b[2];
          for (int r = 0; r < 4; ++r) {
            const int k = fragment_input(lane, step, r), key = block + k;
            a[r] = plain_pair(p[fragment_row(lane, r)][k], p[fragment_row(lane, r)][k + 1]);
            if (r % 2 != 0) continue;
            b[r / 2] = plain_pair(value(key, d + g), value(key + 1, d + g));
          }
          plain_step(v, a, b);
        }
        for (int i = 0; i < 4; ++i) *at(values, g + i / 2 * 8, d + 2 * t + i % 2) = v[i];
      }
      __syncwarp();
    }
    for (int h = 0; h < 2; ++h) {
      m[h] = ldexpf(m[h], powers[g + 8 * h]);
      const float most = begin == 0 ? m[h] : fmaxf(all_m[h], m[h]);
      const float a = begin == 0 ? 0.0F : exp2_of((all_m[h] - most) * factor), b = exp2_of((m[h] - most) * factor);
      all_l[h] = begin == 0 ? l[h] : std::fma(b, l[h], a * all_l[h]);
      for (int d = 2 * t; d < dims; d += d % 2 == 0 ? 1 : 7) {
        const float value = ldexpf(*at(values, g + 8 * h, d), exponent);
        float* sum = at(total, g + 8 * h, d);
        *sum = begin == 0 ? value : std::fma(b, value, a * *sum);
      }
      all_m[h] = most;
    }
  }
  for (int h = 0; h < 2; ++h) {
    const int head = first_head + g + 8 * h;
    if (head >= heads) continue;
    const float l_sink =
        sink == nullptr ? all_l[h] : all_l[h] + exp2_of(std::fma(sink[head], kLog2E, -(all_m[h] * factor)));
    for (int d = 2 * t; d < dims; d += d % 2 == 0 ? 1 : 7) *at(total, g + 8 * h, d) *= 1.0F / l_sink;
  }
}

}  // namespace
}  // namespace sluice::gpu_attention_test
