// The integer codes that weights come in (base/block_codes.h), for both of their AVX-512 kernels.
#pragma once

#include <cstddef>

#include "base/check.h"
#include "kernels/cpu/avx512/linear_formats.h"
#include "kernels/cpu/linear_codes.inc.h"
#include "kernels/linear.h"

namespace sluice::avx512 {

struct F16Scales {
  static constexpr std::size_t kBytes = 2;
  SLUICE_VEC static F32x16 load(const std::byte* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }
};
struct F32Scales {
  static constexpr std::size_t kBytes = 4;
  SLUICE_VEC static F32x16 load(const std::byte* p) { return F32x16::load(reinterpret_cast<const float*>(p)); }
};

// run.template operator()<CodesForm>() for the form of `type`.
template <class Run>
void with_codes_form(DType type, const Run& run) {
  switch (type) {
    case DType::kQ8_0:
      return run.template operator()<cpu::CodesForm<32, 8, -128, false, F16Scales>>();
    case DType::kQ4_0:
      return run.template operator()<cpu::CodesForm<32, 4, -8, false, F16Scales>>();
    case DType::kQ4_1:
      return run.template operator()<cpu::CodesForm<32, 4, 0, true, F16Scales>>();
    case DType::kQ4_K:
      return run.template operator()<cpu::CodesForm<32, 4, 0, true, F32Scales>>();
    case DType::kQ5_K:
      return run.template operator()<cpu::CodesForm<32, 8, 0, true, F32Scales>>();
    case DType::kQ6_K:
      return run.template operator()<cpu::CodesForm<16, 8, -32, false, F32Scales>>();
    default:
      SLUICE_CHECK(false, "a type of integer codes");
  }
}

}  // namespace sluice::avx512
