// bf16 inputs by the bf16 dot instruction: twice the speed of f32 multiply-adds on AMD processors. It adds the odd
// product, then the even one, each by one fma with denormals as zero, which is the order of kernels/ops/linear.h.
// Products of few rows are bound by memory. There the dot needs fewer registers, however fast it is.
#include <algorithm>
#include <cstdint>

#include "kernels/cpu/avx512/intrinsics.h"
#include "kernels/cpu/avx512/linear_formats.h"
#include "kernels/cpu/avx512vbmi/fp8_decoder.h"
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/linear/linear_direct.h"
#include "kernels/cpu/linear/linear_layout.h"
#include "kernels/cpu/linear/linear_panel.h"

namespace sluice::cpu::SLUICE_ISA {
namespace {

struct DotArithmetic {
  using Cell = std::uint32_t;  // a pair of bf16, the odd one in the high half
  static constexpr int kPairCells = 1, kRowsKept = 4;
  static constexpr std::uint32_t kNothing = 0x80008000U;

  template <int P, class Format, class Line>
  SLUICE_VEC static __m512i decode_pair(const Format& format, const Line& line) {
    return format.template bf16_pair<P>(line).v;
  }
  SLUICE_VEC static F32x16 add(const std::uint32_t* x, __m512i pair, F32x16 acc) {
    const __m512i inputs = _mm512_set1_epi32(static_cast<int>(*x));
    return {_mm512_dpbf16_ps(acc.v, reinterpret_cast<__m512bh>(inputs), reinterpret_cast<__m512bh>(pair))};
  }

  static const std::uint32_t* inputs(const float* x) { return reinterpret_cast<const std::uint32_t*>(x); }
  static void copy_inputs(const float* x, int begin, int count, std::uint32_t* to) {
    std::copy_n(inputs(x) + begin / 2, (count + 1) / 2, to);
  }
  template <int P, int kStride, class Format, class Line>
  SLUICE_VEC static void store_pair(const Format& format, const Line& line, std::uint32_t* to) {
    _mm512_storeu_si512(to, format.template bf16_pair<P>(line).v);
  }
  template <int kXStride, int kRows, int kGroups>
  SLUICE_VEC static void add_pair(const std::uint32_t* weights, const std::uint32_t* x, F32x16 (&acc)[kRows][kGroups]) {
    __m512i w[kGroups];
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) w[g] = _mm512_loadu_si512(weights + g * kGroupOutputs);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const __m512i pair = _mm512_set1_epi32(static_cast<int>(x[r * kXStride]));
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) {
        acc[r][g].v = _mm512_dpbf16_ps(acc[r][g].v, reinterpret_cast<__m512bh>(pair), reinterpret_cast<__m512bh>(w[g]));
      }
    }
  }
};

template <class Isa, class Format>
void run_few(const LinearJob& job, int rows, int begin, int end) {
  const LinearLayout layout(job.weight->view(), LinearIsa::kTileGroups);
  run_direct<Isa, Format, DotArithmetic>(layout, job, rows, begin, end);
}
template <class Format>
void run_many(const LinearJob& job, int rows, int begin, int end) {
  const LinearLayout layout(job.weight->view(), LinearIsa::kTileGroups);
  const TileRange tiles(LinearIsa::kTileGroups, begin, end);
  LinearPanels<LinearIsa, Format, DotArithmetic>::run(layout, job, rows, tiles.first, tiles.last);
}

using Bf16 = Bf16Weights<F32x16, RowsAtOnce{.direct = 6}>;
constexpr RowsAtOnce kFp8Rows{.direct = 4, .alone = 6};
using Fp8 = Fp8Weights<ScaledE8m0<F32x16>, Fp8Decoder, kFp8Rows>;
using Fp8F32Scales = Fp8Weights<ScaledF32<F32x16>, Fp8Decoder, kFp8Rows>;

}  // namespace

// Defines the functions `name`, for few rows, name_ahead, for few rows whose weights are asked for ahead, and
// name_panels, for many.
#define SLUICE_FEW(name, Format)                                          \
  void name(const LinearJob& job, int rows, int begin, int end) {         \
    run_few<LinearIsa, Format>(job, rows, begin, end);                    \
  }                                                                       \
  void name##_ahead(const LinearJob& job, int rows, int begin, int end) { \
    run_few<StreamingIsa, Format>(job, rows, begin, end);                 \
  }
#define SLUICE_MANY(name, Format)                                          \
  void name##_panels(const LinearJob& job, int rows, int begin, int end) { \
    run_many<Format>(job, rows, begin, end);                               \
  }

SLUICE_FEW(linear_bf16, Bf16)
SLUICE_FEW(linear_fp8, Fp8)
SLUICE_MANY(linear_fp8, Fp8)
SLUICE_FEW(linear_fp8_f32_scales, Fp8F32Scales)
SLUICE_MANY(linear_fp8_f32_scales, Fp8F32Scales)
SLUICE_FEW(linear_mxfp4, Mxfp4Weights)
SLUICE_MANY(linear_mxfp4, Mxfp4Weights)

namespace {

using enum CpuFeature;
constexpr CpuFeatures kAhead{kReadsAhead}, kFast{kFastBf16Dot};
constexpr int kFp8PanelFrom = 33, kMxfp4PanelFrom = 13;
static_assert(kFp8PanelFrom > LinearIsa::kPanelRows && kMxfp4PanelFrom > LinearIsa::kPanelRows);

// Kernels for few rows: with weights asked for ahead; without, for one row; then for as many rows as there are if the
// dot is fast.
#define SLUICE_FEW_KERNELS(name, of, ahead)                                                               \
  SLUICE_LINEAR(name##_ahead, of, kRoundedInputs, .rows_to = ahead, .needs = kAhead, .even_blocks = true, \
                .any_group = true),                                                                       \
      SLUICE_LINEAR(name, of, kRoundedInputs, .rows_to = 1, .even_blocks = true, .any_group = true),      \
      SLUICE_LINEAR(name, of, kRoundedInputs, .needs = kFast, .even_blocks = true, .any_group = true)
#define SLUICE_MANY_KERNELS(name, of, from)                                                                \
  SLUICE_LINEAR(name##_panels, of, kRoundedInputs, .rows_from = from, .needs = kFast, .even_blocks = true, \
                .block_inputs = kPanelInputs)

constexpr WeightSet kBf16 = weights_of(WeightFormat::kBf16), kFp8 = weights_of(WeightFormat::kFp8),
                    kFp8F32 = f32_scaled(WeightFormat::kFp8), kMxfp4 = weights_of(WeightFormat::kMxfp4);
constexpr LinearKernel kLinears[] = {
    SLUICE_FEW_KERNELS(linear_bf16, kBf16, 2 * Bf16::kRows.direct),
    SLUICE_MANY_KERNELS(linear_fp8, kFp8, kFp8PanelFrom),
    SLUICE_FEW_KERNELS(linear_fp8, kFp8, kFp8Rows.alone),
    SLUICE_MANY_KERNELS(linear_fp8_f32_scales, kFp8F32, kFp8PanelFrom),
    SLUICE_FEW_KERNELS(linear_fp8_f32_scales, kFp8F32, kFp8Rows.alone),
    SLUICE_MANY_KERNELS(linear_mxfp4, kMxfp4, kMxfp4PanelFrom),
    SLUICE_FEW_KERNELS(linear_mxfp4, kMxfp4, Mxfp4Weights::kRows.direct),
};

}  // namespace

SLUICE_KERNELS(linear, {}, kLinears);

}  // namespace sluice::cpu::SLUICE_ISA
