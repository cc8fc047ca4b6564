// Tells whether this processor's bf16 dot, if it has one, is worth using.
// Used by kernels/cpu/cpu_features.cc.
#pragma once

namespace sluice::cpu::avx512_bf16 {

// Times the dot for a moment: true if it is faster than the f32 multiply-adds that give its bits (AMD; half as fast on
// Intel).
bool dot_is_fast();

}  // namespace sluice::cpu::avx512_bf16
