// Compiled for avx2 and avx512.
// Hyper-connections (kernels/ops/hyper_connection.h) over sixteen lanes V: a 4 x 4 matrix is one V, entry (j, k) in
// lane 4 j + k.
// Used by kernels/cpu.
#include <algorithm>

#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/linear/linear_layout.h"
#include "kernels/cpu/math.h"
#include "kernels/cpu/vec.h"
#include "kernels/ops/hyper_connection.h"

namespace sluice::cpu::SLUICE_ISA {

// Computes fn z of R rows from lines of 16 outputs and of 8 (kernels/cpu/linear/linear_layout.h), so that each input is
// broadcast once for both. The order is that of kernels/ops/linear.h. Several blocks at once are chains enough for the
// latency of an fma.
template <class V, int R>
[[gnu::always_inline]] inline void product_rows(const HcMixArgs& args, int row) {
  constexpr int kMixes = kGroupOutputs + kHalfGroupOutputs, kPairs = 64, kBlock = 2 * kPairs;
  constexpr int kChains = V::kDotHeads == 4 ? 8 : 4, kBlocks = std::max(1, kChains / (2 * R));
  const std::ptrdiff_t in = std::ptrdiff_t{kHcStreams} * args.dim;
  const auto* whole = reinterpret_cast<const float*>(args.weights->fn[0].packed());
  const auto* half = reinterpret_cast<const float*>(args.weights->fn[1].packed());
  const float* x = args.x + row * in;
  V y[R][2];
  for (int r = 0; r < R; ++r) y[r][0] = y[r][1] = V::zero();
  const auto blocks = [&]<int B>(std::ptrdiff_t first) __attribute__((always_inline)) {
    V acc[B][R][2];
#pragma GCC unroll 4
    for (int b = 0; b < B; ++b) {
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) acc[b][r][0] = acc[b][r][1] = V::zero();
    }
    for (int pair = 0; pair < kPairs; ++pair) {
#pragma GCC unroll 4
      for (int b = 0; b < B; ++b) {
        const std::ptrdiff_t at = (first + b) * kPairs + pair;
#pragma GCC unroll 2
        for (int odd = 1; odd >= 0; --odd) {  // a line has the odd input's weights first
          const V w = V::load(whole + 2 * kGroupOutputs * at + (odd == 1 ? 0 : kGroupOutputs));
          const V h = V::load_half(half + 2 * kHalfGroupOutputs * at + (odd == 1 ? 0 : kHalfGroupOutputs));
#pragma GCC unroll 8
          for (int r = 0; r < R; ++r) {
            const V input = V::broadcast(x[r * in + 2 * at + odd]);
            acc[b][r][0] = fma(input, w, acc[b][r][0]);
            acc[b][r][1] = fma(input, h, acc[b][r][1]);
          }
        }
      }
    }
#pragma GCC unroll 4
    for (int b = 0; b < B; ++b) {
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) y[r][0] = acc[b][r][0] + y[r][0], y[r][1] = acc[b][r][1] + y[r][1];
    }
  };
  const std::ptrdiff_t count = in / kBlock;
  std::ptrdiff_t block = 0;
  for (; block + kBlocks <= count; block += kBlocks) blocks.template operator()<kBlocks>(block);
  for (; block < count; ++block) blocks.template operator()<1>(block);
  for (int r = 0; r < R; ++r) {
    float* to = args.mixes + static_cast<std::ptrdiff_t>(row + r) * kMixes;
    y[r][0].store(to);
    y[r][1].store_first(to + kGroupOutputs, kHalfGroupOutputs);
  }
}

// Calls run<R>(first row) for rows [begin, end), at most kMost at once, in parts as even as they come.
template <int kMost, class Run>
[[gnu::always_inline]] inline void in_parts(int begin, int end, const Run& run) {
  const auto with = [&]<int R>(const auto& self, int row, int count) __attribute__((always_inline)) -> void {
    if constexpr (R > 1) {
      if (count < R) return self.template operator()<R - 1>(self, row, count);
    }
    run.template operator()<R>(row);
  };
  for (int parts = (end - begin + kMost - 1) / kMost; parts > 0; --parts) {
    const int count = (end - begin + parts - 1) / parts;
    with.template operator()<kMost>(with, begin, count);
    begin += count;
  }
}

void hc_product(const HcMixArgs& args, int begin, int end) {
  using V = F32x16;
  in_parts<V::kDotHeads == 4 ? 6 : 2>(begin, end, [&]<int R>(int row) { product_rows<V, R>(args, row); });
}

// Each returns (a_0 + a_2) + (a_1 + a_3), in every entry: over k for each row, or over j for each column.
template <class V>
[[gnu::always_inline]] inline V row_sums(V a) {
  a = a + permute_xor<2>(a);
  return a + permute_xor<1>(a);
}
template <class V>
[[gnu::always_inline]] inline V column_sums(V a) {
  a = a + permute_xor<8>(a);
  return a + permute_xor<4>(a);
}

// Does R matrices at once, because the steps of one matrix are a chain of additions and divisions that mostly waits.
template <class V, int R>
[[gnu::always_inline]] inline void sinkhorn(V (&a)[R], float hc_eps, int iterations) {
  const V eps = V::broadcast(hc_eps);
  for (int r = 0; r < R; ++r) {
    V max = max_of(a[r], permute_xor<2>(a[r]));
    max = max_of(max, permute_xor<1>(max));
    a[r] = exp(a[r] - max);
    a[r] = a[r] / row_sums(a[r]) + eps;
    a[r] = a[r] / (column_sums(a[r]) + eps);
  }
  for (int i = 1; i < iterations; ++i) {
    for (int r = 0; r < R; ++r) a[r] = a[r] / (row_sums(a[r]) + eps);
    for (int r = 0; r < R; ++r) a[r] = a[r] / (column_sums(a[r]) + eps);
  }
}

template <class V, int R>
[[gnu::always_inline]] inline void hc_finish_rows(const HcMixArgs& args, int row) {
  constexpr int kN = kHcStreams, kMixes = (2 + kN) * kN;
  const float* base = args.weights->base;
  const float* scale = args.weights->scale;
  const int z_dims = kN * args.dim;
  V rho[R];
  reciprocal_rms<V, R>(args.x + static_cast<std::ptrdiff_t>(row) * z_dims, z_dims, z_dims, args.norm_eps, rho);
  if (args.post == nullptr) {
    for (int r = 0; r < R; ++r) {
      const V m = V::load_first(args.mixes + (row + r) * kN, kN) * rho[r];
      const V pre = sigmoid(fma(m, V::broadcast(scale[0]), V::load_first(base, kN))) + V::broadcast(args.hc_eps);
      pre.store_first(args.pre + (row + r) * kN, kN);
    }
    return;
  }
  const auto is_pre = first_lanes_of<V>(kN);
  const V split_scale = select(is_pre, V::broadcast(scale[0]), V::broadcast(scale[1]));
  V comb[R];
  for (int r = 0; r < R; ++r) {
    const float* mixes = args.mixes + static_cast<std::ptrdiff_t>(row + r) * kMixes;
    const V split = sigmoid(fma(V::load_first(mixes, 2 * kN) * rho[r], split_scale, V::load_first(base, 2 * kN)));
    float halves[16];
    select(is_pre, split + V::broadcast(args.hc_eps), V::broadcast(2.0F) * split).store(halves);
    for (int j = 0; j < kN; ++j) {
      args.pre[(row + r) * kN + j] = halves[j];
      args.post[(row + r) * kN + j] = halves[kN + j];
    }
    comb[r] = fma(V::load(mixes + 2 * kN) * rho[r], V::broadcast(scale[2]), V::load(base + 2 * kN));
  }
  sinkhorn<V, R>(comb, args.hc_eps, args.sinkhorn_iterations);
  for (int r = 0; r < R; ++r) comb[r].store(args.comb + static_cast<std::ptrdiff_t>(row + r) * kN * kN);
}

void hc_finish(const HcMixArgs& args, int begin, int end) {
  in_parts<5>(begin, end, [&]<int R>(int row) { hc_finish_rows<F32x16, R>(args, row); });
}

void hc_collapse(const HcCollapseArgs& args, int begin, int end) {
  using V = F32x16;
  for (int row = begin; row < end; ++row) {
    const float* x = args.x + static_cast<std::ptrdiff_t>(row) * kHcStreams * args.dim;
    float* y = args.y + static_cast<std::ptrdiff_t>(row) * args.dim;
    V pre[kHcStreams];
    for (int j = 0; j < kHcStreams; ++j) pre[j] = V::broadcast(args.pre[row * kHcStreams + j]);
    for (int d = 0; d < args.dim; d += 16) {
      const int n = args.dim - d;
      V sum = pre[0] * load_up_to_16<V>(x + d, n);
      for (int j = 1; j < kHcStreams; ++j) sum = fma(pre[j], load_up_to_16<V>(x + j * args.dim + d, n), sum);
      store_up_to_16(sum, y + d, n);
    }
  }
}

void hc_expand(const HcExpandArgs& args, int begin, int end) {
  using V = F32x16;
  constexpr int kN = kHcStreams;
  for (int row = begin; row < end; ++row) {
    float* x = args.x + static_cast<std::ptrdiff_t>(row) * kN * args.dim;
    const float* y = args.y + static_cast<std::ptrdiff_t>(row) * args.dim;
    const float* post = args.post + row * kN;
    const float* comb = args.comb + static_cast<std::ptrdiff_t>(row) * kN * kN;
    for (int d = 0; d < args.dim; d += 16) {
      const int n = args.dim - d;
      const V out = load_up_to_16<V>(y + d, n);
      V streams[kN];
      for (int j = 0; j < kN; ++j) streams[j] = load_up_to_16<V>(x + j * args.dim + d, n);
      for (int k = 0; k < kN; ++k) {
        V sum = V::broadcast(post[k]) * out;
        for (int j = 0; j < kN; ++j) sum = fma(V::broadcast(comb[j * kN + k]), streams[j], sum);
        store_up_to_16(sum, x + k * args.dim + d, n);
      }
    }
  }
}

namespace {

constexpr Kernel kKernels[] = {
    SLUICE_KERNEL(hc_product, hc_product),
    SLUICE_KERNEL(hc_finish, hc_finish),
    SLUICE_KERNEL(hc_collapse, hc_collapse),
    SLUICE_KERNEL(hc_expand, hc_expand),
};

}  // namespace

SLUICE_KERNELS(hyper_connection, kKernels, {});

}  // namespace sluice::cpu::SLUICE_ISA
