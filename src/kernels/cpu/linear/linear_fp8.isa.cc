// Compiled for avx2, avx512 and avx512vbmi.
// FP8 weights by multiply-adds.
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/linear/linear_isa.h"
#include "kernels/cpu/linear/linear_run.h"

#include SLUICE_ISA_HEADER(fp8_decoder.h)

namespace sluice::cpu::SLUICE_ISA {
namespace {

constexpr RowsAtOnce kRows = LinearIsa::kFp8Rows;
// Without panels a weight is decoded, and multiplied by its f32 scale, again for every six rows. So panels pay sooner
// than for other formats.
constexpr RowsAtOnce kPrescaledRows{.direct = kRows.direct,
                                    .alone = kRows.alone,
                                    .blocks = kRows.blocks,
                                    .panel_from = kRows.blocks > 0 ? 9 : kRows.panel_from};
using Scaled = Fp8Weights<ScaledE8m0<F32x16>, Fp8Decoder, kRows>;
using F32Scaled = Fp8Weights<ScaledF32<F32x16>, Fp8Decoder, kRows>;
using Prescaled = Fp8PrescaledWeights<F32x16, Fp8Decoder, kPrescaledRows>;

}  // namespace

SLUICE_LINEAR_FORMAT(linear_fp8, Scaled)
SLUICE_LINEAR_FORMAT(linear_fp8_f32_scales, F32Scaled)
SLUICE_LINEAR_FORMAT(linear_fp8_prescaled, Prescaled)

namespace {

constexpr WeightSet kF32Scales = f32_scaled(WeightFormat::kFp8);
constexpr LinearKernel kLinears[] = {
    SLUICE_LINEAR_KERNELS(linear_fp8, kRows, weights_of(WeightFormat::kFp8), kFloatInputs),
    SLUICE_LINEAR_KERNELS(linear_fp8_f32_scales, kRows, kF32Scales, kRoundedInputs),
    SLUICE_LINEAR_KERNELS(linear_fp8_prescaled, kPrescaledRows, kF32Scales, set_of(InputForm::kF32)),
};

}  // namespace

SLUICE_KERNELS(linear_fp8, {}, kLinears);

}  // namespace sluice::cpu::SLUICE_ISA
