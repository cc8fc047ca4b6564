// Which of the AVX-512 linear kernels that give the same bits run on this processor.
#pragma once

namespace sluice::avx512 {

struct LinearTuning {
  bool dot;      // the bf16 dot is faster than the f32 multiply-adds that give its bits (AMD; half as fast on Intel)
  bool streams;  // weights from memory are asked for ahead: LinearIsa::kStreams (Intel)
};

// Of this machine, found out at the first call. Tests may change `dot` where has_dot() (linear_kernels.h), and
// `streams`; not while kernels run.
LinearTuning& linear_tuning();

}  // namespace sluice::avx512
