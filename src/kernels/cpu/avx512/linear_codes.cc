#include "kernels/cpu/avx512/linear_formats.h"
#include "kernels/cpu/avx512/linear_kernels.h"
#include "kernels/cpu/linear_codes.inc.h"
#include "kernels/cpu/linear_run.inc.h"

namespace sluice::avx512 {

void linear_codes(const LinearJob& job, int rows, int begin, int end) {
  cpu::with_codes_form<F32x16>(job.weight->view().codes, [&]<class Form>() {
    cpu::run_linear<LinearIsa, cpu::CodesAsFloats<F32x16, Form, 2, 17>>(job, rows, begin, end);
  });
}

void linear_transposed_codes(const LinearJob& job, int rows, int begin, int end) {
  cpu::with_codes_form<F32x16>(job.weight->view().codes, [&]<class Form>() {
    cpu::run_linear<LinearIsa, cpu::TransposedCodes<F32x16, Form, 4, 17>>(job, rows, begin, end);
  });
}

}  // namespace sluice::avx512
