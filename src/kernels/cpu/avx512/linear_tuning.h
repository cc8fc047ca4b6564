// Which of the AVX-512 kernels that give the same bits run on this processor.
#pragma once

namespace sluice::avx512 {

bool has_dot();  // AVX-512 BF16

struct LinearTuning {
  bool dot =
      false;  // the bf16 dot is faster than the f32 multiply-adds that give its bits (AMD; half as fast on Intel)
  bool streams = false;  // weights from memory are asked for ahead: LinearIsa::kStreams (Intel)
  bool vnni = false;     // avx512/ multiplies integers by it
};

// Of this machine, found out at the first call. Tests may change `dot` where has_dot(), `streams`, and `vnni` where
// has_vnni() (linear_kernels.h); not while kernels run.
LinearTuning& linear_tuning();

}  // namespace sluice::avx512
