// hc_mix, hc_collapse, hc_expand (kernels/ops/hyper_connection.h).
// Used by kernels/cuda/shared and kernels/cuda/sm90.
#include "kernels/cuda/shared/shared_ops.h"
#include "kernels/cuda/shared/row_sums.h"
#include "kernels/ops/hyper_connection.h"
#include "kernels/common/math.h"

namespace sluice::SLUICE_CUDA_OPS {
namespace {

constexpr int kN = kHcStreams;

SLUICE_DEVICE float sum4(const float* a, int step) {
  return (a[0] + a[2 * step]) + (a[step] + a[3 * step]);
}

// Everything of hc_mix after fn z. Each team has a row; sixteen of its threads have an element of the matrix each.
struct HcFinish {
  static constexpr int kThreads = kRowThreads;
  HcMixArgs args;
  const float* base;
  const float* scale;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const bool head = args.post == nullptr;
    const int dims = kN * args.dim, row = team.index;
    const float* x = args.x + static_cast<std::ptrdiff_t>(row) * dims;
    const float* mix = args.mixes + static_cast<std::ptrdiff_t>(row) * (head ? kN : 24);
    const float rho =
        reciprocal_rms(sum_row(team, dims, [&](int i) { return x[i]; }, AddSquare{}), dims, args.norm_eps);
    float* a = reinterpret_cast<float*>(team.shared);
    team.sync();
    team.each([&](int t) {
      const auto affine = [&](int i, float s) { return std::fma(mix[i] * rho, s, base[i]); };
      if (t < kN) args.pre[row * kN + t] = sigmoid_f32(affine(t, scale[0])) + args.hc_eps;
      if (head) return;
      if (t < kN) args.post[row * kN + t] = 2.0F * sigmoid_f32(affine(kN + t, scale[1]));
      if (t < kN * kN) a[t] = affine(2 * kN + t, scale[2]);
    });
    if (head) return;
    sinkhorn(team, a);
    team.each([&](int t) {
      if (t < kN * kN) args.comb[static_cast<std::ptrdiff_t>(row) * kN * kN + t] = a[t];
    });
  }

  SLUICE_DEVICE void sinkhorn(const Team<kThreads>& team, float* a) const {
    PerThread<float, kThreads> value;
    // value becomes update(its row, its column), then a has all values.
    const auto step = [&](const auto& update) {
      team.sync();
      team.each([&](int t) {
        if (t < kN * kN) value[t] = update(t, a + t / kN * kN, a + t % kN);
      });
      team.sync();
      team.each([&](int t) {
        if (t < kN * kN) a[t] = value[t];
      });
    };
    const auto row_step = [&](int t, const float* row, const float*) { return a[t] / (sum4(row, 1) + args.hc_eps); };
    const auto column_step = [&](int t, const float*, const float* column) {
      return a[t] / (sum4(column, kN) + args.hc_eps);
    };
    step([&](int t, const float* row, const float*) {
      float max = row[0];
      for (int k = 1; k < kN; ++k) max = row[k] > max ? row[k] : max;
      return exp_f32(a[t] - max);
    });
    step([&](int t, const float* row, const float*) { return a[t] / sum4(row, 1) + args.hc_eps; });
    step(column_step);
    for (int i = 1; i < args.sinkhorn_iterations; ++i) {
      step(row_step);
      step(column_step);
    }
    team.sync();
  }
};

struct HcCollapse {
  static constexpr int kThreads = 1;
  HcCollapseArgs args;
  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int row = team.index / args.dim, d = team.index % args.dim;
    const float* x = args.x + static_cast<std::ptrdiff_t>(row) * kN * args.dim + d;
    const float* pre = args.pre + row * kN;
    float sum = pre[0] * x[0];
    for (int j = 1; j < kN; ++j) sum = std::fma(pre[j], x[j * args.dim], sum);
    args.y[team.index] = sum;
  }
};

struct HcExpand {
  static constexpr int kThreads = 1;
  HcExpandArgs args;
  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int row = team.index / args.dim, d = team.index % args.dim;
    float* x = args.x + static_cast<std::ptrdiff_t>(row) * kN * args.dim + d;
    const float* comb = args.comb + static_cast<std::ptrdiff_t>(row) * kN * kN;
    const float y = args.y[team.index];
    float before[kN];
    for (int j = 0; j < kN; ++j) before[j] = x[j * args.dim];
    for (int k = 0; k < kN; ++k) {
      float sum = args.post[row * kN + k] * y;
      for (int j = 0; j < kN; ++j) sum = std::fma(comb[j * kN + k], before[j], sum);
      x[k * args.dim] = sum;
    }
  }
};

}  // namespace

void hc_mix(const Exec& exec, const HcMixArgs& args) {
  const LinearWeight &first = args.weights->fn[0], &second = args.weights->fn[1];
  const bool head = args.post == nullptr;
  const int mixes = head ? kN : 24, in = kN * args.dim;
  SLUICE_CHECK(first.in() == in && first.out() + second.out() == mixes, "fn maps the streams to the mixes");
  const LinearJob jobs[] = {{&first, args.x, in, args.mixes, mixes},
                            {&second, args.x, in, args.mixes + first.out(), mixes}};
  SLUICE_CUDA_OPS::linear(exec, LinearArgs{args.rows, {jobs, second.out() > 0 ? 2U : 1U}});
  launch(exec, args.rows, HcFinish{args, args.weights->base, args.weights->scale}, kRowSharedBytes);
}

void hc_collapse(const Exec& exec, const HcCollapseArgs& args) {
  launch(exec, std::int64_t{args.rows} * args.dim, HcCollapse{args});
}

void hc_expand(const Exec& exec, const HcExpandArgs& args) {
  launch(exec, std::int64_t{args.rows} * args.dim, HcExpand{args});
}

}  // namespace sluice::SLUICE_CUDA_OPS
