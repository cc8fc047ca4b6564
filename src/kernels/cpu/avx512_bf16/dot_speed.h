// Whether this processor's bf16 dot is worth using; where it has one.
#pragma once

namespace sluice::cpu::avx512_bf16 {

// A short timing: faster than the f32 multiply-adds that give its bits (AMD; half as fast on Intel).
bool dot_is_fast();

}  // namespace sluice::cpu::avx512_bf16
