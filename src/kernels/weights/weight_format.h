// Weights as checkpoints store them: their formats, each a line of a table from which follow its names, its bytes, its
// scales and what it multiplies; and WeightView, a weight of one of them. The CPU's and CUDA's packing and kernels go
// by its WeightTrait. Thread safety: constants and plain values.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "base/formats/dtype.h"
#include "kernels/ops/rows.h"

namespace sluice {

enum class WeightFormat {
  kF32,
  kBf16,
  kFp8,              // e4m3 [out, in], one scale per block_out x block_in
  kMxfp4,            // e2m1 [out, in / 2], even input in the low nibble; one e8m0 scale per row and 32 inputs
  kCodes,            // integer codes with their scales beside them: a block type of GGUF files; no scales apart
  kTransposedCodes,  // the same, of the transpose: weight (n, k) is value n of stored row k; f32 inputs only
};
inline constexpr int kWeightFormats = 6;
enum class ScaleFormat { kNone, kE8m0, kF32, kF16 };  // kF16: beside codes alone
// How a value is coded: of the integers the type says more (base/formats/block_codes.h).
enum class Coding { kF32, kBf16, kE4m3, kE2m1, kInt4, kInt8 };
int scale_bytes(ScaleFormat format);  // of one

struct WeightView;

// What the packing and the kernels of every device know of a weight's bytes: from its format's line, its scales and, of
// codes, its type.
struct WeightTrait {
  Coding coding = Coding::kF32;
  int group = 0;  // neighbours in a row that share a scale; of weights without scales a block of kernels/ops/linear.h
  ScaleFormat scales = ScaleFormat::kNone;
  bool min = false;                    // with minima, of the scales' format
  int lowest = 0;                      // the code that 0 stands for, of kInt4
  int (*level)(int number) = nullptr;  // of kInt4: the codes that are numbered; null: they are evenly spaced

  int scale_bytes() const;  // of one, with its minimum
};
WeightTrait weight_trait(const WeightView& view);

struct WeightFormatInfo {
  WeightFormat format;
  const char* name;
  Coding coding = Coding::kF32;  // of codes: the type says it
  // The types of values that files may give, the official checkpoints' first. Bytes stand for as many values as
  // `values` says. None: the type is WeightView::codes.
  std::span<const DType> stored = {};
  int values = 1, bytes = 1;  // so many values of a row lie in so many bytes
  bool scaled = false;        // with scales apart
  bool f32_scales = false;    // they may be f32, not e8m0 alone
  int scale_block = 0;        // inputs of a row that share one; 0: a block of rows and inputs, as the config says
  bool rounds_inputs = true;  // multiplies inputs in any form of floats; else f32 alone
  bool integers = false;      // multiplies int8 inputs, too
  // Weights [first, first + count) of a row, without scales that lie apart.
  void (*values_of)(const WeightView& view, int row, int first, int count, float* out) = nullptr;

  bool has_codes() const { return stored.empty(); }
};
std::span<const WeightFormatInfo> weight_formats();  // in the order of the enum
const WeightFormatInfo& weight_format(WeightFormat format);
inline const char* name(WeightFormat format) {
  return weight_format(format).name;
}
// By what a file calls its values, floats or packed ones.
const WeightFormatInfo* stored_format(DType dtype);

// What a weight multiplies where `wanted` is asked for: int8 becomes bf16 where the weight has no integers, and tiles
// where it has nothing but integer codes; kFp8Blocks becomes bf16 with weights of bf16, and kFp8 with all that are
// quantised but not as FP8.
InputForm input_form(InputForm wanted, WeightFormat format);
// What the head and other large weights that are not quantised multiply beside quantised ones that multiply `inputs`:
// bf16, unless that would take away from what the others keep.
InputForm float_inputs(InputForm inputs);

// A weight as it lies in the checkpoint. Does not own its bytes. May be a slice of rows of a larger tensor.
struct WeightView {
  WeightFormat format = WeightFormat::kF32;
  int out = 0, in = 0;
  // Row-major; row `n` of this view (kTransposedCodes: stored row `n`) starts at data + n * row_bytes().
  const std::byte* data = nullptr;
  ScaleFormat scale_format = ScaleFormat::kNone;
  const std::byte* scales = nullptr;  // of the whole tensor, row-major [ceil(rows / block_out), scale_columns]
  int block_out = 1, block_in = 128;  // what one scale covers
  int scale_columns = 0;
  int first_row = 0;  // of this view in the tensor that `scales` covers
  // Of a share of a weight's outputs, which are those from first_out on of whole_out: an order that depends on the
  // number of outputs is the whole weight's, whoever computes a share. 0: all of them.
  int first_out = 0, whole_out = 0;
  DType codes = DType::kQ8_0;  // of kCodes: which; stored rows are whole blocks of it

  bool transposed() const { return format == WeightFormat::kTransposedCodes; }
  int order_out() const { return whole_out > 0 ? whole_out : out; }  // the outputs that an order depends on
  std::size_t row_bytes() const;
  int block_inputs() const;                        // of a block of kernels/ops/linear.h
  std::span<const std::byte> stored_rows() const;  // of all its rows
  std::span<const std::byte> scale_rows() const;   // that its rows need; empty without scales
  float scale(int row, int column) const;          // the scale of weight (row, column); 1 without scales
  float element(int row, int column) const;        // the stored value without its scale; codes: with it
  // element() of weights [first, first + count) of a row.
  void values(int row, int first, int count, float* out) const;
  // The same with their scales, rounded to f32.
  void read(int row, int first, int count, float* out) const;
};

// What scales of a format cover that has them: its own blocks, or those of `block_rows` x `block_columns`.
void set_scale_blocks(WeightView& view, int block_rows, int block_columns);

// Rows [first, first + count) of `view`, which is not transposed.
WeightView slice_rows(const WeightView& view, int first, int count);
// The transpose of `view`, kCodes, over the same bytes: kTransposedCodes.
WeightView transposed_codes(const WeightView& view);

}  // namespace sluice
