// add_norm in the order of the profile sm90 (kernels/cuda/shared/add_norm.h), value by value.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "base/formats/number_formats.h"
#include "kernels/cuda/op_cases_testing.h"
#include "kernels/ops/residual.h"
#include "kernels/weights/linear_inputs.h"

namespace sluice {

inline void plain_add_norm_in_blocks(const AddNormArgs& args) {
  constexpr int kBlock = 128;
  for (int i = 0; args.y != nullptr && i < args.rows * args.dim; ++i) args.x[i] += args.y[i];
  const int rows = args.only.data() == nullptr ? args.rows : static_cast<int>(args.only.size());
  for (int row = 0; row < rows; ++row) {
    const int from = args.only.data() == nullptr ? row : args.only[static_cast<std::size_t>(row)];
    const float* x = args.x + static_cast<std::ptrdiff_t>(from) * args.dim;
    float all = 0.0F;
    for (int block = 0; block < args.dim; block += kBlock) {
      std::array<float, 16> lanes{};
      for (int i = 0; i < kBlock; ++i) {
        float& lane = lanes[static_cast<std::size_t>(i % 16)];
        lane = std::fma(x[block + i], x[block + i], lane);
      }
      for (std::size_t half = 8; half > 0; half /= 2) {
        for (std::size_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
      }
      all += lanes[0];
    }
    const float r = 1.0F / std::sqrt(all / static_cast<float>(args.dim) + args.eps);
    auto* pairs = reinterpret_cast<std::uint16_t*>(args.normed.form(InputForm::kBf16));
    for (int i = 0; i < args.dim; ++i) {
      const float value = (x[i] * r) * args.norm[i];
      args.normed.values[row * args.normed.ld + i] = value;
      if (pairs != nullptr) pairs[static_cast<std::ptrdiff_t>(row) * args.dim + i] = to_bf16(value).bits;
    }
  }
}

// A case of `add_norm`, a kernel of that order, against the function above.
inline OpCase add_norm_in_blocks_case(Random& random, CaseMemory& memory,
                                      void (*add_norm)(const Exec& exec, const AddNormArgs& args)) {
  AddNormArgs args{.rows = random.pick(std::vector<int>{1, 2, 7, 40}),
                   .dim = random.pick(std::vector<int>{128, 384, 2048, 2176, 4096, 7168}),
                   .eps = 1e-5F};
  const auto count = static_cast<std::size_t>(args.rows * args.dim);
  const auto x = memory.put(random.floats(count)), normed = memory.poisoned<float>(count);
  const auto rounded = memory.poisoned<float>(count / 2);
  args.x = x.data();
  if (random.between(0, 3) > 0) args.y = memory.put(random.floats(count)).data();
  args.norm = memory.put(random.floats(static_cast<std::size_t>(args.dim))).data();
  args.normed = contiguous_rows(normed.data(), args.dim);
  if (random.between(0, 3) > 0) args.normed.forms[static_cast<std::size_t>(InputForm::kBf16)] = rounded.data();
  if (random.between(0, 1) == 0) {
    std::vector<std::int32_t> only(static_cast<std::size_t>(random.between(1, args.rows)));
    for (std::int32_t& row : only) row = random.between(0, args.rows - 1);  // in any order, some twice
    args.only = memory.put(only);
  }
  return {fmt::format("{} of {} rows of {}, added {}", args.only.size(), args.rows, args.dim, args.y != nullptr),
          [=](const Exec& exec, bool packed) { packed ? add_norm(exec, args) : plain_add_norm_in_blocks(args); },
          {x, normed},
          {std::as_writable_bytes(rounded)}};
}

}  // namespace sluice
