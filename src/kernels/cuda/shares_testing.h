// Helpers for the tests of shares of weights, on the CPU and on a GPU.
#pragma once

#include <algorithm>
#include <cstddef>
#include <random>
#include <vector>

#include "kernels/tests/linear_testing.h"

namespace sluice {

// Returns rank `rank`'s share of the outputs of `whole`, which divide by the ranks.
inline WeightView share_of(const WeightView& whole, int rank, int ranks) {
  WeightView share = slice_rows(whole, whole.out / ranks * rank, whole.out / ranks);
  share.first_out = whole.out / ranks * rank, share.whole_out = whole.out;
  return share;
}

// A random weight whose scales of MXFP4 are at most 2: larger ones are infinite in strips.
class TrainedWeight {
 public:
  TrainedWeight(std::mt19937& random, const WeightForm& form, int out, int in)
      : weight_(random, form, out, in), view_(weight_.view()) {
    if (view_.format != WeightFormat::kMxfp4) return;
    scales_.assign(view_.scales, view_.scales + static_cast<std::ptrdiff_t>(out) * view_.scale_columns);
    for (std::byte& scale : scales_) scale = std::min(scale, std::byte{128});
    view_.scales = scales_.data();
  }
  TrainedWeight(TrainedWeight&&) = default;
  const WeightView& view() const { return view_; }

 private:
  RandomWeight weight_;
  std::vector<std::byte> scales_;
  WeightView view_;
};

}  // namespace sluice
