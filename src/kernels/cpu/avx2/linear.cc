#include "kernels/cpu/avx2/linear.h"

#include "kernels/cpu/avx2/linear_formats.h"
#include "kernels/cpu/avx2/linear_kernels.h"
#include "kernels/cpu/linear_inputs.inc.h"
#include "kernels/cpu/linear_layout.h"

namespace sluice {

namespace avx2 {
namespace {

std::size_t packed_bytes(const WeightView& view) {
  return LinearLayout(view, LinearIsa::kTileGroups).bytes();
}

void pack(const WeightView& view, int begin, int end, std::byte* packed) {
  pack_linear(view, LinearIsa::kTileGroups, Fp8Order::kPlanes, begin, end, packed);
}

void run(const LinearJob& job, int rows, int begin, int end) {
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
    case WeightFormat::kTransposedCodes:
      return linear_transposed_codes(job, rows, begin, end);
  }
}

}  // namespace
}  // namespace avx2

const LinearKernels& avx2_linear_kernels() {
  static constexpr LinearKernels kKernels{
      {avx2::packed_bytes, avx2::pack, avx2::LinearIsa::kTileGroups * kGroupOutputs},
      avx2::run,
      cpu::prepare_inputs<avx2::F32x16>};
  return kKernels;
}

}  // namespace sluice
