// Rows: activations that one op hands to the next, as f32 and in the forms that the weights reading them multiply
// (kernels/ops/linear.h). The op that writes the rows makes each form that has memory, once for all its readers. A
// reader that finds a form missing makes it for its call. Plain values; Scratch owns the memory
// (kernels/device/scratch.h).
// Used by kernels/composed, kernels/device, kernels/ops and kernels/weights.
#pragma once

#include <array>
#include <cstddef>

namespace sluice {

enum class InputForm { kF32, kBf16, kInt8, kFp8, kTiles, kFp8Blocks };
inline constexpr int kInputForms = 6;

struct Rows {
  float* values = nullptr;  // row r lies at values + r * ld
  std::ptrdiff_t ld = 0;    // in floats
  int columns = 0;          // columns of one part
  // A row may have parts that are inputs of their own (the heads of a group, say): part i lies at + i * part_step.
  int parts = 1;
  std::ptrdiff_t part_step = 0;
  // By InputForm, except kF32: [rows, parts, input_floats(form, columns)]; null: not made.
  std::array<float*, kInputForms> forms{};

  float* form(InputForm wanted) const { return forms[static_cast<std::size_t>(wanted)]; }
};

// Rows of `columns` values that lie next to each other.
inline Rows contiguous_rows(float* values, int columns) {
  return {.values = values, .ld = columns, .columns = columns};
}

}  // namespace sluice
