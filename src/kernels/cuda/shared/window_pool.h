// compress (kernels/ops/compressor.h), channel by channel of a window: for the op alone, and as the first step of a
// pooled row (store_kv.cu).
// Used by compressor.cu and store_kv.cu.
#pragma once

#include "kernels/common/math.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/shared/step_rows.h"
#include "kernels/ops/compressor.h"

namespace sluice::SLUICE_CUDA_OPS {

struct PooledChannel {  // the sum of one window's channel so far
  float m, s, a;
};
SLUICE_DEVICE PooledChannel empty() {
  return {-INFINITY, 0.0F, 0.0F};
}

// Adds a token. S is at least 1 from the first token on.
SLUICE_DEVICE PooledChannel add_token(const PooledChannel& acc, float g, float u) {
  if (acc.s == 0.0F) return {g, 1.0F, u};
  if (g <= acc.m) {
    const float e = exp_f32(g - acc.m);
    return {acc.m, acc.s + e, std::fma(e, u, acc.a)};
  }
  const float e = exp_f32(acc.m - g);
  return {g, std::fma(acc.s, e, 1.0F), std::fma(acc.a, e, u)};
}

// A window depends on its own tokens, those of the window before, and the state that the span found. The thread that
// has its last row here walks all of them, and all windows of a span are pooled at once.
struct WindowPool {
  CompressArgs args;  // its pointers to host memory are replaced by the fields below
  StepTables step;
  const std::int32_t* closed_begin;
  PlaneView boundaries;

  // The end that a row of the step brings: that of a window, or of the span alone.
  struct Ended {
    RowSpan span;
    int index, last, slot;  // the span's number; the row's number in it; the token's place in the window
    bool any, window;
    int closed;  // the number of the window among the step's, if one closes
  };
  SLUICE_DEVICE Ended ended_by(int row) const {
    Ended ended;
    ended.index = span_index_of_row(step.spans.data(), static_cast<int>(step.spans.size()), row);
    ended.span = step.spans.data()[ended.index];
    ended.last = row - ended.span.row_begin;
    ended.slot = (ended.span.first_position + ended.last) % args.ratio;
    ended.window = ended.slot == args.ratio - 1;
    ended.any = ended.window || ended.last == ended.span.rows - 1;
    ended.closed = -1;
    if (ended.window) {
      const int before = ended.span.first_position / args.ratio;
      ended.closed = closed_begin[ended.index] + (ended.span.first_position + ended.last) / args.ratio - before;
    }
    return ended;
  }

  // Calls pooled(value) if the window closes.
  template <class Pooled>
  SLUICE_DEVICE void add_channel(const Ended& ended, int channel, const Pooled& pooled) const {
    const RowSpan& span = ended.span;
    // The window's first row in the span; below 0: it began before the span.
    const int dim = args.dim, first = ended.last - ended.slot;
    PooledChannel open = first <= 0 ? load(state(span.state_in), channel) : before(span, first, channel);
    PooledChannel next = args.overlap && first <= 0 ? load(state(span.state_in) + 3 * dim, channel) : empty();
    const int own = args.overlap ? dim + channel : channel;
    for (int from = first < 0 ? 0 : first; from <= ended.last; from += kAtOnce) {
      const Tokens of_own = tokens(span, from, ended.last + 1, own);
      const Tokens of_next = args.overlap ? tokens(span, from, ended.last + 1, channel) : Tokens{};
      std::int32_t after[kAtOnce];
      SLUICE_UNROLL
      for (int j = 0; j < kAtOnce; ++j) {
        after[j] = from + j <= ended.last ? step.states_after[span.row_begin + from + j] : -1;
      }
      SLUICE_UNROLL
      for (int j = 0; j < kAtOnce; ++j) {
        const int i = from + j;
        if (i > ended.last) break;
        open = add_token(open, of_own.g[j], of_own.u[j]);
        if (args.overlap) next = add_token(next, of_next.g[j], of_next.u[j]);
        if (i == ended.last && ended.window) {
          pooled(open.a / open.s);
          open = next;
          next = empty();
          if (args.boundaries != nullptr) store_boundary(open, span, ended.index, i, channel);
        }
        if (after[j] < 0) continue;
        store(open, state(after[j]), channel);
        if (args.overlap) store(next, state(after[j]) + 3 * dim, channel);
      }
    }
  }

  // Returns the part of the window before in a window that begins at row `first` of the span.
  SLUICE_DEVICE PooledChannel before(const RowSpan& span, int first, int channel) const {
    if (!args.overlap) return empty();
    const int begin = first - args.ratio;
    PooledChannel acc = begin <= 0 ? load(state(span.state_in) + 3 * args.dim, channel) : empty();
    for (int from = begin < 0 ? 0 : begin; from < first; from += kAtOnce) {
      const Tokens some = tokens(span, from, first, channel);
      SLUICE_UNROLL
      for (int j = 0; j < kAtOnce; ++j) {
        if (from + j < first) acc = add_token(acc, some.g[j], some.u[j]);
      }
    }
    return acc;
  }

  // The number of rows of [from, end) that are loaded at once.
  static constexpr int kAtOnce = 4;
  struct Tokens {
    float g[kAtOnce], u[kAtOnce];
  };
  SLUICE_DEVICE Tokens tokens(const RowSpan& span, int from, int end, int column) const {
    const int width = args.overlap ? 2 * args.dim : args.dim;
    float gates[kAtOnce], places[kAtOnce];
    Tokens some{};
    SLUICE_UNROLL
    for (int j = 0; j < kAtOnce; ++j) {
      const int i = from + j < end ? from + j : end - 1, slot = (span.first_position + i) % args.ratio;
      const std::ptrdiff_t at = (span.row_begin + i) * args.ld + column;
      gates[j] = args.gate[at];
      places[j] = args.ape[static_cast<std::ptrdiff_t>(slot) * width + column];
      some.u[j] = args.kv[at];
    }
    SLUICE_UNROLL
    for (int j = 0; j < kAtOnce; ++j) some.g[j] = gates[j] + places[j];
    return some;
  }

  // Stores the boundary after the last token of a block, which is also the last of a window.
  SLUICE_DEVICE void store_boundary(const PooledChannel& open, const RowSpan& span, int index, int i,
                                    int channel) const {
    if ((span.first_position + i + 1) % kBlockTokens != 0) return;
    const int ended = (span.first_position + i) / kBlockTokens - span.first_position / kBlockTokens;
    const WindowPage page = step.boundary_pages[step.ended_blocks[index] + ended];
    store(open, reinterpret_cast<float*>(boundaries.row(page.value, 0).data), channel);
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
inline WindowPool window_pool(const CompressArgs& args) {
  return {args, *args.step, args.step->closed_by(args.ratio).begin,
          args.boundaries != nullptr ? *args.boundaries : PlaneView{}};
}

}  // namespace sluice::SLUICE_CUDA_OPS
