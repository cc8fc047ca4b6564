#include "kernels/ref/linear.h"

#include <algorithm>
#include <cmath>

namespace sluice {

namespace {

std::size_t packed_bytes(const WeightView&) {
  return 0;
}
void pack(const WeightView&, int, int, std::byte*) {}

// The weights of output n for inputs [begin, begin + count), with an f32 scale already multiplied in.
void unpack_block(const WeightView& view, int n, int begin, int count, float* weights) {
  const bool prescaled = view.scale_format == ScaleFormat::kF32;
  for (int k = 0; k < count; ++k) {
    weights[k] = view.element(n, begin + k);
    if (prescaled) weights[k] *= view.scale(n, begin + k);
  }
}

float chain(const float* x, const float* w, int count) {
  float acc = 0.0F;
  for (int k = 0; k < count; k += 2) {
    if (k + 1 < count) acc = std::fma(x[k + 1], w[k + 1], acc);
    acc = std::fma(x[k], w[k], acc);
  }
  return acc;
}

void run(const LinearJob& job, int rows, int begin, int end) {
  const WeightView& view = job.weight->view();
  const int block = view.block_inputs();
  std::vector<float> weights(static_cast<std::size_t>(std::min(block, view.in)));
  for (int n = begin; n < end; ++n) {
    for (int r = 0; r < rows; ++r) job.y[r * job.ldy + n] = 0.0F;
    for (int k = 0; k < view.in; k += block) {
      const int count = std::min(block, view.in - k);
      unpack_block(view, n, k, count, weights.data());
      const float scale = view.scale_format == ScaleFormat::kE8m0 ? view.scale(n, k) : 1.0F;
      for (int r = 0; r < rows; ++r) {
        float& y = job.y[r * job.ldy + n];
        y = std::fma(chain(job.x_row(r) + k, weights.data(), count), scale, y);
      }
    }
  }
}

}  // namespace

const LinearKernels& scalar_linear_kernels() {
  static constexpr LinearKernels kKernels{packed_bytes, pack, 8, run};
  return kKernels;
}

}  // namespace sluice
