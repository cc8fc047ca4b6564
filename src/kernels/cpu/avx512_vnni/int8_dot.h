// Integer products (kernels/cpu/linear/linear_int8.h) by AVX-512 VNNI, four in one instruction, for which AVX-512 BW
// needs three: the same sums.
// Used by kernels/cpu/avx512vbmi_vnni/linear_mxfp4.cc.
#pragma once

#include <type_traits>

#include "kernels/cpu/avx512/int8_values.h"
#include "kernels/cpu/avx512/linear_formats.h"
#include "kernels/cpu/linear/linear_int8.h"

namespace sluice::cpu::SLUICE_ISA {

template <class Values>
struct FoursOf : Values {
  SLUICE_VEC static I32x16 add_dot(I32x16 acc, typename Values::Bytes weights, __m512i x) {
    return {_mm512_dpbusd_epi32(acc.v, weights, x)};
  }
};

template <class Isa>
struct Mxfp4Isa : Isa {
  static constexpr int kInt8BufferRows = 3, kInt8KeptSums = 12;
  static constexpr int int8_groups(int) { return 2 * Isa::kTileGroups; }
  static constexpr int kInt8DirectRows = 5, kInt8BufferFrom = 24;
  struct Int8 : FoursOf<E2m1Bytes>, Mxfp4Scales {};
};
template <class Isa>
struct CodesTiling : Isa {
  static constexpr int kInt8BufferRows = 3, kInt8KeptSums = 12;
  static constexpr int int8_groups(int) { return 2 * Isa::kTileGroups; }
  static constexpr int kInt8DirectRows = 4, kInt8BufferFrom = 0;  // 0: never, since decoding costs almost nothing
};
template <class Form>
using CodeBytes = std::conditional_t<Form::kNumbered, LevelBytes<Form, Form::kOffset>,
                                     std::conditional_t<Form::kBits == 4, Nibbles, WholeBytes>>;
template <class Form>
struct CodesInt8 : FoursOf<CodeBytes<Form>>, CodesInt8Scales<F32x16, Form, Form::kOffset> {};

using AheadIsa = StreamingIsa;

}  // namespace sluice::cpu::SLUICE_ISA
