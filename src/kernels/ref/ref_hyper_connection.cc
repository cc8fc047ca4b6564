#include "kernels/common/math.h"
#include "kernels/ref/kernels.h"
#include "kernels/ref/lanes16.h"
#include "kernels/ref/ref_linear.h"

namespace sluice::ref {
namespace {

constexpr int kN = kHcStreams;

float sum4(float a0, float a1, float a2, float a3) {
  return (a0 + a2) + (a1 + a3);
}

void row_step(float* a, float eps) {
  for (int j = 0; j < kN; ++j) {
    const float sum = sum4(a[kN * j], a[kN * j + 1], a[kN * j + 2], a[kN * j + 3]) + eps;
    for (int k = 0; k < kN; ++k) a[kN * j + k] /= sum;
  }
}

void column_step(float* a, float eps) {
  for (int k = 0; k < kN; ++k) {
    const float sum = sum4(a[k], a[kN + k], a[2 * kN + k], a[3 * kN + k]) + eps;
    for (int j = 0; j < kN; ++j) a[kN * j + k] /= sum;
  }
}

void row_softmax(float* a) {
  for (int j = 0; j < kN; ++j) {
    float* row = a + kN * j;
    float max = row[0];
    for (int k = 1; k < kN; ++k) max = row[k] > max ? row[k] : max;
    for (int k = 0; k < kN; ++k) row[k] = exp_f32(row[k] - max);
    const float sum = sum4(row[0], row[1], row[2], row[3]);
    for (int k = 0; k < kN; ++k) row[k] /= sum;
  }
}

void sinkhorn(float* a, float eps, int iterations) {
  row_softmax(a);
  for (int i = 0; i < kN * kN; ++i) a[i] += eps;
  column_step(a, eps);
  for (int i = 1; i < iterations; ++i) {
    row_step(a, eps);
    column_step(a, eps);
  }
}

}  // namespace

void hc_product(const HcMixArgs& args, int begin, int end) {
  const auto& fn = args.weights->fn;
  const std::ptrdiff_t in = fn[0].in(), mixes = fn[0].out() + fn[1].out();
  float* y = args.mixes + begin * mixes;
  for (const LinearWeight& weight : fn) {
    scalar_linear({&weight, args.x + begin * in, in, y, mixes}, end - begin, 0, weight.out());
    y += weight.out();
  }
}

void hc_finish(const HcMixArgs& args, int begin, int end) {
  const float* base = args.weights->base;
  const float* scale = args.weights->scale;
  const int z_dims = kN * args.dim, mix_count = args.post == nullptr ? kN : 24;
  for (int row = begin; row < end; ++row) {
    const float rho = reciprocal_rms(args.x + static_cast<std::ptrdiff_t>(row) * z_dims, z_dims, args.norm_eps);
    const float* mix = args.mixes + static_cast<std::ptrdiff_t>(row) * mix_count;
    const auto affine = [&](int i, float s) { return std::fma(mix[i] * rho, s, base[i]); };
    float* pre = args.pre + row * kN;
    for (int j = 0; j < kN; ++j) pre[j] = sigmoid_f32(affine(j, scale[0])) + args.hc_eps;
    if (args.post == nullptr) continue;
    float* post = args.post + row * kN;
    for (int j = 0; j < kN; ++j) post[j] = 2.0F * sigmoid_f32(affine(kN + j, scale[1]));
    float* comb = args.comb + static_cast<std::ptrdiff_t>(row) * kN * kN;
    for (int i = 0; i < kN * kN; ++i) comb[i] = affine(2 * kN + i, scale[2]);
    sinkhorn(comb, args.hc_eps, args.sinkhorn_iterations);
  }
}

void hc_collapse(const HcCollapseArgs& args, int begin, int end) {
  for (int row = begin; row < end; ++row) {
    const float* x = args.x + static_cast<std::ptrdiff_t>(row) * kN * args.dim;
    const float* pre = args.pre + row * kN;
    float* y = args.y + static_cast<std::ptrdiff_t>(row) * args.dim;
    for (int d = 0; d < args.dim; ++d) {
      float sum = pre[0] * x[d];
      for (int j = 1; j < kN; ++j) sum = std::fma(pre[j], x[j * args.dim + d], sum);
      y[d] = sum;
    }
  }
}

void hc_expand(const HcExpandArgs& args, int begin, int end) {
  for (int row = begin; row < end; ++row) {
    float* x = args.x + static_cast<std::ptrdiff_t>(row) * kN * args.dim;
    const float* y = args.y + static_cast<std::ptrdiff_t>(row) * args.dim;
    const float* post = args.post + row * kN;
    const float* comb = args.comb + static_cast<std::ptrdiff_t>(row) * kN * kN;
    for (int d = 0; d < args.dim; ++d) {
      float sum[kN];
      for (int k = 0; k < kN; ++k) {
        sum[k] = post[k] * y[d];
        for (int j = 0; j < kN; ++j) sum[k] = std::fma(comb[j * kN + k], x[j * args.dim + d], sum[k]);
      }
      for (int k = 0; k < kN; ++k) x[k * args.dim + d] = sum[k];
    }
  }
}

}  // namespace sluice::ref
