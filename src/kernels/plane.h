// Cached rows: where row r of page p of a plane lies (PlaneView), and the ops that code rows (kernels/row_codec.h).
//
<<<<<<< HEAD
// Codecs of a row of `dims` values, the last `rope_dims` of them rotary (docs/models/deepseek_v4.md §11.3, §11.4, §12):
//   kF32       4 bytes a value
//   kBf16      2 bytes a value, round to nearest even
//   kV4Fp8     non-rotary dims in blocks of 64: amax = max(max|x|, 1e-4), s = pow2_ceil(amax * (1 / 448)), e4m3(x / s);
//              then the rotary dims as bf16; scales as e8m0 bytes, padded with 0 to a multiple of 8.
//              584 bytes at dims 512 (576 data + 8 scales), 200 at 128.
//   kIndexFp8  all dims e4m3 under one f32 scale (a power of two by the same rule): 132 bytes at dims 128
//   kIndexFp4  all dims e2m1 in blocks of 32: amax = max(max|x|, 6 * 2^-126), s = pow2_ceil(amax / 6), e2m1(x / s);
//              even values in the low nibble; e8m0 scales: 68 bytes at dims 128
//   kMlaFp8    non-rotary dims in blocks of 128 (the last may be shorter), e4m3 under an f32 scale each (a power of
//              two by kV4Fp8's rule), then the rotary dims as bf16: 656 bytes at dims 512 + 64
// A page of R rows is R data parts, then R scale parts (structure of arrays, as the official caches lay it out).
// The 8-byte scale padding and the order of the parts are the official layout without its rounding of pages; kMlaFp8:
// docs/models/deepseek_v3.2.md §3.
=======
// A page of R rows is R data parts, then R scale parts (structure of arrays, as the official caches lay it out).
>>>>>>> bac1b4b
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/exec.h"
#include "kernels/row_codec.h"
#include "kernels/step_tables.h"

namespace sluice {

// One plane of one pool: pages of `rows_per_page` rows. Does not own its bytes.
struct PlaneView {
  std::byte* base = nullptr;
  std::size_t page_bytes = 0;  // from page to page: rows_per_page * format.row_bytes(), and padding at the end
  int rows_per_page = 0;
  RowFormat format;

  // The one place that turns (page, row) into an address. 64-bit throughout: pools exceed 4 GiB.
  constexpr RowRef row(std::int32_t page, int r) const {
    std::byte* p = base + static_cast<std::size_t>(page) * page_bytes;
    return {p + static_cast<std::size_t>(r) * static_cast<std::size_t>(format.data_bytes),
            p + static_cast<std::size_t>(rows_per_page) * static_cast<std::size_t>(format.data_bytes) +
                static_cast<std::size_t>(r) * static_cast<std::size_t>(format.scale_bytes)};
  }
  constexpr RowRef row(RowSlot slot) const { return row(slot.value / rows_per_page, slot.value % rows_per_page); }
};

<<<<<<< HEAD
// x [dims] -> coded row, and back: the scalar definitions.
void encode_row(const RowFormat& format, const float* x, RowRef row);
void decode_row(const RowFormat& format, RowRef row, float* x);

// Quantises and dequantises x in place, as the codec would store it, for caches that hold f32 or bf16 but must see what
// the model was trained with. kV4Fp8 and kMlaFp8 leave the rotary dims as they are.
void simulate_row(RowCodec codec, int dims, int rope_dims, float* x);

// The same for many rows on the kernels and threads of `exec`: row i lies at x + i * ldx and goes to slots[i] of the
// plane; -1: nowhere. No two slots are the same.
=======
// encode_row() for many rows on the kernels and threads of `exec`: row i lies at x + i * ldx and goes to slots[i] of
// the plane, or nowhere where that is -1. No two slots are the same.
>>>>>>> bac1b4b
struct EncodeRowsArgs {
  const PlaneView* plane = nullptr;
  int count = 0;
  const float* x = nullptr;
  std::ptrdiff_t ldx = 0;
  const RowSlot* slots = nullptr;
};
void encode_rows(const Exec& exec, const EncodeRowsArgs& args);
// On this thread, to rows in the host's memory; x: [rows, dims].
void encode_on_host(const KernelTable& kernels, const RowFormat& format, const float* x, std::span<const RowRef> rows);
// Rows [first, first + count) of the sequence of a span, from a latent plane to x [count, dims].
struct DecodeRowsArgs {
  const StepTables* step = nullptr;
  RowSpan span;
  const PlaneView* plane = nullptr;
  std::int32_t first = 0;
  int count = 0;
  float* x = nullptr;
};
void decode_rows(const Exec& exec, const DecodeRowsArgs& args);
struct SimulateRowsArgs {
  RowCodec codec = RowCodec::kF32;
  int dims = 0, rope_dims = 0, count = 0;
  float* x = nullptr;
  std::ptrdiff_t ldx = 0;
};
void simulate_rows(const Exec& exec, const SimulateRowsArgs& args);

}  // namespace sluice
