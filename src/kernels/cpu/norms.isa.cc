// Compiled for avx2 and avx512.
// Norms and rotations (kernels/ops/elementwise.h) over sixteen lanes V.
// Used by kernels/cpu.
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/math.h"
#include "kernels/cpu/vec.h"
#include "kernels/ops/elementwise.h"
#include "kernels/ref/kernels.h"

namespace sluice::cpu::SLUICE_ISA {

template <class V>
[[gnu::always_inline]] inline void normalise(const float* x, V r, const float* weight, int n, float* y) {
  int i = 0;
  for (; i + 16 <= n; i += 16) {
    const V scaled = V::load(x + i) * r;
    (weight != nullptr ? scaled * V::load(weight + i) : scaled).store(y + i);
  }
  if (i == n) return;
  const V scaled = V::load_first(x + i, n - i) * r;
  (weight != nullptr ? scaled * V::load_first(weight + i, n - i) : scaled).store_first(y + i, n - i);
}

template <class V, int R>
void rms_norm_rows(const RmsNormArgs& args, int row) {
  const float* x = args.x + row * args.ldx;
  V r[R];
  reciprocal_rms<V, R>(x, args.ldx, args.dim, args.eps, r);
  for (int i = 0; i < R; ++i) normalise(x + i * args.ldx, r[i], args.weight, args.dim, args.y + (row + i) * args.ldy);
}

void rms_norm(const RmsNormArgs& args, int begin, int end) {
  using V = F32x16;
  int row = begin;
  for (; row + 4 <= end; row += 4) rms_norm_rows<V, 4>(args, row);
  for (; row < end; ++row) rms_norm_rows<V, 1>(args, row);
}

void layer_norm(const LayerNormArgs& args, int begin, int end) {
  using V = F32x16;
  const V count = V::broadcast(static_cast<float>(args.dim));
  for (int row = begin; row < end; ++row) {
    const float* x = args.x + row * args.ldx;
    float* y = args.y + row * args.ldy;
    V sum = V::zero(), squares = V::zero();
    for (int i = 0; i < args.dim; i += 16) sum = sum + load_up_to_16<V>(x + i, args.dim - i);
    const V mean = tree_sum(sum) / count;
    for (int i = 0; i < args.dim; i += 16) {
      const int left = args.dim - i;
      const V d = select(first_lanes_of<V>(left), load_up_to_16<V>(x + i, left) - mean, V::zero());
      squares = fma(d, d, squares);
    }
    const V r = V::broadcast(1.0F) / sqrt(tree_sum(squares) / count + V::broadcast(args.eps));
    for (int i = 0; i < args.dim; i += 16) {
      const int left = args.dim - i;
      const V scaled = (load_up_to_16<V>(x + i, left) - mean) * r;
      const V w = load_up_to_16<V>(args.weight + i, left), b = load_up_to_16<V>(args.bias + i, left);
      store_up_to_16(fma(scaled, w, b), y + i, left);
    }
  }
}

// Rotates pairs [0, n / 2) of one head. `flip` has the sign bit set in every lane for the inverse rotation.
template <class V>
[[gnu::always_inline]] inline V rotate(V x, V table, typename V::Int flip_sin, typename V::Int flip_sin_swapped) {
  const V turn = as_float(as_bits(table) ^ flip_sin);                             // c, s, c, s, ...
  const V swapped = as_float(as_bits(permute_xor<1>(table)) ^ flip_sin_swapped);  // s, c, s, c, ...
  return fma_minus_even(duplicate_even(x), turn, duplicate_odd(x) * swapped);
}

template <class V>
[[gnu::always_inline]] inline void rotate_head(float* x, const float* table, int n, typename V::Int flip_sin,
                                               typename V::Int flip_sin_swapped) {
  int i = 0;
  for (; i + 16 <= n; i += 16) rotate(V::load(x + i), V::load(table + i), flip_sin, flip_sin_swapped).store(x + i);
  if (i == n) return;
  rotate(V::load_first(x + i, n - i), V::load_first(table + i, n - i), flip_sin, flip_sin_swapped)
      .store_first(x + i, n - i);
}

// Rotates pairs (i, i + n / 2). It is a plain loop, which the compiler vectorises.
template <class V>  // the ISA's vector: one copy each
void rotate_halves(float* x, const float* table, int pairs, bool inverse) {
  for (int i = 0; i < pairs; ++i) {
    const float c = table[2 * i], s = inverse ? -table[2 * i + 1] : table[2 * i + 1];
    const float x0 = x[i], x1 = x[i + pairs];
    x[i] = __builtin_fmaf(x0, c, -(x1 * s));
    x[i + pairs] = __builtin_fmaf(x0, s, x1 * c);
  }
}

// Norms R heads, each over its own values.
template <class V, int R>
[[gnu::always_inline]] inline void normalise_heads(float* x, const RopeHeadsArgs& args) {
  V r[R];
  reciprocal_rms<V, R>(x, args.head_dim, args.head_dim, args.norm_eps, r);
  for (int i = 0; i < R; ++i) {
    float* head = x + static_cast<std::ptrdiff_t>(i) * args.head_dim;
    normalise(head, r[i], nullptr, args.head_dim, head);
  }
}

void rope_heads(const RopeHeadsArgs& args, int begin, int end) {
  using V = F32x16;
  using I = typename V::Int;
  constexpr std::int32_t kSign = static_cast<std::int32_t>(0x80000000U);
  const auto odd = equal(I::iota() & I::broadcast(1), I::broadcast(1));
  const I zero = I::broadcast(0), sign = I::broadcast(args.inverse ? kSign : 0);
  const I flip_sin = select(odd, sign, zero), flip_sin_swapped = select(odd, zero, sign);
  for (int row = begin; row < end; ++row) {
    const float* table = args.table + static_cast<std::ptrdiff_t>(args.positions[row]) * args.rope_dims;
    float* x = args.x + row * args.ldx;
    if (args.norm_eps >= 0.0F) {
      int head = 0;
      for (; head + 4 <= args.heads; head += 4) {
        normalise_heads<V, 4>(x + static_cast<std::ptrdiff_t>(head) * args.head_dim, args);
      }
      for (; head < args.heads; ++head)
        normalise_heads<V, 1>(x + static_cast<std::ptrdiff_t>(head) * args.head_dim, args);
    }
    for (int head = 0; head < args.heads; ++head) {
      float* rotary = x + static_cast<std::ptrdiff_t>(head) * args.head_dim + args.offset;
      if (args.half_split) {
        rotate_halves<V>(rotary, table, args.rope_dims / 2, args.inverse);
      } else {
        rotate_head<V>(rotary, table, args.rope_dims, flip_sin, flip_sin_swapped);
      }
    }
  }
}

// Butterflies at distance N inside each vector: (a, b) -> (a + b, a - b).
template <int N, class V>
[[gnu::always_inline]] inline V butterfly(V x) {
  using I = typename V::Int;
  const V other = permute_xor<N>(x);
  return select(equal(I::iota() & I::broadcast(N), I::broadcast(N)), other - x, x + other);
}

void hadamard(const HadamardArgs& args, int begin, int end) {
  using V = F32x16;
  if (args.dim < 16) return ref::hadamard(args, begin, end);
  const V scale = V::broadcast(static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(args.dim))));
  for (int row = begin; row < end; ++row) {
    float* x = args.x + static_cast<std::ptrdiff_t>(row) * args.dim;
    for (int i = 0; i < args.dim; i += 16) {
      butterfly<8>(butterfly<4>(butterfly<2>(butterfly<1>(V::load(x + i))))).store(x + i);
    }
    for (int distance = 16; distance < args.dim; distance *= 2) {
      for (int block = 0; block < args.dim; block += 2 * distance) {
        for (int i = block; i < block + distance; i += 16) {
          const V a = V::load(x + i), b = V::load(x + i + distance);
          (a + b).store(x + i);
          (a - b).store(x + i + distance);
        }
      }
    }
    for (int i = 0; i < args.dim; i += 16) (V::load(x + i) * scale).store(x + i);
  }
}

namespace {

constexpr Kernel kKernels[] = {
    SLUICE_KERNEL(rms_norm, rms_norm),
    SLUICE_KERNEL(layer_norm, layer_norm),
    SLUICE_KERNEL(rope_heads, rope_heads),
    SLUICE_KERNEL(hadamard, hadamard),
};

}  // namespace

SLUICE_KERNELS(norms, kKernels, {});

}  // namespace sluice::cpu::SLUICE_ISA
