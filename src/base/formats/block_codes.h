// The block types of GGUF files, as integers with scales. For each part of a row, 32 neighbours (16 for some types),
//   value = scale * code          or, if the type has minima,
//   value = scale * code + min
// with each product and sum rounded to f32. docs/formats/gguf.md has the bytes. No value is a denormal. A type is a
// struct of base/formats/block_types.h, which kernels of every device are made from. Thread safety: pure functions.
// Used by base, cli, files, kernels and model.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/formats/dtype.h"
#include "base/host_device.h"

namespace sluice {

// The form of a type's parts. The kernels of every device know a type by its form alone, so a type of a new form needs
// no kernels of its own. `inputs` is 0 for types without such a form (MXFP4: its codes are not evenly spaced).
struct BlockCodes {
  int inputs = 0;  // inputs of a part: 32 or 16
  int bits = 0;    // bits of a code: 4 (codes from `lowest` on) or 8
  int lowest = 0;  // the lowest code, at most 0
  bool min = false;
  bool f16 = false;  // scale and min are f16 numbers
  // Not null: the 4 bits number sixteen codes, level(0) to level(15), which are -127 to 127 and not evenly spaced.
  int (*level)(int number) = nullptr;

  friend bool operator==(const BlockCodes&, const BlockCodes&) = default;
};
BlockCodes block_codes(DType dtype);

// The codes of the types IQ4, which lie the closer the nearer they are to 0.
SLUICE_HD constexpr int iq4_code(int number) {
  constexpr std::int8_t kCodes[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  return kCodes[number];
}

struct CodedPart {
  float scale = 0, min = 0;
  std::int8_t codes[32] = {};
};

// Reads part `part` of the row, or of the whole blocks, stored at `data` (any alignment).
void read_part(DType dtype, const std::byte* data, std::size_t part, CodedPart& out);

// The part's values.
SLUICE_HD inline void decode_part(const BlockCodes& form, const CodedPart& part, float* out) {
  for (int i = 0; i < form.inputs; ++i) out[i] = part.scale * static_cast<float>(part.codes[i]);
  if (!form.min) return;
  for (int i = 0; i < form.inputs; ++i) out[i] += part.min;
}

}  // namespace sluice
