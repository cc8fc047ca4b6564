#include "kernels/cpu/avx512/linear.h"

#include "kernels/cpu/avx512/linear_formats.h"
#include "kernels/cpu/avx512/linear_kernels.h"
#include "kernels/cpu/avx512/linear_tuning.h"
#include "kernels/cpu/linear_inputs.inc.h"
#include "kernels/cpu/linear_layout.h"

namespace sluice {

namespace avx512 {
namespace {

std::size_t packed_bytes(const WeightView& view) {
  return LinearLayout(view, LinearIsa::kTileGroups).bytes();
}

void pack(const WeightView& view, int begin, int end, std::byte* packed) {
  pack_linear(view, LinearIsa::kTileGroups, Fp8Order::kPairs, begin, end, packed);
}

// One row is bound by memory, and there the dot needs fewer registers.
bool wants_dot(const LinearWeight& weight, int rows) {
  static const bool available = has_dot();
  const WeightView& view = weight.view();
  const InputForm form = weight.input_form();
  return available && (linear_tuning().dot || rows == 1) && (form == InputForm::kBf16 || form == InputForm::kFp8) &&
         view.block_inputs() % 2 == 0 && view.format != WeightFormat::kF32 && view.format != WeightFormat::kCodes;
}

void run(const LinearJob& job, int rows, int begin, int end) {
  if (wants_dot(*job.weight, rows)) return linear_dot(job, rows, begin, end);
  switch (job.weight->view().format) {
    case WeightFormat::kF32:
    case WeightFormat::kBf16:
      return linear_plain(job, rows, begin, end);
    case WeightFormat::kFp8:
      return linear_fp8(job, rows, begin, end);
    case WeightFormat::kMxfp4:
      if (job.weight->input_form() == InputForm::kInt8) return linear_int8(job, rows, begin, end);
      return linear_mxfp4(job, rows, begin, end);
    case WeightFormat::kCodes:
      if (job.weight->input_form() == InputForm::kInt8) return linear_codes_int8(job, rows, begin, end);
      return linear_codes(job, rows, begin, end);
  }
}

}  // namespace
}  // namespace avx512

const LinearKernels& avx512_linear_kernels() {
  static constexpr LinearKernels kKernels{avx512::packed_bytes, avx512::pack,
                                          avx512::LinearIsa::kTileGroups * kGroupOutputs, avx512::run,
                                          cpu::prepare_inputs<avx512::F32x16>};
  return kKernels;
}

}  // namespace sluice
