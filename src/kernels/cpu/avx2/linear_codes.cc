#include "kernels/cpu/avx2/linear_formats.h"
#include "kernels/cpu/avx2/linear_kernels.h"
#include "kernels/cpu/linear_codes.inc.h"
#include "kernels/cpu/linear_run.inc.h"

namespace sluice::avx2 {

void linear_codes(const LinearJob& job, int rows, int begin, int end) {
  cpu::with_codes_form<F32x16>(job.weight->view().codes, [&]<class Form>() {
    cpu::run_linear<LinearIsa, cpu::CodesAsFloats<F32x16, Form, 2, 8>>(job, rows, begin, end);
  });
}

void linear_transposed_codes(const LinearJob& job, int rows, int begin, int end) {
  cpu::with_codes_form<F32x16>(job.weight->view().codes, [&]<class Form>() {
    cpu::run_linear<LinearIsa, cpu::TransposedCodes<F32x16, Form, 2, 8>>(job, rows, begin, end);
  });
}

}  // namespace sluice::avx2
