// rope_heads, hadamard (kernels/elementwise.h).
#include <bit>
#include <cmath>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/shared/row_sums.h"
#include "kernels/elementwise.h"

namespace sluice::SLUICE_CUDA_OPS {
namespace {

// A team a head.
struct RopeHeads {
  static constexpr int kThreads = 16;
  RopeHeadsArgs args;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int row = team.index / args.heads, head = team.index % args.heads;
    float* x = args.x + row * args.ldx + static_cast<std::ptrdiff_t>(head) * args.head_dim;
    if (args.norm_eps >= 0.0F) normalise(team, x);
    const float* table = args.table + static_cast<std::ptrdiff_t>(args.positions[row]) * args.rope_dims;
    const int pairs = args.rope_dims / 2;
    team.each([&](int t) {
      for (int i = t; i < pairs; i += kThreads) {
        const float c = table[2 * i], s = args.inverse ? -table[2 * i + 1] : table[2 * i + 1];
        float& first = x[args.offset + (args.half_split ? i : 2 * i)];
        float& second = x[args.offset + (args.half_split ? i + pairs : 2 * i + 1)];
        const float x0 = first, x1 = second;
        first = std::fma(x0, c, -(x1 * s));
        second = std::fma(x0, s, x1 * c);
      }
    });
  }

  SLUICE_DEVICE void normalise(const Team<kThreads>& team, float* x) const {
    PerThread<float, kThreads> squares;
    team.each([&](int t) {
      float lane = 0.0F;
      SLUICE_UNROLL_8
      for (int i = t; i < args.head_dim; i += kThreads) lane = std::fma(x[i], x[i], lane);
      squares[t] = lane;
    });
    tree_sum16(team, squares);
    team.each([&](int t) {
      const float r = reciprocal_rms(squares[t], args.head_dim, args.norm_eps);
      for (int i = t; i < args.head_dim; i += kThreads) x[i] = x[i] * r;
    });
    team.sync();
  }
};

// A team a row, which lies in shared memory between the butterflies.
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
        for (int pair = t; pair < args.dim / 2; pair += kThreads) {
          const int i = (pair & ~(distance - 1)) * 2 + (pair & (distance - 1));
          const float a = at[i], b = at[i + distance];
          at[i] = a + b;
          at[i + distance] = a - b;
        }
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
  launch(exec, std::int64_t{args.rows} * args.heads, RopeHeads{args});
}

void hadamard(const Exec& exec, const HadamardArgs& args) {
  SLUICE_CHECK(args.dim > 0 && std::has_single_bit(static_cast<unsigned>(args.dim)), "Hadamard needs a power of two");
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(args.dim)));
  launch(exec, args.rows, Hadamard{args, scale}, static_cast<std::size_t>(args.dim) * sizeof(float));
}

}  // namespace sluice::SLUICE_CUDA_OPS
