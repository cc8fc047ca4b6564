// y = W x, for weights as checkpoints store them (kernels/weights/weight_format.h).
//
// The order of every output element is the same for any number of rows, ISA and storage (kernels/device/exec.h has the
// contract):
//   inputs are cut into blocks of B = weight.block_inputs() (the scale block; 128 without scales, 32 for MXFP4);
//   within a block, one fma chain from 0 over pairs of inputs in ascending order, the odd one of a pair first
//     (acc = fma(x[2j+1], w[2j+1], acc); acc = fma(x[2j], w[2j], acc)), which is the order of the bf16 dot instruction;
//   blocks in ascending order:  y = fma(acc, scale, y), y from 0;  scale = 1 without scales.
// The form of the inputs (InputForm) is the weight's:
//   kF32    as they are. A scale stored as f32 (DeepSeek-V3) instead multiplies each weight before the chain, rounded
//           to f32, and scale = 1.
//   kBf16   x is first rounded to bf16 (the products are then exact in f32)
//   kTiles  the same x, in the order of AMX tiles. y from 0; block by block, and in a block 32 inputs after the other,
//           of which those past its end count as 0:
//             e = chain of fma(x, w, e) over the even inputs, ascending, from 0; o the same over the odd ones
//             y = y + (e + o)
//             y = y + 0 after the last: no output is -0
//           The scale is multiplied into each weight, w = value * scale (exact but for weights that overflow or are
//           denormal, which count as zero). A scale stored as f32 instead meets the sum of its block:
//             s = s + (e + o), from 0;  y = fma(s, scale, y) after the block
//   kFp8    x is first rounded as in official inference, to e4m3 under a power of two for each 128 inputs
//   kFp8Blocks
//           the same x, in the order of Hopper's FP8 tensor cores (kernels/cuda/fp8_layout.h); for FP8 weights only,
//           and only on those devices
//   kInt8   MXFP4 and kCodes only: 32 inputs become int8 codes with one f32 scale s (kernels/weights/linear_inputs.h).
//           The codes of w are integers, too: twice the e2m1 values of MXFP4, with h = scale / 2, or the codes of
//           kCodes, with h their scale.
//           acc = sum(codes of x * codes of w) is exact in any order, and
//             p = fma(12582912 + acc, h, -(12582912 * h))     acc * h, rounded once; NaN from a scale of 2^106 on
//             p = fma(sum(codes of x), min, p)                if the weight has minima
//             y = fma(p, s, y)
// Integer codes (kCodes; B is 32, or 16 for some types) have scale = 1 if the inputs are floats: their weights are
// scale * code, or scale * code + min, each product and sum rounded to f32 (base/formats/block_codes.h). Transposed
// codes give the bits of the same values stored as f32: B is 128.
//
// Shapes: x [rows, in] with stride ldx (in floats), y [rows, out] with stride ldy; x and y do not overlap.
// Used by bench, kernels and model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned.h"
#include "kernels/device/exec.h"
#include "kernels/device/isa.h"
#include "kernels/ops/rows.h"
#include "kernels/weights/weight_format.h"

namespace sluice {

struct LinearPacking;

// Where a weight's copy comes from, in the form that its kernels want. Without `packing` and `packed` there is none.
struct LinearBytes {
  const LinearPacking* packing = nullptr;  // the packing that makes the copy
  ThreadPool* pool = nullptr;              // the threads that make the copy; null: the calling thread
  bool when_used = false;                  // the kernels make it instead, a part at a time, when they use it
  AlignedBytes of_view = {};               // the view's bytes, kept by the weight if the kernels do not pack it
  // The copy, if pack_linear_weight() made it before. It outlives the weight; the bytes in the checkpoint need not.
  const std::byte* packed = nullptr;
  std::size_t packed_bytes = 0;
};
// Bytes that are packed for exec.kernels; the scalar kernels pack nothing.
LinearBytes packs_for(const Exec& exec, AlignedBytes of_view = {});

// A weight ready for one kernel table: the view, and the copy that its kernels want. Immutable after make().
class LinearWeight {
 public:
  LinearWeight() = default;

  const WeightView& view() const { return view_; }
  int out() const { return view_.out; }
  int in() const { return view_.in; }
  int order_out() const { return view_.order_out(); }
  InputForm input_form() const { return input_form_; }
  const std::byte* packed() const { return packed_at_; }
  std::size_t packed_bytes() const { return packed_bytes_; }
  // True if the kernels want the weight packed and it is not: then they pack the parts that they need when they need
  // them.
  bool packed_when_used() const { return packed_when_used_; }

  // Makes a weight of `view`, whose bytes must outlive the weight where it is not packed. The weight multiplies
  // input_form(wanted, view.format).
  static LinearWeight make(const WeightView& view, InputForm wanted, LinearBytes from);

  // Notes that the bytes have moved to the memory of a device, which must outlive the weight; frees the host's copies.
  // `packed`: null for a weight that is not packed.
  void place(const WeightView& view, const std::byte* packed);
  bool is_placed() const { return placed_; }

 private:
  WeightView view_;
  InputForm input_form_ = InputForm::kF32;
  const std::byte* packed_at_ = nullptr;
  std::size_t packed_bytes_ = 0;
  bool packed_when_used_ = false, placed_ = false;
  AlignedBytes packed_;  // the bytes at packed_at_, unless another owns them
  AlignedBytes kept_;    // the bytes of view_, where they are not the checkpoint's
};

// Writes the packed form of `view` for the kernels of `packing`, packing.packed_bytes(view) bytes, to `to`, which is
// aligned to 64 bytes.
void pack_linear_weight(ThreadPool* pool, const LinearPacking& packing, const WeightView& view, std::byte* to);

// The transpose of a weight. The first gives its shape and format (bf16 stays bf16, everything else becomes f32), the
// second writes its values to `to`, with scales multiplied in and rounded to f32.
WeightView transposed_shape(const WeightView& view);
void write_transpose(ThreadPool* pool, const WeightView& view, std::byte* to);

// A weight of floats as integer codes of 8 bits, 32 of which share a scale (Q8_0): its shape and format, and its
// values, written to `to`. view.in is a multiple of kInt8Block. A scale that is no finite f16, or that
// rounds to 0 although a value is not 0, becomes NaN.
inline constexpr int kInt8Block = 32;
WeightView int8_shape(const WeightView& view);
void write_int8(ThreadPool* pool, const WeightView& view, std::byte* to);

// Writes the inputs of a product in a form that is not kF32: row r of `in` values at x + r * ldx becomes
// input_floats(form, in) floats (kernels/weights/linear_inputs.h) at to + r * ldto.
struct PrepareRowsArgs {
  InputForm form = InputForm::kBf16;
  int rows = 0, in = 0;
  const float* x = nullptr;
  std::ptrdiff_t ldx = 0;
  float* to = nullptr;
  std::ptrdiff_t ldto = 0;
};
void prepare_rows(const Exec& exec, const PrepareRowsArgs& args);

// One product of a stage. Jobs of one call may share x; they run in one fork/join.
struct LinearJob {
  const LinearWeight* weight = nullptr;
  const float* x = nullptr;
  std::ptrdiff_t ldx = 0;
  float* y = nullptr;
  std::ptrdiff_t ldy = 0;
  const std::int32_t* x_rows = nullptr;  // row r of x lies at x + x_rows[r] * ldx; null: at x + r * ldx
  bool x_prepared = false;               // x is in the weight's input form already, and ldx counts floats of that form

  // The rows as tiles (kernels/weights/tile_inputs.h), for kernels that want tiles; x may be null then.
  const std::byte* x_tiles = nullptr;

  const float* x_row(int r) const { return x + (x_rows != nullptr ? x_rows[r] : r) * ldx; }
};

struct LinearArgs {
  int rows = 0;
  std::span<const LinearJob> jobs;
};
// Computes any products, in one stage; project() is built on it. The list need not outlive the call.
void linear(const Exec& exec, const LinearArgs& args);
inline void linear(const Exec& exec, int rows, std::span<const LinearJob> jobs) {
  linear(exec, LinearArgs{rows, jobs});
}

// A way to pack weights for the kernels of a device or of an instruction set. Packing is work of the host. Thread
// safety: pack() of different outputs by any threads at once.
struct LinearPacking {
  // Returns the bytes of the packed form of `view`; 0: its kernels work on the view itself.
  std::size_t (*packed_bytes)(const WeightView& view);
  // Packs outputs [begin, end), multiples of `out_tile` but for the last, of the packed form that begins at `packed`,
  // aligned to 64 bytes.
  void (*pack)(const WeightView& view, int begin, int end, std::byte* packed);
  int out_tile;
  // The packing of weights whose inputs are bf16, if it is another.
  const LinearPacking* bf16 = nullptr;
  // The packing of weights that multiply InputForm::kFp8Blocks. If it is not null, kFp8 is packed as bf16, too.
  const LinearPacking* fp8_blocks = nullptr;

  // Returns the packing of a weight which multiplies input_form(wanted, view.format).
  const LinearPacking& of(const WeightView& view, InputForm wanted) const {
    const InputForm form = input_form(wanted, view.format);
    if (fp8_blocks != nullptr && form == InputForm::kFp8Blocks) return *fp8_blocks;
    const bool as_bf16 = form == InputForm::kBf16 || (form == InputForm::kFp8 && fp8_blocks != nullptr);
    return bf16 != nullptr && as_bf16 ? *bf16 : *this;
  }
};
const LinearPacking& linear_packing(const KernelTable& table);
// The kernels for a device of which the host need know nothing else: the scalar kernels with its packing and its name.
// There is one table for each packing, which must outlive it.
const KernelTable& kernels_that_pack(const char* device, const LinearPacking& packing);

}  // namespace sluice
