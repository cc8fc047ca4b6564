// Compiled for avx2, avx512 and avx512vbmi.
// FP8 weights in the order of AMX tiles, by multiply-adds.
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/linear/linear_isa.h"
#include "kernels/cpu/linear/linear_run.h"
#include "kernels/cpu/linear/linear_slices.h"

#include SLUICE_ISA_HEADER(fp8_decoder.h)

namespace sluice::cpu::SLUICE_ISA {
namespace {

using SlicesFp8 = Fp8Weights<ScaledE8m0<F32x16>, Fp8Decoder, LinearIsa::kFp8Rows>;
using SlicesFp8F32 = Fp8Weights<ScaledF32<F32x16>, Fp8Decoder, LinearIsa::kFp8Rows>;

}  // namespace

SLUICE_SLICES_FORMAT(linear_fp8_slices, SlicesFp8)
SLUICE_SLICES_FORMAT(linear_fp8_f32_scales_slices, SlicesFp8F32)

namespace {

constexpr LinearKernel kLinears[] = {
    SLUICE_SLICES_KERNELS(linear_fp8_slices, weights_of(WeightFormat::kFp8)),
    SLUICE_SLICES_KERNELS(linear_fp8_f32_scales_slices, f32_scaled(WeightFormat::kFp8)),
};

}  // namespace

SLUICE_KERNELS(linear_slices_fp8, {}, kLinears);

}  // namespace sluice::cpu::SLUICE_ISA
