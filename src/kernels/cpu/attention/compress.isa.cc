// Compiled for avx2 and avx512.
// The compressor's pooling (kernels/ops/compressor.h) over sixteen channels at once.
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/math.h"
#include "kernels/cpu/vec.h"

namespace sluice::cpu::SLUICE_ISA {

template <class V>
struct Accumulator {  // sixteen channels of one window
  V m, s, a;

  [[gnu::always_inline]] static Accumulator empty() { return {V::broadcast(-__builtin_inff()), V::zero(), V::zero()}; }
  [[gnu::always_inline]] static Accumulator load(const float* state, int dim, int n) {
    return {load_up_to_16<V>(state, n), load_up_to_16<V>(state + dim, n), load_up_to_16<V>(state + 2 * dim, n)};
  }
  [[gnu::always_inline]] void store(float* state, int dim, int n) const {
    store_up_to_16(m, state, n);
    store_up_to_16(s, state + dim, n);
    store_up_to_16(a, state + 2 * dim, n);
  }
  [[gnu::always_inline]] void add(V g, V u) {
    const V one = V::broadcast(1.0F);
    const auto first = equal(s, V::zero());
    const auto keep = less_equal(g, m);  // lanes where the maximum stays
    const V e = exp(select(keep, g - m, m - g));
    s = select(first, one, select(keep, s + e, fma(s, e, one)));
    a = select(first, u, select(keep, fma(e, u, a), fma(a, e, u)));
    m = select(first, g, select(keep, m, g));
  }
};

template <class V>
struct Channels {  // sixteen channels of one span
  Accumulator<V> open, next;
};

// Channels [begin, begin + 16 * C), fewer at the end. C vectors are computed at once, because one vector's operations
// on a token are a long chain.
template <class V, int C, bool kOverlap>
[[gnu::always_inline]] inline void compress_channels(const CompressArgs& args, int span_index, int begin) {
  const RowSpan& span = args.step->spans[static_cast<std::size_t>(span_index)];
  const int dim = args.dim, width = kOverlap ? 2 * dim : dim;
  const auto left = [&](int c) { return dim - begin - 16 * c; };
  Channels<V> channels[C];
  for (int c = 0; c < C; ++c) {
    const float* state = args.state(span.state_in) + begin + 16 * c;
    channels[c].open = Accumulator<V>::load(state, dim, left(c));
    if constexpr (kOverlap) channels[c].next = Accumulator<V>::load(state + 3 * dim, dim, left(c));
  }
  float* pooled = args.pooled + std::ptrdiff_t{args.step->closed_by(args.ratio).begin[span_index]} * dim + begin;
  int slot = span.first_position % args.ratio;
  std::int32_t boundary = args.step->ended_blocks[span_index];
  int boundary_row = args.boundaries != nullptr ? kBlockTokens - 1 - span.first_position % kBlockTokens : span.rows;
  for (int i = 0; i < span.rows; ++i) {
    const float* u = args.kv + (span.row_begin + i) * args.ld + begin;
    const float* gate = args.gate + (span.row_begin + i) * args.ld + begin;
    const float* ape = args.ape + static_cast<std::ptrdiff_t>(slot) * width + begin;
    const auto value = [&](const float* p, int c, int half) { return load_up_to_16<V>(p + 16 * c + half, left(c)); };
    for (int c = 0; c < C; ++c) {
      const int own = kOverlap ? dim : 0;
      channels[c].open.add(value(gate, c, own) + value(ape, c, own), value(u, c, own));
      if constexpr (kOverlap) channels[c].next.add(value(gate, c, 0) + value(ape, c, 0), value(u, c, 0));
    }
    if (++slot == args.ratio) {
      slot = 0;
      for (int c = 0; c < C; ++c) {
        store_up_to_16(channels[c].open.a / channels[c].open.s, pooled + 16 * c, left(c));
        channels[c].open = kOverlap ? channels[c].next : Accumulator<V>::empty();
        if constexpr (kOverlap) channels[c].next = Accumulator<V>::empty();
      }
      pooled += dim;
    }
    if (i == boundary_row) {
      for (int c = 0; c < C; ++c) channels[c].open.store(args.boundary(boundary) + begin + 16 * c, dim, left(c));
      boundary_row += kBlockTokens;
      ++boundary;
    }
    const std::int32_t after = args.step->states_after[span.row_begin + i];
    if (after < 0) continue;
    for (int c = 0; c < C; ++c) {
      float* state = args.state(after) + begin + 16 * c;
      channels[c].open.store(state, dim, left(c));
      if constexpr (kOverlap) channels[c].next.store(state + 3 * dim, dim, left(c));
    }
  }
}

// Pools channels [begin, end): begin is a multiple of 16, and so is end, or it is dim.
void compress(const CompressArgs& args, int span_index, int begin, int end) {
  using V = F32x16;
  if (args.overlap) {
    int c = begin;
    for (; c + 32 <= end; c += 32) compress_channels<V, 2, true>(args, span_index, c);
    for (; c < end; c += 16) compress_channels<V, 1, true>(args, span_index, c);
  } else {
    int c = begin;
    for (; c + 64 <= end; c += 64) compress_channels<V, 4, false>(args, span_index, c);
    for (; c < end; c += 16) compress_channels<V, 1, false>(args, span_index, c);
  }
}

namespace {

constexpr Kernel kKernels[] = {
    SLUICE_KERNEL(compress, compress),
};

}  // namespace

SLUICE_KERNELS(compress, kKernels, {});

}  // namespace sluice::cpu::SLUICE_ISA
