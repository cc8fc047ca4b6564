// Weights as checkpoints store them. Each format is a line of a table, from which follow its names, its bytes, its
// scales and the inputs that it multiplies. WeightView is a weight in one of them. The CPU's and CUDA's packing and
// kernels go by its WeightTrait. Thread safety: constants and plain values.
// Used by kernels/ops/linear.h, model/weights/scale_tensors.h and narrow_weight.h.
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
  kCodes,            // integer codes with their scales among them: a block type of GGUF files; no scales apart
  kTransposedCodes,  // the same, of the transpose: weight (n, k) is value n of stored row k; f32 inputs only
};
inline constexpr int kWeightFormats = 6;
enum class ScaleFormat { kNone, kE8m0, kF32, kF16 };  // kF16: only in weights of codes
// The coding of a value; for integers the type says more (base/formats/block_codes.h).
enum class Coding { kF32, kBf16, kE4m3, kE2m1, kInt4, kInt8 };
int scale_bytes(ScaleFormat format);  // the bytes of one scale

struct WeightView;

// The facts about a weight's bytes that the packing and the kernels of every device use. They follow from its format's
// line, its scales and, for codes, its type.
struct WeightTrait {
  Coding coding = Coding::kF32;
  int group = 0;  // neighbours in a row that share a scale; without scales, a block of kernels/ops/linear.h
  ScaleFormat scales = ScaleFormat::kNone;
  bool min = false;                    // there are minima, in the scales' format
  int lowest = 0;                      // for kInt4: the code that a nibble of 0 stands for
  int (*level)(int number) = nullptr;  // for kInt4: the code that a number stands for; null: codes are evenly spaced

  int scale_bytes() const;  // the bytes of one scale, with its minimum
};
WeightTrait weight_trait(const WeightView& view);

struct WeightFormatInfo {
  WeightFormat format;
  const char* name;
  Coding coding = Coding::kF32;  // for codes the type decides it
  // The types of values that files may give, the official checkpoints' first. Bytes stand for as many values as
  // `values` says. None: the type is WeightView::codes.
  std::span<const DType> stored = {};
  int values = 1, bytes = 1;  // `values` values of a row are stored in `bytes` bytes
  bool scaled = false;        // scales are stored apart
  bool f32_scales = false;    // scales may be f32, not e8m0 alone
  int scale_block = 0;        // inputs of a row that share a scale; 0: a block of rows and inputs, as the config says
  bool rounds_inputs = true;  // multiplies inputs of any floating-point form; false: f32 only
  bool integers = false;      // multiplies int8 inputs, too
  // Reads weights [first, first + count) of a row, without scales that lie apart.
  void (*values_of)(const WeightView& view, int row, int first, int count, float* out) = nullptr;

  bool has_codes() const { return stored.empty(); }
};
std::span<const WeightFormatInfo> weight_formats();  // in the order of the enum
const WeightFormatInfo& weight_format(WeightFormat format);
inline const char* name(WeightFormat format) {
  return weight_format(format).name;
}
// Returns the format for the name that a file has for its values, floats or packed ones.
const WeightFormatInfo* stored_format(DType dtype);

// The form that a weight multiplies if `wanted` is asked for. Weights of f32 and transposed codes always multiply kF32.
// int8 becomes bf16 if the weight has no integers. kTiles becomes bf16 if the weight is kCodes. kFp8Blocks becomes bf16
// with weights of bf16, and kFp8 with all that are quantised but not as FP8.
InputForm input_form(InputForm wanted, WeightFormat format);
// The form that the head and other large weights that are not quantised multiply, if the quantised ones multiply
// `inputs`. It is kTiles for kTiles, kBf16 for kInt8, kBf16 and kFp8Blocks, and kF32 for kF32 and kFp8.
InputForm float_inputs(InputForm inputs);

// A weight as it lies in the checkpoint. It does not own its bytes, and may be a slice of rows of a larger tensor.
struct WeightView {
  WeightFormat format = WeightFormat::kF32;
  int out = 0, in = 0;
  // Row-major; row `n` of this view (kTransposedCodes: stored row `n`) starts at data + n * row_bytes().
  const std::byte* data = nullptr;
  ScaleFormat scale_format = ScaleFormat::kNone;
  const std::byte* scales = nullptr;  // the whole tensor's scales, row-major [ceil(rows / block_out), scale_columns]
  int block_out = 1, block_in = 128;  // the rows and inputs that one scale covers
  int scale_columns = 0;
  int first_row = 0;  // this view's first row in the tensor that `scales` covers
  // For a share of a weight's outputs: it has the outputs from first_out on of whole_out. An order that depends on the
  // number of outputs is the whole weight's, whichever rank computes a share. 0: the view has all outputs.
  int first_out = 0, whole_out = 0;
  DType codes = DType::kQ8_0;  // for kCodes: the type; stored rows are whole blocks of it

  bool transposed() const { return format == WeightFormat::kTransposedCodes; }
  int order_out() const { return whole_out > 0 ? whole_out : out; }  // the outputs that an order depends on
  std::size_t row_bytes() const;
  int block_inputs() const;                        // the inputs of a block of kernels/ops/linear.h
  std::span<const std::byte> stored_rows() const;  // the bytes of all its rows
  std::span<const std::byte> scale_rows() const;   // the scales that its rows need; empty without scales
  float scale(int row, int column) const;          // the scale of weight (row, column); 1 without scales
  float element(int row, int column) const;        // the stored value without its scale; codes: with it
  // element() of weights [first, first + count) of a row.
  void values(int row, int first, int count, float* out) const;
  // Reads weights [first, first + count) of a row, multiplied by their scales and rounded to f32.
  void read(int row, int first, int count, float* out) const;
};

// Sets the rows and inputs that a scale covers, for a format that has scales: its own blocks, or `block_rows` x
// `block_columns`.
void set_scale_blocks(WeightView& view, int block_rows, int block_columns);

// Returns rows [first, first + count) of `view`, which is not transposed.
WeightView slice_rows(const WeightView& view, int first, int count);
// Returns the transpose of `view`, kCodes, over the same bytes: kTransposedCodes.
WeightView transposed_codes(const WeightView& view);

}  // namespace sluice
