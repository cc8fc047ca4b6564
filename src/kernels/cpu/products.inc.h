// The two products of attention in register tiles over sixteen lanes V: queries with keys along the dims (each pair one
// lanes16), and weights with values along the keys (each dim one chain). Keys are given by pointer: rows of f32, padded
// with zeros to a multiple of 16 dims.
#pragma once

#include "kernels/cpu/math.inc.h"

namespace sluice::cpu {

template <class V, int H>
[[gnu::always_inline]] inline void dot_tile(const float* q, std::ptrdiff_t ldq, const float* const* keys, int dims,
                                            float* out, std::ptrdiff_t stride) {
  V acc[H][4];
  for (int h = 0; h < H; ++h) {
    for (int k = 0; k < 4; ++k) acc[h][k] = V::zero();
  }
  const float *k0 = keys[0], *k1 = keys[1], *k2 = keys[2], *k3 = keys[3];
  for (int d = 0; d < dims; d += 16) {
    const V v0 = V::load(k0 + d), v1 = V::load(k1 + d), v2 = V::load(k2 + d), v3 = V::load(k3 + d);
    for (int h = 0; h < H; ++h) {
      const V a = V::load(q + h * ldq + d);
      acc[h][0] = fma(a, v0, acc[h][0]);
      acc[h][1] = fma(a, v1, acc[h][1]);
      acc[h][2] = fma(a, v2, acc[h][2]);
      acc[h][3] = fma(a, v3, acc[h][3]);
    }
  }
  store_tree_sums<H>(acc, out, stride);
}

// out[h * stride + i] = lanes16(q_h * key_i) for `heads` heads and keys [first, last), multiples of 4.
template <class V>
[[gnu::always_inline]] inline void dot_products(const float* q, std::ptrdiff_t ldq, int heads, const float* const* keys,
                                                int first, int last, int dims, float* out, std::ptrdiff_t stride) {
  constexpr int kH = V::kDotHeads;
  for (int i = first; i < last; i += 4) {
    int h = 0;
    for (; h + kH <= heads; h += kH) dot_tile<V, kH>(q + h * ldq, ldq, keys + i, dims, out + h * stride + i, stride);
    if constexpr (kH > 1) {
      for (; h < heads; ++h) dot_tile<V, 1>(q + h * ldq, ldq, keys + i, dims, out + h * stride + i, stride);
    }
  }
}

// acc[h][j] = chain over i in [first, last) of weights[h * stride + i] * key_i[d + 16 j ...].
template <class V, int H, int D>
[[gnu::always_inline]] inline void value_tile(const float* weights, std::ptrdiff_t stride, const float* const* keys,
                                              int first, int last, int d, V (&acc)[H][D]) {
  for (int h = 0; h < H; ++h) {
    for (int j = 0; j < D; ++j) acc[h][j] = V::zero();
  }
  for (int i = first; i < last; ++i) {
    const float* key = keys[i] + d;
    V value[D];
    for (int j = 0; j < D; ++j) value[j] = V::load(key + 16 * j);
    for (int h = 0; h < H; ++h) {
      const V w = V::broadcast(weights[h * stride + i]);
      for (int j = 0; j < D; ++j) acc[h][j] = fma(w, value[j], acc[h][j]);
    }
  }
}

// For every tile of `heads` heads and `dims` values, those from `offset` on of each key: use(head, d, number of dims
// left from d on, the chain's 16 values).
template <class V, int H, class Use>
[[gnu::always_inline]] inline void weighted_values_of_heads(const float* weights, std::ptrdiff_t stride, int head,
                                                            const float* const* keys, int first, int last, int offset,
                                                            int dims, const Use& use) {
  constexpr int kD = V::kValueVectors;
  int d = 0;
  for (; d + 16 * kD <= dims; d += 16 * kD) {
    V acc[H][kD];
    value_tile<V, H, kD>(weights + head * stride, stride, keys, first, last, offset + d, acc);
    for (int h = 0; h < H; ++h) {
      for (int j = 0; j < kD; ++j) use(head + h, d + 16 * j, dims - d - 16 * j, acc[h][j]);
    }
  }
  for (; d < dims; d += 16) {
    V acc[H][1];
    value_tile<V, H, 1>(weights + head * stride, stride, keys, first, last, offset + d, acc);
    for (int h = 0; h < H; ++h) use(head + h, d, dims - d, acc[h][0]);
  }
}

template <class V, class Use>
[[gnu::always_inline]] inline void weighted_values(const float* weights, std::ptrdiff_t stride, int heads,
                                                   const float* const* keys, int first, int last, int offset, int dims,
                                                   const Use& use) {
  constexpr int kH = V::kValueHeads;
  int h = 0;
  for (; h + kH <= heads; h += kH) {
    weighted_values_of_heads<V, kH>(weights, stride, h, keys, first, last, offset, dims, use);
  }
  for (; h < heads; ++h) weighted_values_of_heads<V, 1>(weights, stride, h, keys, first, last, offset, dims, use);
}

}  // namespace sluice::cpu
