// Integer products (kernels/cpu/linear/linear_int8.h), in pairs.
#pragma once

#include <type_traits>

#include "kernels/cpu/avx512/int8_values.h"
#include "kernels/cpu/avx512/linear_formats.h"
#include "kernels/cpu/linear/linear_int8.h"

namespace sluice::cpu::SLUICE_ISA {

// Products of signed bytes, as products of absolute values times signs: a pair of these fits 16 bits. An input's code
// is never -128, because its sign could not be changed.
template <class Values>
struct SignedPairsOf : Values {
  SLUICE_VEC static I32x16 add_dot(I32x16 acc, typename Values::Bytes weights, __m512i x) {
    const __m512i signed_x = _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(weights), _mm512_setzero_si512(), x);
    return acc + I32x16{dot_of_pairs(_mm512_abs_epi8(weights), signed_x)};
  }
};

// The bytes are signed: kOffset (128) is subtracted again.
struct SignedBytes : WholeBytes {
  SLUICE_VEC static Bytes low(const std::byte* line) {
    return _mm512_xor_si512(load_bytes(line), _mm512_set1_epi8(static_cast<char>(0x80)));
  }
  SLUICE_VEC static Bytes high(const std::byte* line) { return low(line + 64); }
};

template <class Isa>
struct CodesTiling : Isa {
  static constexpr int kInt8DirectRows = 4, kInt8BufferRows = 3, kInt8BufferFrom = 24, kInt8KeptSums = 12;
  static constexpr int int8_groups(int) { return 2 * Isa::kTileGroups; }
};
template <class Isa>
struct Mxfp4Isa : CodesTiling<Isa> {
  struct Int8 : PairsOf<E2m1Bytes>, Mxfp4Scales {};
};
template <class Form>
using SignedCodes = SignedPairsOf<std::conditional_t<Form::kNumbered, LevelBytes<Form, 0>, SignedBytes>>;
template <class Form>
inline constexpr bool kUnsignedCodes = Form::kBits == 4 && !Form::kNumbered;
template <class Form>
struct CodesInt8 : std::conditional_t<kUnsignedCodes<Form>, PairsOf<Nibbles>, SignedCodes<Form>>,
                   CodesInt8Scales<F32x16, Form, kUnsignedCodes<Form> ? Form::kOffset : 0> {};

using AheadIsa = LinearIsa;  // this target has no separate kernel that asks ahead

}  // namespace sluice::cpu::SLUICE_ISA
