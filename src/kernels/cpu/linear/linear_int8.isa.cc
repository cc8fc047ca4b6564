// Compiled for avx2, avx2_vnni, avx512 and avx512_vnni.
// Integer weights times int8 inputs, with the target's instructions for integer products (its int8_dot.h).
// Used by kernels/cpu/avx2, kernels/cpu/avx2_vnni, kernels/cpu/avx512, kernels/cpu/avx512_amx and
// kernels/cpu/avx512_vnni.
#include "kernels/cpu/linear/linear_int8.h"

#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/linear/linear_codes.h"

#include SLUICE_ISA_HEADER(int8_dot.h)

namespace sluice::cpu::SLUICE_ISA {
namespace {

template <class Isa, class Form>
struct CodesIsa : CodesTiling<Isa> {
  using Int8 = CodesInt8<Form>;
};

template <class Isa>
void run_mxfp4(const LinearJob& job, int rows, int begin, int end) {
  LinearInt8<Mxfp4Isa<Isa>>::run(job, rows, begin, end);
}
template <class Isa>
void run_codes(const LinearJob& job, int rows, int begin, int end) {
  with_codes_form<F32x16>(job.weight->view().codes,
                          [&]<class Form>() { LinearInt8<CodesIsa<Isa, Form>>::run(job, rows, begin, end); });
}

}  // namespace

void linear_mxfp4_int8(const LinearJob& job, int rows, int begin, int end) {
  run_mxfp4<LinearIsa>(job, rows, begin, end);
}
void linear_codes_int8(const LinearJob& job, int rows, int begin, int end) {
  run_codes<LinearIsa>(job, rows, begin, end);
}
// Few rows, whose weights are asked for ahead.
void linear_mxfp4_int8_ahead(const LinearJob& job, int rows, int begin, int end) {
  if constexpr (AheadIsa::kStreams) run_mxfp4<AheadIsa>(job, rows, begin, end);
}
void linear_codes_int8_ahead(const LinearJob& job, int rows, int begin, int end) {
  if constexpr (AheadIsa::kStreams) run_codes<AheadIsa>(job, rows, begin, end);
}

namespace {

constexpr WeightSet kMxfp4 = weights_of(WeightFormat::kMxfp4), kCodes = weights_of(WeightFormat::kCodes);
constexpr int kAheadFrom = AheadIsa::kStreams ? 1 : 0;
constexpr int kMxfp4AheadTo = Mxfp4Isa<AheadIsa>::kInt8DirectRows,
              kCodesAheadTo = CodesTiling<AheadIsa>::kInt8DirectRows;
constexpr CpuFeatures kAheadNeeds{CpuFeature::kReadsAhead};
constexpr LinearKernel kLinears[] = {
    SLUICE_LINEAR(linear_mxfp4_int8_ahead, kMxfp4, kInt8Inputs, .rows_from = kAheadFrom, .rows_to = kMxfp4AheadTo,
                  .needs = kAheadNeeds, .any_group = true),
    SLUICE_LINEAR(linear_mxfp4_int8, kMxfp4, kInt8Inputs, .any_group = true),
    SLUICE_LINEAR(linear_codes_int8_ahead, kCodes, kInt8Inputs, .rows_from = kAheadFrom, .rows_to = kCodesAheadTo,
                  .needs = kAheadNeeds, .any_group = true),
    SLUICE_LINEAR(linear_codes_int8, kCodes, kInt8Inputs, .any_group = true),
};

}  // namespace

SLUICE_KERNELS(linear_int8, {}, kLinears);

}  // namespace sluice::cpu::SLUICE_ISA
