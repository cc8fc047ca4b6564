// Integer products (kernels/cpu/linear/linear_int8.h) by AVX-VNNI, four in one instruction, for which AVX2 alone needs
// three: the same sums.
#pragma once

#include <type_traits>

#include "kernels/cpu/avx2/int8_values.h"
#include "kernels/cpu/avx2/linear_formats.h"
#include "kernels/cpu/linear/linear_int8.h"

namespace sluice::cpu::SLUICE_ISA {

struct WholeBytes : LineBytes {
  SLUICE_VEC static const std::byte* load(const std::byte* line) { return line; }
  SLUICE_VEC static Bytes low(const std::byte* line) { return load_bytes(line); }
  SLUICE_VEC static Bytes high(const std::byte* line) { return load_bytes(line + 64); }
};

template <class Values>
struct FoursOf : Values {
  SLUICE_VEC static I32x16 add_dot(I32x16 acc, typename Values::Bytes weights, __m256i x) {
    return {_mm256_dpbusd_avx_epi32(acc.lo, weights.lo, x), _mm256_dpbusd_avx_epi32(acc.hi, weights.hi, x)};
  }
};

template <class Isa>
struct CodesTiling : Isa {
  static constexpr int kInt8DirectRows = 5, kInt8BufferRows = 2, kInt8BufferFrom = 9, kInt8KeptSums = 4;
  static constexpr int int8_groups(int rows) { return rows > 2 ? 1 : 2; }
};
template <class Isa>
struct Mxfp4Isa : CodesTiling<Isa> {
  struct Int8 : FoursOf<E2m1Bytes>, Mxfp4Int8Scales<F32x16> {};
};
template <class Form>
using CodeBytes = std::conditional_t<Form::kNumbered, LevelBytes<Form, Form::kOffset>,
                                     std::conditional_t<Form::kBits == 4, Nibbles, WholeBytes>>;
template <class Form>
struct CodesInt8 : FoursOf<CodeBytes<Form>>, CodesInt8Scales<F32x16, Form, Form::kOffset> {};

using AheadIsa = LinearIsa;  // this target has no separate kernel that asks ahead

}  // namespace sluice::cpu::SLUICE_ISA
