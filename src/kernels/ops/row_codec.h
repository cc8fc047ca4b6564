// Row codecs: the ways to store the values of a cached row. A codec is a line of kRowCodecs. Its names, its bytes, its
// scalar definition and the kernels of every device that code rows follow from that line, and the tests walk the table.
//
// A row has `dims` values, of which the last `rope_dims` are rotary (docs/models/deepseek_v4.md §11.3, §11.4, §12;
// kMlaFp8: docs/models/deepseek_v3.2.md §3):
//   kF32   4 bytes a value
//   kBf16  2 bytes a value, round to nearest even
//   kE4m3  a byte a value, in blocks under a scale: amax = max(max|x|, 1e-4), s = pow2_ceil(amax * (1 / 448)),
//          e4m3(x / s)
//   kE2m1  half a byte a value, even value in the low nibble, in blocks under a scale:
//          amax = max(max|x|, 6 * 2^-126), s = pow2_ceil(amax / 6), e2m1(x / s)
// The data are the codes, then the values that are not in blocks, as bf16; scales lie apart (kernels/ops/plane.h).
// Thread safety: constants and pure functions.
// Used by kernels/cpu/avx512vbmi/fp8_cells.h, kernels/cpu/cpu_rows.h and plane.h.
#pragma once

#include <cstddef>
#include <iterator>
#include <type_traits>

#include "base/host_device.h"

namespace sluice {

enum class RowCodec { kF32, kBf16, kV4Fp8, kMlaFp8, kIndexFp8, kIndexFp4 };

enum class RowValues { kF32, kBf16, kE4m3, kE2m1 };
enum class RowScales { kNone, kE8m0, kF32 };  // kE8m0: a byte; kF32: four bytes; both hold powers of two
// The form in which the indexer's queries multiply keys of the codec (kernels/ops/indexer.h): as they are, rounded to
// bf16, or coded as the keys are, so that the products are integers.
enum class IndexQueries { kFloats, kBf16, kCodes };

struct RowCodecInfo {
  RowCodec codec = RowCodec::kF32;
  const char* name = "";  // the codec's own name
  const char* type = "";  // the name in flags and profiles
  RowValues values = RowValues::kF32;
  RowScales scales = RowScales::kNone;
  int block = 0;             // values that share a scale; 0: all values of a row
  bool short_block = false;  // the last block of a row may be shorter
  int scale_multiple = 1;    // scales are padded with zeros to a multiple of this many bytes
  bool rope_bf16 = false;    // rotary dims are stored as bf16, not in blocks
  IndexQueries index_queries = IndexQueries::kFloats;

  constexpr bool quantised() const { return scales != RowScales::kNone; }
  // The number of values that are in blocks; they are the first ones.
  [[gnu::always_inline]] constexpr int in_blocks(int dims, int rope_dims) const {
    return !quantised() ? 0 : rope_bf16 ? dims - rope_dims : dims;
  }
  // Returns the bytes of `count` codes.
  [[gnu::always_inline]] constexpr int code_bytes(int count) const {
    return values == RowValues::kE2m1 ? count / 2 : count;
  }
  [[gnu::always_inline]] constexpr int bytes_of_scale() const { return scales == RowScales::kF32 ? 4 : 1; }
};

// Every codec, in the order of the enum.
inline constexpr RowCodecInfo kRowCodecs[] = {
    {.codec = RowCodec::kF32, .name = "f32", .type = "f32", .values = RowValues::kF32},
    {.codec = RowCodec::kBf16, .name = "bf16", .type = "bf16", .values = RowValues::kBf16},
    // 584 bytes at dims 512 (576 data + 8 scales), 200 at 128: the official layout without its rounding of
    // pages.
    {.codec = RowCodec::kV4Fp8,
     .name = "fp8",
     .type = "fp8",
     .values = RowValues::kE4m3,
     .scales = RowScales::kE8m0,
     .block = 64,
     .scale_multiple = 8,
     .rope_bf16 = true},
    // 656 bytes at dims 512 + 64.
    {.codec = RowCodec::kMlaFp8,
     .name = "mla-fp8",
     .type = "fp8",
     .values = RowValues::kE4m3,
     .scales = RowScales::kF32,
     .block = 128,
     .short_block = true,
     .rope_bf16 = true},
    // 132 bytes at dims 128.
    {.codec = RowCodec::kIndexFp8,
     .name = "index-fp8",
     .type = "fp8",
     .values = RowValues::kE4m3,
     .scales = RowScales::kF32,
     .index_queries = IndexQueries::kBf16},
    // 68 bytes at dims 128.
    {.codec = RowCodec::kIndexFp4,
     .name = "index-fp4",
     .type = "fp4",
     .values = RowValues::kE2m1,
     .scales = RowScales::kE8m0,
     .block = 32,
     .index_queries = IndexQueries::kCodes},
};

[[gnu::always_inline]] constexpr const RowCodecInfo& row_codec(RowCodec codec) {
  return kRowCodecs[static_cast<std::size_t>(codec)];
}
inline const char* name(RowCodec codec) {
  return row_codec(codec).name;
}
IndexQueries index_queries(RowCodec codec);  // for ISA code, which may not use the table (kernels/cpu/target.h)

// Calls run(std::integral_constant<RowCodec, c>()) for c == codec, so that what it calls is compiled for each codec.
template <std::size_t kIndex = 0, class Run>
[[gnu::always_inline]] SLUICE_HD constexpr void with_row_codec(RowCodec codec, const Run& run) {
  if constexpr (kIndex < std::size(kRowCodecs)) {
    constexpr RowCodec kCodec = kRowCodecs[kIndex].codec;
    static_assert(kCodec == static_cast<RowCodec>(kIndex), "the table is in the order of the enum");
    if (codec == kCodec) {
      run(std::integral_constant<RowCodec, kCodec>());
    } else {
      with_row_codec<kIndex + 1>(codec, run);
    }
  }
}

struct RowFormat {
  RowCodec codec = RowCodec::kF32;
  int dims = 0, rope_dims = 0;
  int data_bytes = 0, scale_bytes = 0;
  constexpr int row_bytes() const { return data_bytes + scale_bytes; }
};
// True if the codec can code rows of this shape: every block of the row is whole, unless the codec has short ones.
bool takes_rows(RowCodec codec, int dims, int rope_dims);
// Returns the format of rows of a shape that the codec can code.
RowFormat make_row_format(RowCodec codec, int dims, int rope_dims);

struct RowRef {
  std::byte* data;
  std::byte* scales;
};

// Encode x [dims] as a coded row, and decode it: the scalar definitions.
void encode_row(const RowFormat& format, const float* x, RowRef row);
void decode_row(const RowFormat& format, RowRef row, float* x);

// Quantises and dequantises x in place, as the codec would store it. Caches that hold f32 or bf16 use it to give the
// values that the model was trained with. Rotary dims that are not in blocks stay as they are.
void simulate_row(RowCodec codec, int dims, int rope_dims, float* x);

}  // namespace sluice
