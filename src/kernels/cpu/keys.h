// Cached rows as f32 for the products of attention: decoded into scratch, or read where they lie.
#pragma once

#include "kernels/attention.h"
#include "kernels/cpu/rows.h"

namespace sluice::cpu::SLUICE_ISA {

// Dims in whole vectors; and the distance of decoded rows, which is no power of two, so that a column of them does not
// fall into a few sets of the cache.
[[gnu::always_inline]] inline int padded_dims(int dims) {
  return (dims + 15) / 16 * 16;
}
[[gnu::always_inline]] inline std::ptrdiff_t key_stride(int dims) {
  return padded_dims(dims) + 16;
}

// Where `row` can be read as f32, padded with zeros: in `into` (key_stride floats), or in the cache.
template <class V>
[[gnu::always_inline]] inline const float* key_values(const RowFormat& format, RowRef row, float* into) {
  if (format.dims % 16 == 0 && format.codec == RowCodec::kF32) return reinterpret_cast<const float*>(row.data);
  if (!decode_fast<V>(format, row, into)) {
    decode_row(format, row, into);
    for (int d = format.dims; d < padded_dims(format.dims); ++d) into[d] = 0.0F;
  }
  return into;
}

}  // namespace sluice::cpu::SLUICE_ISA
