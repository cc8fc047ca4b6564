#include "kernels/cpu/avx512vbmi/linear_formats.h"
#include "kernels/cpu/avx512vbmi/linear_kernels.h"
#include "kernels/cpu/linear_run.inc.h"

namespace sluice::avx512vbmi {
namespace {

// A type of this file, so that what it makes of the templates is not taken for avx512's.
struct Arithmetic : cpu::FmaArithmetic<F32x16> {};

template <class Format>
void run(const LinearJob& job, int rows, int begin, int end) {
  cpu::run_linear<LinearIsa, Format, Arithmetic>(job, rows, begin, end);
}

}  // namespace

void linear_fp8(const LinearJob& job, int rows, int begin, int end) {
  if (job.weight->view().scale_format != ScaleFormat::kF32) {
    run<cpu::Fp8Weights<cpu::ScaledE8m0<F32x16>, Fp8Decoder, 4, 17>>(job, rows, begin, end);
  } else if (job.weight->input_form() != InputForm::kF32) {
    run<cpu::Fp8Weights<cpu::ScaledF32<F32x16>, Fp8Decoder, 4, 17>>(job, rows, begin, end);
  } else {
    run<cpu::Fp8PrescaledWeights<F32x16, Fp8Decoder, 4, 17>>(job, rows, begin, end);
  }
}

}  // namespace sluice::avx512vbmi
