// rms_norm, layer_norm: a team a row (kernels/elementwise.h).
#include "kernels/cuda/shared/row_sums.h"
#include "kernels/elementwise.h"

namespace sluice::SLUICE_CUDA_OPS {
namespace {

struct RmsNorm {
  static constexpr int kThreads = kRowThreads;
  RmsNormArgs args;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const float* x = args.x + team.index * args.ldx;
    float* y = args.y + team.index * args.ldy;
    const float squares = sum_row(team, args.dim, [&](int i) { return x[i]; }, AddSquare{});
    const float r = reciprocal_rms(squares, args.dim, args.eps);
    team.each([&](int t) {
      for (int i = t; i < args.dim; i += kThreads) {
        y[i] = args.weight != nullptr ? (x[i] * r) * args.weight[i] : x[i] * r;
      }
    });
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
  launch(exec, args.rows, RmsNorm{args}, kRowSharedBytes);
}

void layer_norm(const Exec& exec, const LayerNormArgs& args) {
  launch(exec, args.rows, LayerNorm{args}, kRowSharedBytes);
}

}  // namespace sluice::SLUICE_CUDA_OPS
