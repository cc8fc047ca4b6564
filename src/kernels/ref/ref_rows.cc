// Used by kernels/cpu, kernels/cpu/scalar and kernels/ref.
#include "kernels/ref/kernels.h"

namespace sluice::ref {

void encode_rows(const RowFormat& format, const float* x, std::ptrdiff_t ldx, const RowRef* rows, int count) {
  for (int i = 0; i < count; ++i) encode_row(format, x + i * ldx, rows[i]);
}

void decode_rows(const RowFormat& format, const RowRef* rows, int count, float* x, std::ptrdiff_t ldx) {
  for (int i = 0; i < count; ++i) decode_row(format, rows[i], x + i * ldx);
}

void simulate_rows(RowCodec codec, int dims, int rope_dims, float* x, std::ptrdiff_t ldx, int count) {
  for (int i = 0; i < count; ++i) simulate_row(codec, dims, rope_dims, x + i * ldx);
}

}  // namespace sluice::ref
