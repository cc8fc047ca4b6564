// prepare_rows (kernels/ops/linear.h), with sixteen threads for a block, and norm_inputs (kernels/ops/residual.h).
// Called through the table of ops (kernels/ops/ops.h).
#include <cmath>

#include "base/formats/number_formats.h"
#include "kernels/cuda/shared/shared_ops.h"
#include "kernels/cuda/shared/quantize_block.h"
#include "kernels/weights/input_forms.h"
#include "kernels/weights/linear_inputs.h"
#include "kernels/ops/residual.h"

namespace sluice::SLUICE_CUDA_OPS {
namespace {

constexpr int kRoundedInputs = 128;  // inputs of a team if the input form is bf16, or e4m3 values stored as bf16

struct PrepareRows {
  static constexpr int kThreads = 16;
  PrepareRowsArgs args;
  int blocks;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int row = team.index / blocks, block = team.index % blocks;
    const float* x = args.x + row * args.ldx;
    float* to = args.to + row * args.ldto;
    if (args.form == InputForm::kInt8) {
      const int first = block * kQuantizedInputs;
      quantize_block(
          team, [&](int i) { return first + i < args.in ? x[first + i] : 0.0F; },
          reinterpret_cast<QuantizedBlock*>(to)[block]);
    } else {
      round(team, x, block * kRoundedInputs, reinterpret_cast<std::uint16_t*>(to));
    }
  }

  SLUICE_DEVICE void round(const Team<kThreads>& team, const float* x, int first, std::uint16_t* to) const {
    const int left = args.in - first, count = left < kRoundedInputs ? left : kRoundedInputs;
    const bool fp8 = args.form == InputForm::kFp8;
    PerThread<float, kThreads> largest;
    team.each([&](int t) {
      largest[t] = 1e-4F;
      for (int i = t; fp8 && i < count; i += kThreads) {
        const float value = std::fabs(x[first + i]);
        largest[t] = value > largest[t] ? value : largest[t];
      }
    });
    max16(team, largest);
    const float scale = pow2_ceil(largest[0] * (1.0F / 448.0F));
    team.each([&](int t) {
      for (int i = t; i < count; i += kThreads) {
        const float value = x[first + i];
        to[first + i] = to_bf16(fp8 ? e4m3_to_float(float_to_e4m3(value / scale)) * scale : value).bits;
      }
      if (t == 0 && args.in % 2 != 0 && first + count == args.in) to[args.in] = 0x8000;
    });
  }
};

}  // namespace

void prepare_rows(const Exec& exec, const PrepareRowsArgs& args) {
  const int of_block = args.form == InputForm::kInt8 ? kQuantizedInputs : kRoundedInputs;
  const int blocks = (args.in + of_block - 1) / of_block;
  launch(exec, std::int64_t{args.rows} * blocks, PrepareRows{args, blocks});
}

void norm_inputs(const Exec& exec, const NormInputsArgs& args) {
  // The norm's kernel also rounds, except for rows of odd length, which end in half a word.
  const bool at_once = args.y.parts == 1 && args.y.columns % 2 == 0;
  rms_norm_rounded(exec, args.norm, at_once ? args.y.form(InputForm::kBf16) : nullptr, args.y.columns / 2);
  for (const InputForm form : kPreparedForms) {
    if (args.y.form(form) == nullptr || (at_once && form == InputForm::kBf16)) continue;
    const int width = input_floats(form, args.y.columns);
    for (int part = 0; part < args.y.parts; ++part) {
      SLUICE_CUDA_OPS::prepare_rows(
          exec,
          PrepareRowsArgs{form, args.norm.rows, args.y.columns, args.y.values + part * args.y.part_step, args.y.ld,
                          args.y.form(form) + std::ptrdiff_t{part} * width, std::ptrdiff_t{args.y.parts} * width});
    }
  }
}

}  // namespace sluice::SLUICE_CUDA_OPS
