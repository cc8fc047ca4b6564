// A QuantizedBlock (kernels/weights/linear_inputs.h) by sixteen threads.
// Used by linear_inputs.cu and shared_experts.cu.
#pragma once

#include <cmath>

#include "kernels/cuda/launch.h"
#include "kernels/weights/linear_inputs.h"

namespace sluice::SLUICE_CUDA_OPS {

// Quantises value(0) to value(31).
template <class Value>
SLUICE_DEVICE void quantize_block(const Team<16>& team, const Value& value, QuantizedBlock& to) {
  PerThread<float, 16> values[2], largest, lower, upper;
  team.each([&](int t) {
    values[0][t] = value(t);
    values[1][t] = value(t + 16);
    const float a = std::fabs(values[0][t]), b = std::fabs(values[1][t]);
    largest[t] = a != a || b != b ? INFINITY : b > a ? b : a;
  });
  max16(team, largest);
  const QuantizedScale scale = quantized_scale(std::bit_cast<std::int32_t>(largest[0]));
  team.each([&](int t) {
    std::int32_t codes[2] = {};
    SLUICE_UNROLL
    for (int half = 0; half < 2; ++half) {
      if (scale.inverse != 0.0F) {
        codes[half] =
            std::bit_cast<std::int32_t>(values[half][t] * scale.inverse + kQuantizedMagic) - kQuantizedMagicBits;
      }
      const int of_eight = t % 8, at = of_eight < 4 ? 2 * of_eight : 2 * of_eight - 7;  // the order 0 4 1 5 2 6 3 7
      to.codes[16 * half + t - of_eight + at] = static_cast<std::int8_t>(codes[half]);
    }
    lower[t] = static_cast<float>(codes[0]);  // sums of sixteen codes are exact
    upper[t] = static_cast<float>(codes[1]);
  });
  tree_sum16(team, lower);
  tree_sum16(team, upper);
  team.each([&](int t) {
    if (t > 0) return;
    to.scale = scale.scale;
    to.upper_sum = static_cast<std::int32_t>(upper[t]);
    to.sum = static_cast<std::int32_t>(lower[t]) + to.upper_sum;
    to.start = kQuantizedMagicBits - 12 * to.sum;
  });
}

}  // namespace sluice::SLUICE_CUDA_OPS
