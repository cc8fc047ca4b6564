#include "kernels/cpu/avx512/linear_formats.h"
#include "kernels/cpu/avx512/linear_kernels.h"
#include "kernels/cpu/linear_run.inc.h"

namespace sluice::avx512 {

void linear_fp8(const LinearJob& job, int rows, int begin, int end) {
  if (job.weight->view().scale_format != ScaleFormat::kF32) {
    cpu::run_linear<LinearIsa, cpu::Fp8Weights<cpu::ScaledE8m0<F32x16>, Fp8Decoder, 4, 17>>(job, rows, begin, end);
  } else if (job.weight->input_form() != InputForm::kF32) {
    cpu::run_linear<LinearIsa, cpu::Fp8Weights<cpu::ScaledF32<F32x16>, Fp8Decoder, 4, 17>>(job, rows, begin, end);
  } else {
    cpu::run_linear<LinearIsa, cpu::Fp8PrescaledWeights<F32x16, Fp8Decoder, 4, 17>>(job, rows, begin, end);
  }
}

}  // namespace sluice::avx512
