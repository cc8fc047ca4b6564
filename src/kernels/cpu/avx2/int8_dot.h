// Integer products (kernels/cpu/linear/linear_int8.h), in pairs.
#pragma once

#include <type_traits>

#include "kernels/cpu/avx2/int8_values.h"
#include "kernels/cpu/avx2/linear_formats.h"
#include "kernels/cpu/linear/linear_int8.h"

namespace sluice::cpu::SLUICE_ISA {

// Products of signed bytes, as products of absolute values times signs: a pair of these fits 16 bits. An input's code
// is never -128, because its sign could not be changed.
template <class Values>
struct SignedPairsOf : Values {
  SLUICE_VEC static I32x16 add_dot(I32x16 acc, typename Values::Bytes weights, __m256i x) {
    const auto of = [&](__m256i w) { return dot_of_pairs(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w)); };
    return acc + I32x16{of(weights.lo), of(weights.hi)};
  }
};

// The bytes of low() and high() are signed: kOffset (128) is subtracted again.
struct WholeBytes : LineBytes {
  SLUICE_VEC static const std::byte* load(const std::byte* line) { return line; }
  SLUICE_VEC static Bytes low(const std::byte* line) {
    const __m256i by = _mm256_set1_epi8(static_cast<char>(0x80));
    const Bytes stored = load_bytes(line);
    return {_mm256_xor_si256(stored.lo, by), _mm256_xor_si256(stored.hi, by)};
  }
  SLUICE_VEC static Bytes high(const std::byte* line) { return low(line + 64); }
};

template <class Isa>
struct CodesTiling : Isa {
  static constexpr int kInt8DirectRows = 5, kInt8BufferRows = 2, kInt8BufferFrom = 9, kInt8KeptSums = 4;
  static constexpr int int8_groups(int rows) { return rows > 2 ? 1 : 2; }
};
template <class Isa>
struct Mxfp4Isa : CodesTiling<Isa> {
  struct Int8 : PairsOf<E2m1Bytes>, Mxfp4Int8Scales<F32x16> {};
};
template <class Form>
using SignedCodes = SignedPairsOf<std::conditional_t<Form::kNumbered, LevelBytes<Form, 0>, WholeBytes>>;
template <class Form>
inline constexpr bool kUnsignedCodes = Form::kBits == 4 && !Form::kNumbered;
template <class Form>
struct CodesInt8 : std::conditional_t<kUnsignedCodes<Form>, PairsOf<Nibbles>, SignedCodes<Form>>,
                   CodesInt8Scales<F32x16, Form, kUnsignedCodes<Form> ? Form::kOffset : 0> {};

using AheadIsa = LinearIsa;  // this target has no separate kernel that asks ahead

}  // namespace sluice::cpu::SLUICE_ISA
