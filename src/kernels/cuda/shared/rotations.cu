// rope_heads, hadamard (kernels/ops/elementwise.h).
// Used by kernels/cuda/shared and kernels/cuda/sm90.
#include <bit>
#include <cmath>

#include "kernels/cuda/shared/shared_ops.h"
#include "kernels/cuda/shared/rotate.h"
#include "kernels/cuda/shared/row_sums.h"
#include "kernels/ops/elementwise.h"

namespace sluice::SLUICE_CUDA_OPS {
namespace {

// Each team has a head. A head that is normed lies in shared memory in between. With few rows a team rehearses: it
// norms and rotates once without a result, while the kernels ahead still work, to load the instructions.
struct RopeHeads {
  static constexpr int kThreads = 16, kAtOnce = 32;  // values that a thread loads at once
  static constexpr bool kWaits = true;
  RopeHeadsArgs args;
  bool rehearses;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int row = team.index / args.heads, head = team.index % args.heads, pairs = args.rope_dims / 2;
    const bool norms = args.norm_eps >= 0.0F;
    float* x = args.x + row * args.ldx + static_cast<std::ptrdiff_t>(head) * args.head_dim;
    float* at = norms ? reinterpret_cast<float*>(team.shared) : x;
    const float* table = args.table + static_cast<std::ptrdiff_t>(args.positions[row]) * args.rope_dims;
    SLUICE_ROLLED
    for (int run = rehearses ? 0 : 1; run < 2; ++run) {
      const bool real = run == 1;
      if (real) wait_for_kernels();
      if (norms) normalise(team, real ? x : at, at);
      team.each([&](int t) {
        SLUICE_UNROLL_4
        for (int i = t; i < pairs; i += kThreads) {
          rotate_pair(at + args.offset, i, pairs, args.half_split, table[2 * i],
                      args.inverse ? -table[2 * i + 1] : table[2 * i + 1]);
        }
      });
      if (!norms) return;
      team.sync();
      team.each([&](int t) {
        SLUICE_UNROLL_8
        for (int i = t; i < args.head_dim; i += kThreads) {
          if (real) x[i] = at[i];
        }
      });
      team.sync();
    }
  }

  SLUICE_DEVICE void normalise(const Team<kThreads>& team, const float* x, float* to) const {
    PerThread<float, kThreads> squares;
    team.each([&](int t) {
      float lane = 0.0F;
      for (int first = t; first < args.head_dim; first += kThreads * kAtOnce) {
        float values[kAtOnce];
        SLUICE_UNROLL
        for (int i = 0; i < kAtOnce; ++i) {
          const int d = first + i * kThreads;
          values[i] = d < args.head_dim ? x[d] : 0.0F;
        }
        SLUICE_UNROLL
        for (int i = 0; i < kAtOnce; ++i) {
          const int d = first + i * kThreads;
          if (d < args.head_dim) lane = std::fma(values[i], values[i], lane), to[d] = values[i];
        }
      }
      squares[t] = lane;
    });
    tree_sum16(team, squares);
    team.each([&](int t) {
      const float r = reciprocal_rms(squares[t], args.head_dim, args.norm_eps);
      SLUICE_UNROLL_8
      for (int i = t; i < args.head_dim; i += kThreads) to[i] = to[i] * r;
    });
    team.sync();
  }
};

// Each team has a row, which is kept in shared memory between the butterflies.
struct Hadamard {
  static constexpr int kThreads = 32;
  HadamardArgs args;
  float scale;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    float* x = args.x + static_cast<std::ptrdiff_t>(team.index) * args.dim;
    float* at = reinterpret_cast<float*>(team.shared);
    team.each([&](int t) {
      for (int i = t; i < args.dim; i += kThreads) at[i] = x[i];
    });
    for (int distance = 1; distance < args.dim; distance *= 2) {
      team.sync();
      team.each([&](int t) {
        for (int pair = t; pair < args.dim / 2; pair += kThreads) butterfly(at, distance, pair);
      });
    }
    team.sync();
    team.each([&](int t) {
      for (int i = t; i < args.dim; i += kThreads) x[i] = at[i] * scale;
    });
  }
};

}  // namespace

void rope_heads(const Exec& exec, const RopeHeadsArgs& args) {
  SLUICE_CHECK(args.rope_dims % 2 == 0 && args.offset >= 0 && args.offset + args.rope_dims <= args.head_dim,
               "the rotary dims are pairs inside the head");
  constexpr int kRehearsed = 8;  // at most this many rows are rehearsed
  const bool norms = args.norm_eps >= 0.0F;
  const std::int64_t teams = std::int64_t{args.rows} * args.heads;
  const std::size_t shared = norms ? static_cast<std::size_t>(args.head_dim) * sizeof(float) : 0;
  launch(exec, teams, RopeHeads{args, norms && args.rows <= kRehearsed}, shared);
}

void hadamard(const Exec& exec, const HadamardArgs& args) {
  SLUICE_CHECK(args.dim > 0 && std::has_single_bit(static_cast<unsigned>(args.dim)), "Hadamard needs a power of two");
  launch(exec, args.rows, Hadamard{args, hadamard_scale(args.dim)}, static_cast<std::size_t>(args.dim) * sizeof(float));
}

}  // namespace sluice::SLUICE_CUDA_OPS
