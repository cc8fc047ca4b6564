// Helpers for the tests of linear and experts: random weights in every checkpoint format, and the kernel sets of this
// machine.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/kernel_table.h"
#include "kernels/device/isa.h"

namespace sluice {

// A format with its scales, or with its type of codes.
struct WeightForm {
  WeightFormat format = WeightFormat::kF32;
  ScaleFormat scale_format = ScaleFormat::kNone;
  int block_out = 1, block_in = 128;
  DType codes = DType::kQ8_0;  // for kCodes: the type
};

std::string describe(const WeightForm& form);
// Every format that checkpoints have, with its possible scales: in its own blocks, or in blocks of 128 and of 32.
std::vector<WeightForm> weight_forms();

// The types of integer codes.
std::vector<DType> code_types();

// Where the f16 numbers are among the bytes of a block of integer codes.
std::vector<std::size_t> scale_places(DType codes);

// A random weight with its bytes. It has no NaN; e4m3 subnormals and zeros are among the values.
class RandomWeight {
 public:
  // For kCodes, `in` is made a multiple of the type's block.
  RandomWeight(std::mt19937& random, const WeightForm& form, int out, int in);
  const WeightView& view() const { return view_; }
  // Plants values that checkpoints may hold but seldom do: an FP8 code that is not a number, e8m0 scales at either end
  // of their range, and the one that is not a number.
  RandomWeight& plant_extremes(std::mt19937& random);

 private:
  std::vector<std::byte> data_, scales_;
  WeightView view_;
};

// Normal values, a few of them zero, negative zero, tiny or denormal.
std::vector<float> random_inputs(std::mt19937& random, std::size_t count);

// Copies of all_tables() (kernels/tests/op_testing.h).
std::vector<KernelTable> linear_tables();

// The index of the first value whose bits differ, or -1.
std::ptrdiff_t first_difference(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace sluice
