// Used by model/weights/weight_table.cc.
#include "kernels/weights/narrow_weight.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "base/formats/number_formats.h"

namespace sluice {

WeightView narrow_shape(const WeightView& view) {
  WeightView narrow;
  narrow.format = WeightFormat::kFp8;
  narrow.out = view.out, narrow.in = view.in;
  narrow.first_out = view.first_out, narrow.whole_out = view.whole_out;
  narrow.scale_format = ScaleFormat::kE8m0;
  narrow.block_out = narrow.block_in = kNarrowBlock;
  narrow.scale_columns = (view.in + kNarrowBlock - 1) / kNarrowBlock;
  return narrow;
}

std::size_t narrow_scales(const WeightView& narrow) {
  return static_cast<std::size_t>((narrow.out + kNarrowBlock - 1) / kNarrowBlock) *
         static_cast<std::size_t>(narrow.scale_columns);
}

namespace {

// Calls visit(row, first input, values, index of their scale), from one thread for all values of a scale.
template <class Visit>
void each_narrow_row(ThreadPool* pool, const WeightView& view, const Visit& visit) {
  pool->run((view.out + kNarrowBlock - 1) / kNarrowBlock, [&](int block, int) {
    const KeepDenormals exact;
    float values[kNarrowBlock];
    for (int row = block * kNarrowBlock; row < std::min(view.out, (block + 1) * kNarrowBlock); ++row) {
      for (int first = 0; first < view.in; first += kNarrowBlock) {
        const int count = std::min(kNarrowBlock, view.in - first);
        view.read(row, first, count, values);
        const auto scale = static_cast<std::size_t>(block * ((view.in + kNarrowBlock - 1) / kNarrowBlock)) +
                           static_cast<std::size_t>(first / kNarrowBlock);
        visit(row, first, std::span<const float>(values, static_cast<std::size_t>(count)), scale);
      }
    }
  });
}

}  // namespace

void write_narrow_scales(ThreadPool* pool, const WeightView& view, std::byte* to) {
  constexpr float kMost = 448;  // the largest e4m3
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  std::vector<float> most(narrow_scales(narrow_shape(view)));
  each_narrow_row(pool, view, [&](int, int, std::span<const float> values, std::size_t scale) {
    for (const float value : values) {
      most[scale] = std::max(most[scale], std::isfinite(value) ? std::abs(value) : kInfinite);
    }
  });
  for (std::size_t i = 0; i < most.size(); ++i) {
    int exponent = 0;
    const float mantissa = std::frexp(most[i] / kMost, &exponent);
    const int needed = std::clamp(mantissa == 0.5F ? exponent - 1 : exponent, -126, 127);
    to[i] = static_cast<std::byte>(most[i] == kInfinite ? 0xFF : most[i] == 0 ? 127 : needed + 127);
  }
}

void write_narrow(ThreadPool* pool, const WeightView& view, const std::byte* scales, std::byte* to) {
  each_narrow_row(pool, view, [&](int row, int first, std::span<const float> values, std::size_t scale) {
    const float inverse = 1 / e8m0_to_float(std::to_integer<std::uint8_t>(scales[scale]));
    std::byte* codes = to + static_cast<std::size_t>(row) * static_cast<std::size_t>(view.in) + first;
    for (std::size_t i = 0; i < values.size(); ++i)
      codes[i] = static_cast<std::byte>(float_to_e4m3(values[i] * inverse));
  });
}

}  // namespace sluice
