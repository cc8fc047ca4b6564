// Rows: activations that one op hands to the next, as f32 and in the forms that the weights reading them multiply
// (kernels/ops/linear.h). The op that writes the rows makes each form that has memory, once for all its readers; a
// reader that finds none makes it for its call. Plain values; the memory is Scratch's (kernels/device/scratch.h).
#pragma once

#include <array>
#include <cstddef>

namespace sluice {

enum class InputForm { kF32, kBf16, kInt8, kFp8, kTiles, kFp8Blocks };
inline constexpr int kInputForms = 6;

struct Rows {
  float* values = nullptr;  // row r lies at values + r * ld
  std::ptrdiff_t ld = 0;    // in floats
  int columns = 0;          // of a part
  // Parts of a row that are inputs of their own (the heads of a group, say): part i lies at + i * part_step.
  int parts = 1;
  std::ptrdiff_t part_step = 0;
  // By InputForm, but for kF32: [rows, parts, input_floats(form, columns)]; null: not made.
  std::array<float*, kInputForms> forms{};

  float* form(InputForm wanted) const { return forms[static_cast<std::size_t>(wanted)]; }
};

// `columns` values side by side in each row.
inline Rows contiguous_rows(float* values, int columns) {
  return {.values = values, .ld = columns, .columns = columns};
}

}  // namespace sluice
