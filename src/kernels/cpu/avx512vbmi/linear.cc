#include "kernels/cpu/avx512vbmi/linear.h"

#include "kernels/cpu/avx512/linear.h"
#include "kernels/cpu/avx512/linear_kernels.h"
#include "kernels/cpu/avx512/linear_tuning.h"
#include "kernels/cpu/avx512vbmi/linear_formats.h"
#include "kernels/cpu/avx512vbmi/linear_kernels.h"
#include "kernels/cpu/linear_layout.h"

namespace sluice {

namespace avx512vbmi {
namespace {

std::size_t packed_bytes(const WeightView& view) {
  return LinearLayout(view, LinearIsa::kTileGroups).bytes();
}

void pack(const WeightView& view, int begin, int end, std::byte* packed) {
  pack_linear(view, LinearIsa::kTileGroups, Fp8Order::kPairs, begin, end, packed);
}

// One row is bound by memory, and there the dot needs fewer registers.
bool wants_dot(const LinearWeight& weight, int rows) {
  static const bool available = avx512::has_dot();
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
      return avx512::linear_plain(job, rows, begin, end);
    case WeightFormat::kFp8:
      return linear_fp8(job, rows, begin, end);
    case WeightFormat::kMxfp4:
      if (job.weight->input_form() == InputForm::kInt8) return linear_int8(job, rows, begin, end);
      return avx512::linear_mxfp4(job, rows, begin, end);
    case WeightFormat::kCodes:
      if (job.weight->input_form() == InputForm::kInt8) return avx512::linear_codes_int8_vnni(job, rows, begin, end);
      return avx512::linear_codes(job, rows, begin, end);
    case WeightFormat::kTransposedCodes:
      return avx512::linear_transposed_codes(job, rows, begin, end);
  }
}

}  // namespace
}  // namespace avx512vbmi

const LinearKernels& avx512vbmi_linear_kernels() {
  static const LinearKernels kernels{
      {avx512vbmi::packed_bytes, avx512vbmi::pack, avx512vbmi::LinearIsa::kTileGroups * kGroupOutputs},
      avx512vbmi::run,
      avx512_linear_kernels().prepare};
  return kernels;
}

}  // namespace sluice
