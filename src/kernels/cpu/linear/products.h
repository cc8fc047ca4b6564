// The two products of attention in register tiles over sixteen lanes V: queries with keys along the dims (each is one
// lanes16), and weights with values along the keys (each dim is one chain). Keys are given by pointer.
//
// A Products converts rows of keys and queries to cells, and multiplies them:
//   Cell, kStep (dims of a vector of cells), kPairs (true for AttendArgs::bf16's order)
//   kDotHeads, kValueHeads, kValueVectors, kLeastValueVectors   the register blocks that fit
//   cells(n), stride(n)                  the cells of a row of n dims, and from one row to the next in scratch
//   key(format, row, into, scratch)      returns the row's cells, in `into` or in the cache
//   query(q, n, into)                    makes the cells of a query
//   rounded(w)                           a weight in the form that multiplies values
//   dot<H>(q, ldq, keys, dims, acc)      acc[h][k] += dims of query h and key k
//   pack_weights(weights, first, last)   turns weights into the form that a value tile reads, in place
//   value<H, D>(weights, stride, keys, first, last, d, acc)   acc[h][j] = chain of weights[h * stride + i] and
//                                                             key_i[d + 16 j ...]
// Used by kernels/cpu/attention/attend_expanded.isa.cc and kernels/cpu/attention/attend_tile.h.
#pragma once

#include "kernels/cpu/cpu_rows.h"
#include "kernels/cpu/math.h"

namespace sluice::cpu::SLUICE_ISA {

// Rows of f32, padded with zeros to a multiple of kStep dims. kIsPairs: the second half of each 32 dims goes before the
// first, and the odd one of two keys before the even one.
template <class V, bool kIsPairs>
struct FloatProducts {
  using Cell = float;
  static constexpr bool kPairs = kIsPairs;
  static constexpr int kStep = kPairs ? 32 : 16;
  static constexpr int kDotHeads = V::kDotHeads, kValueHeads = V::kValueHeads, kValueVectors = V::kValueVectors;
  static constexpr int kLeastValueVectors = 1;

  [[gnu::always_inline]] static int cells(int dims) { return (dims + kStep - 1) / kStep * kStep; }
  // The stride is no power of two, so that a column of decoded rows does not fall into a few sets of the cache.
  [[gnu::always_inline]] static std::ptrdiff_t stride(int dims) { return cells(dims) + 16; }

  [[gnu::always_inline]] static const float* key(const RowFormat& format, RowRef row, float* into, float*) {
    const float* values = key_values<V>(format, row, into);
    if (padded_dims(format.dims) < cells(format.dims)) V::zero().store(into + padded_dims(format.dims));
    return values;
  }
  [[gnu::always_inline]] static void query(const float* q, int dims, float* into) {
    for (int d = 0; d < cells(dims); d += 16) {
      rounded(d < dims ? load_up_to_16<V>(q + d, dims - d) : V::zero()).store(into + d);
    }
  }
  [[gnu::always_inline]] static V rounded(V w) {
    if constexpr (kPairs) return as_float(shift_left<16>(bf16_codes(w)));
    return w;
  }

  template <int H>
  [[gnu::always_inline]] static void dot(const float* q, std::ptrdiff_t ldq, const float* const* keys, int dims,
                                         V (&acc)[H][4]) {
    for (int d = 0; d < dims; d += kStep) {
      if constexpr (kPairs) dot_16(q, ldq, keys, d + 16, acc);
      dot_16(q, ldq, keys, d, acc);
    }
  }

  static void pack_weights(float*, int, int) {}

  template <int H, int D>
  [[gnu::always_inline]] static void value(const float* weights, std::ptrdiff_t stride, const float* const* keys,
                                           int first, int last, int d, V (&acc)[H][D]) {
    if constexpr (kPairs) {
      for (int i = first / 2 * 2; i < last; i += 2) {
        add_value(weights, stride, keys, i + 1, d, acc);
        add_value(weights, stride, keys, i, d, acc);
      }
    } else {
      for (int i = first; i < last; ++i) add_value(weights, stride, keys, i, d, acc);
    }
  }

 private:
  template <int H>
  [[gnu::always_inline]] static void dot_16(const float* q, std::ptrdiff_t ldq, const float* const* keys, int d,
                                            V (&acc)[H][4]) {
    V key[4];
    for (int k = 0; k < 4; ++k) key[k] = V::load(keys[k] + d);
    for (int h = 0; h < H; ++h) {
      const V a = V::load(q + h * ldq + d);
      for (int k = 0; k < 4; ++k) acc[h][k] = fma(a, key[k], acc[h][k]);
    }
  }
  template <int H, int D>
  [[gnu::always_inline]] static void add_value(const float* weights, std::ptrdiff_t stride, const float* const* keys,
                                               int i, int d, V (&acc)[H][D]) {
    const float* key = keys[i] + d;
    V value[D];
    for (int j = 0; j < D; ++j) value[j] = V::load(key + 16 * j);
    for (int h = 0; h < H; ++h) {
      const V w = V::broadcast(weights[h * stride + i]);
      for (int j = 0; j < D; ++j) acc[h][j] = fma(w, value[j], acc[h][j]);
    }
  }
};

template <class V, class Products, int H>
[[gnu::always_inline]] inline void dot_tile(const typename Products::Cell* q, std::ptrdiff_t ldq,
                                            const typename Products::Cell* const* keys, int dims, float* out,
                                            std::ptrdiff_t stride) {
  V acc[H][4];
  for (int h = 0; h < H; ++h) {
    for (int k = 0; k < 4; ++k) acc[h][k] = V::zero();
  }
  Products::template dot<H>(q, ldq, keys, dims, acc);
  store_tree_sums<H>(acc, out, stride);
}

// out[h * stride + i] = lanes16(q_h * key_i) for `heads` heads and keys [first, last), multiples of 4.
template <class V, class Products>
[[gnu::always_inline]] inline void dot_products(const typename Products::Cell* q, std::ptrdiff_t ldq, int heads,
                                                const typename Products::Cell* const* keys, int first, int last,
                                                int dims, float* out, std::ptrdiff_t stride) {
  constexpr int kH = Products::kDotHeads;
  for (int i = first; i < last; i += 4) {
    int h = 0;
    for (; h + kH <= heads; h += kH) {
      dot_tile<V, Products, kH>(q + h * ldq, ldq, keys + i, dims, out + h * stride + i, stride);
    }
    if constexpr (kH > 1) {
      for (; h < heads; ++h) dot_tile<V, Products, 1>(q + h * ldq, ldq, keys + i, dims, out + h * stride + i, stride);
    }
  }
}

// Calls use(head, d, number of dims left from d on, the chain's 16 values) for every tile of H heads and `dims` values,
// those from `offset` on of each key.
template <class V, class Products, int H, class Use>
[[gnu::always_inline]] inline void weighted_values_of_heads(const float* weights, std::ptrdiff_t stride, int head,
                                                            const typename Products::Cell* const* keys, int first,
                                                            int last, int offset, int dims, const Use& use) {
  const auto tile = [&]<int D>(int d) __attribute__((always_inline)) {
    V acc[H][D];
    for (int h = 0; h < H; ++h) {
      for (int j = 0; j < D; ++j) acc[h][j] = V::zero();
    }
    Products::template value<H, D>(weights + head * stride, stride, keys, first, last, offset + d, acc);
    for (int h = 0; h < H; ++h) {
      for (int j = 0; j < D && d + 16 * j < dims; ++j) use(head + h, d + 16 * j, dims - d - 16 * j, acc[h][j]);
    }
  };
  constexpr int kD = Products::kValueVectors, kLeast = Products::kLeastValueVectors;
  int d = 0;
  for (; d + 16 * kD <= dims; d += 16 * kD) tile.template operator()<kD>(d);
  for (; d < dims; d += 16 * kLeast) tile.template operator()<kLeast>(d);
}

template <class V, class Products, class Use>
[[gnu::always_inline]] inline void weighted_values(const float* weights, std::ptrdiff_t stride, int heads,
                                                   const typename Products::Cell* const* keys, int first, int last,
                                                   int offset, int dims, const Use& use) {
  constexpr int kH = Products::kValueHeads;
  int h = 0;
  for (; h + kH <= heads; h += kH) {
    weighted_values_of_heads<V, Products, kH>(weights, stride, h, keys, first, last, offset, dims, use);
  }
  if constexpr (kH > 4) {
    for (; h + 4 <= heads; h += 4) {
      weighted_values_of_heads<V, Products, 4>(weights, stride, h, keys, first, last, offset, dims, use);
    }
  }
  for (; h < heads; ++h) {
    weighted_values_of_heads<V, Products, 1>(weights, stride, h, keys, first, last, offset, dims, use);
  }
}

}  // namespace sluice::cpu::SLUICE_ISA
