#include <cstring>

#include "kernels/common/math.h"
#include "kernels/ref/kernels.h"

namespace sluice::ref {
namespace {

struct Accumulator {  // the sum of one channel of one window so far
  float m, s, a;
};

// Adds a token. S is at least 1 from the first token on.
Accumulator add(const Accumulator& acc, float g, float u) {
  if (acc.s == 0.0F) return {g, 1.0F, u};
  if (g <= acc.m) {
    const float e = exp_f32(g - acc.m);
    return {acc.m, acc.s + e, std::fma(e, u, acc.a)};
  }
  const float e = exp_f32(acc.m - g);
  return {g, std::fma(acc.s, e, 1.0F), std::fma(acc.a, e, u)};
}

Accumulator load(const float* state, int dim, int channel) {
  return {state[channel], state[dim + channel], state[2 * dim + channel]};
}
void store(const Accumulator& acc, float* state, int dim, int channel) {
  state[channel] = acc.m;
  state[dim + channel] = acc.s;
  state[2 * dim + channel] = acc.a;
}

}  // namespace

void compress(const CompressArgs& args, int span_index, int begin, int end) {
  const RowSpan& span = args.step->spans[static_cast<std::size_t>(span_index)];
  const float* state_in = args.state(span.state_in);
  const int dim = args.dim, width = args.overlap ? 2 * dim : dim;
  const Accumulator empty{-std::numeric_limits<float>::infinity(), 0.0F, 0.0F};
  for (int channel = begin; channel < end; ++channel) {
    Accumulator open = load(state_in, dim, channel);
    Accumulator next = args.overlap ? load(state_in + 3 * dim, dim, channel) : empty;
    float* pooled = args.pooled + static_cast<std::ptrdiff_t>(args.step->closed_by(args.ratio).begin[span_index]) * dim;
    std::int32_t boundary = args.step->ended_blocks[span_index];
    for (int i = 0; i < span.rows; ++i) {
      const int slot = (span.first_position + i) % args.ratio;
      const float* u = args.kv + (span.row_begin + i) * args.ld;
      const float* gate = args.gate + (span.row_begin + i) * args.ld;
      const float* ape = args.ape + static_cast<std::ptrdiff_t>(slot) * width;
      const int own = args.overlap ? dim + channel : channel;
      open = add(open, gate[own] + ape[own], u[own]);
      if (args.overlap) next = add(next, gate[channel] + ape[channel], u[channel]);
      if (slot == args.ratio - 1) {
        pooled[channel] = open.a / open.s;
        pooled += dim;
        open = next;
        next = empty;
      }
      if (args.boundaries != nullptr && (span.first_position + i + 1) % kBlockTokens == 0) {
        store(open, args.boundary(boundary++), dim, channel);
      }
      const std::int32_t after = args.step->states_after[span.row_begin + i];
      if (after < 0) continue;
      store(open, args.state(after), dim, channel);
      if (args.overlap) store(next, args.state(after) + 3 * dim, dim, channel);
    }
  }
}

}  // namespace sluice::ref
