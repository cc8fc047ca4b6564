// rms_norm, layer_norm: a team for each row (kernels/ops/elementwise.h).
// Called through the table of ops (kernels/ops/ops.h).
#include "base/formats/number_formats.h"
#include "kernels/cuda/shared/shared_ops.h"
#include "kernels/cuda/shared/row_sums.h"
#include "kernels/ops/elementwise.h"

namespace sluice::SLUICE_CUDA_OPS {
namespace {

// Few rows take little but latency, much of it that of instructions and weights that are in no cache. So each team
// rehearses: it runs once without a result, on the weights, while the kernels ahead still work. That loads instructions
// and weights into the caches.
struct RmsNorm {
  static constexpr int kThreads = kRowThreads;
  static constexpr bool kWaits = true;
  RmsNormArgs args;
  std::uint16_t* rounded;  // where the normed row goes as bf16; null: not wanted
  std::ptrdiff_t ld_rounded;
  bool rehearses;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    float* y = args.y + team.index * args.ldy;
    SLUICE_ROLLED
    for (int run = rehearses ? 0 : 1; run < 2; ++run) {
      const bool real = run == 1;
      if (real) wait_for_kernels();
      const float* x = real ? args.x + team.index * args.ldx : args.weight;
      const float squares = sum_row(team, args.dim, [&](int i) { return x[i]; }, AddSquare{});
      const float r = reciprocal_rms(squares, args.dim, args.eps);
      const float* at = args.dim <= kStagedFloats ? reinterpret_cast<const float*>(team.shared) : x;
      team.each([&](int t) {
        SLUICE_UNROLL_4
        for (int i = t; i < args.dim; i += kThreads) {
          const float value = args.weight != nullptr ? (at[i] * r) * args.weight[i] : at[i] * r;
          if (real) y[i] = value;
          if (real && rounded != nullptr) rounded[team.index * ld_rounded + i] = to_bf16(value).bits;
        }
      });
    }
  }
};

struct LayerNorm {
  static constexpr int kThreads = kRowThreads;
  LayerNormArgs args;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const float* x = args.x + team.index * args.ldx;
    float* y = args.y + team.index * args.ldy;
    const float sum =
        sum_row(team, args.dim, [&](int i) { return x[i]; }, [](float lane, float v) { return lane + v; });
    const float mean = sum / static_cast<float>(args.dim);
    const float squares = sum_row(team, args.dim, [&](int i) { return x[i] - mean; }, AddSquare{});
    const float r = reciprocal_rms(squares, args.dim, args.eps);
    team.each([&](int t) {
      for (int i = t; i < args.dim; i += kThreads) y[i] = std::fma((x[i] - mean) * r, args.weight[i], args.bias[i]);
    });
  }
};

}  // namespace

void rms_norm(const Exec& exec, const RmsNormArgs& args) {
  rms_norm_rounded(exec, args, nullptr, 0);
}

void rms_norm_rounded(const Exec& exec, const RmsNormArgs& args, float* rounded, std::ptrdiff_t ld_rounded) {
  constexpr int kRehearsed = 32;  // at most this many rows are rehearsed: each of them waits for the kernels ahead
  launch(exec, args.rows,
         RmsNorm{args, reinterpret_cast<std::uint16_t*>(rounded), 2 * ld_rounded,
                 args.rows <= kRehearsed && args.weight != nullptr},
         kRowSharedBytes);
}

void layer_norm(const Exec& exec, const LayerNormArgs& args) {
  launch(exec, args.rows, LayerNorm{args}, kRowSharedBytes);
}

}  // namespace sluice::SLUICE_CUDA_OPS
