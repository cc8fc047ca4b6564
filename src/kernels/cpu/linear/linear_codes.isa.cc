// Compiled for avx2 and avx512.
// Integer codes with scales by multiply-adds.
// Used by linear_int8.isa.cc.
#include "kernels/cpu/linear/linear_codes.h"

#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/linear/linear_isa.h"
#include "kernels/cpu/linear/linear_run.h"

namespace sluice::cpu::SLUICE_ISA {
namespace {

template <class Form>
using Codes = CodesAsFloats<F32x16, Form, LinearIsa::kCodesRows>;
template <class Form>
using Transposed = TransposedCodes<F32x16, Form, LinearIsa::kTransposedRows>;

}  // namespace

void linear_codes(const LinearJob& job, int rows, int begin, int end) {
  with_codes_form<F32x16>(job.weight->view().codes,
                          [&]<class Form>() { run_few<LinearIsa, Codes<Form>>(job, rows, begin, end); });
}
void linear_codes_panels(const LinearJob& job, int rows, int begin, int end) {
  with_codes_form<F32x16>(job.weight->view().codes,
                          [&]<class Form>() { run_many<LinearIsa, Codes<Form>>(job, rows, begin, end); });
}
void linear_transposed_codes(const LinearJob& job, int rows, int begin, int end) {
  with_codes_form<F32x16>(job.weight->view().codes,
                          [&]<class Form>() { run_few<LinearIsa, Transposed<Form>>(job, rows, begin, end); });
}
void linear_transposed_codes_panels(const LinearJob& job, int rows, int begin, int end) {
  with_codes_form<F32x16>(job.weight->view().codes,
                          [&]<class Form>() { run_many<LinearIsa, Transposed<Form>>(job, rows, begin, end); });
}

namespace {

constexpr WeightSet kCodes = weights_of(WeightFormat::kCodes), kTransposed = weights_of(WeightFormat::kTransposedCodes);
constexpr unsigned kF32 = set_of(InputForm::kF32);
constexpr LinearKernel kLinears[] = {
    SLUICE_LINEAR_KERNELS(linear_codes, LinearIsa::kCodesRows, kCodes, kFloatInputs),
    SLUICE_LINEAR_KERNELS(linear_transposed_codes, LinearIsa::kTransposedRows, kTransposed, kF32),
};

}  // namespace

SLUICE_KERNELS(linear_codes, {}, kLinears);

}  // namespace sluice::cpu::SLUICE_ISA
