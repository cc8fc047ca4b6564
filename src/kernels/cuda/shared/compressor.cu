// compress (kernels/compressor.h): a thread a channel of a span, along its tokens.
#include "kernels/compressor.h"
#include "kernels/cuda/launch.h"
#include "kernels/math.h"

namespace sluice::SLUICE_CUDA_OPS {
namespace {

struct PooledChannel {  // of one window
  float m, s, a;
};

// S is at least 1 from the first token on.
SLUICE_DEVICE PooledChannel add_token(const PooledChannel& acc, float g, float u) {
  if (acc.s == 0.0F) return {g, 1.0F, u};
  if (g <= acc.m) {
    const float e = exp_f32(g - acc.m);
    return {acc.m, acc.s + e, std::fma(e, u, acc.a)};
  }
  const float e = exp_f32(acc.m - g);
  return {g, std::fma(acc.s, e, 1.0F), std::fma(acc.a, e, u)};
}

struct Compress {
  static constexpr int kThreads = 1;
  CompressArgs args;  // but for what the host's structs say, which follows
  StepTables step;
  const std::int32_t* closed_begin;
  PlaneView boundaries;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int dim = args.dim, channel = team.index % dim, index = team.index / dim;
    const int width = args.overlap ? 2 * dim : dim, own = args.overlap ? dim + channel : channel;
    const RowSpan span = step.spans.data()[index];
    const PooledChannel empty{-INFINITY, 0.0F, 0.0F};
    PooledChannel open = load(state(span.state_in), channel);
    PooledChannel next = args.overlap ? load(state(span.state_in) + 3 * dim, channel) : empty;
    float* pooled = args.pooled + static_cast<std::ptrdiff_t>(closed_begin[index]) * dim + channel;
    std::int32_t boundary = args.boundaries != nullptr ? step.ended_blocks[index] : 0;
    for (int i = 0; i < span.rows; ++i) {
      const int slot = (span.first_position + i) % args.ratio;
      const float* u = args.kv + (span.row_begin + i) * args.ld;
      const float* gate = args.gate + (span.row_begin + i) * args.ld;
      const float* ape = args.ape + static_cast<std::ptrdiff_t>(slot) * width;
      open = add_token(open, gate[own] + ape[own], u[own]);
      if (args.overlap) next = add_token(next, gate[channel] + ape[channel], u[channel]);
      if (slot == args.ratio - 1) {
        *pooled = open.a / open.s;
        pooled += dim;
        open = next;
        next = empty;
      }
      if (args.boundaries != nullptr && (span.first_position + i + 1) % kBlockTokens == 0) {
        store(open, reinterpret_cast<float*>(boundaries.row(step.boundary_pages[boundary++].value, 0).data), channel);
      }
      const std::int32_t after = step.states_after[span.row_begin + i];
      if (after < 0) continue;
      store(open, state(after), channel);
      if (args.overlap) store(next, state(after) + 3 * dim, channel);
    }
  }

  SLUICE_DEVICE float* state(std::int32_t index) const {
    return reinterpret_cast<float*>(args.states + static_cast<std::size_t>(index) * args.state_bytes);
  }
  SLUICE_DEVICE PooledChannel load(const float* state, int channel) const {
    return {state[channel], state[args.dim + channel], state[2 * args.dim + channel]};
  }
  SLUICE_DEVICE void store(const PooledChannel& acc, float* state, int channel) const {
    state[channel] = acc.m;
    state[args.dim + channel] = acc.s;
    state[2 * args.dim + channel] = acc.a;
  }
};

}  // namespace

void compress(const Exec& exec, const CompressArgs& args) {
  const PlaneView boundaries = args.boundaries != nullptr ? *args.boundaries : PlaneView{};
  launch(exec, static_cast<std::int64_t>(args.step->spans.size()) * args.dim,
         Compress{args, *args.step, args.step->closed_by(args.ratio).begin, boundaries});
}

}  // namespace sluice::SLUICE_CUDA_OPS
