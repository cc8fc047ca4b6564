// The block types of GGUF files, as integers with scales: in parts of 32 (Q6_K:
// 16) neighbours of a row,
//   value = scale * code        or, where the type has minima,        value =
//   scale * code + min
// each product and sum rounded to f32 on its own. docs/formats/gguf.md has the
// bytes. No value is a denormal. Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/host_device.h"

namespace sluice {

// What the parts of a type are like; `inputs` is 0 for a type that has none
// (MXFP4 is not one: its codes are no integers of one step).
struct BlockCodes {
  int inputs = 0;  // of a part: 32 or 16
  int bits = 0;    // that hold every code: 4 (codes from `lowest` on) or 8
  int lowest = 0;  // the least code: 0 or below
  bool min = false;
  bool f16 = false;  // scale and min are f16 numbers

  friend bool operator==(const BlockCodes&, const BlockCodes&) = default;
};
BlockCodes block_codes(DType dtype);

struct CodedPart {
  float scale = 0, min = 0;
  std::int8_t codes[32] = {};
};

// Part `part` of the row, or of whole blocks, that is stored at `data` (any
// alignment).
void read_part(DType dtype, const std::byte* data, std::size_t part, CodedPart& out);

// The part's values.
SLUICE_HD inline void decode_part(const BlockCodes& form, const CodedPart& part, float* out) {
  for (int i = 0; i < form.inputs; ++i) out[i] = part.scale * static_cast<float>(part.codes[i]);
  if (!form.min) return;
  for (int i = 0; i < form.inputs; ++i) out[i] += part.min;
}

}  // namespace sluice
