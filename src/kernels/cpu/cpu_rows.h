// Row codecs (kernels/ops/row_codec.h) over sixteen lanes V. Shapes and bit patterns that the fast forms do not cover
// go to the scalar definitions.
// Used by kernels/cpu, kernels/cpu/attention and kernels/cpu/linear.
#pragma once

#include "base/formats/number_formats.h"
#include "kernels/cpu/math.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/row_codec.h"

namespace sluice::cpu::SLUICE_ISA {

template <class V>
[[gnu::always_inline]] inline V magnitude(V x) {
  return as_float(as_bits(x) & V::Int::broadcast(0x7FFFFFFF));
}

// The magnitude's code in a format of kMantissa bits whose smallest normal is 2^kMinExponent, rounded to nearest even,
// for a magnitude that does not exceed the largest. Below the smallest normal it adds a number whose last bit is the
// format's; above, it works on the f32 bits.
template <class V, int kMantissa, int kMinExponent>
[[gnu::always_inline]] inline typename V::Int small_float_code(V clamped) {
  using I = typename V::Int;
  constexpr int kDropped = 23 - kMantissa;
  const I bits = as_bits(clamped);
  const I odd = shift_right<kDropped>(bits) & I::broadcast(1);
  const I rounded = bits + I::broadcast((1 << (kDropped - 1)) - 1) + odd;
  const I normal = shift_right<kDropped>(rounded) - I::broadcast((126 + kMinExponent) << kMantissa);
  const I aligner = I::broadcast((127 + kMinExponent + kDropped) << 23);
  const I subnormal = as_bits(clamped + as_float(aligner)) - aligner;
  return select(greater(I::broadcast((127 + kMinExponent) << 23), bits), subnormal, normal);
}

template <class V>
[[gnu::always_inline]] inline typename V::Int e4m3_codes(V x) {
  using I = typename V::Int;
  const I code = small_float_code<V, 3, -6>(min_of(magnitude(x), V::broadcast(448.0F)));
  const I sign = shift_right<24>(as_bits(x)) & I::broadcast(0x80);
  return select(is_nan(x), I::broadcast(0x7F), code | sign);
}

template <class V>
[[gnu::always_inline]] inline V e4m3_values(typename V::Int codes) {
  using I = typename V::Int;
  const I rest = codes & I::broadcast(0x7F);
  const I normal = shift_left<20>(rest) + I::broadcast(120 << 23);
  I bits = select(greater(I::broadcast(8), rest), as_bits(to_float(rest) * V::broadcast(0x1p-9F)), normal);
  bits = select(equal(rest, I::broadcast(0x7F)), I::broadcast(0x7FC00000), bits);
  return as_float(bits | shift_left<24>(codes & I::broadcast(0x80)));
}

template <class V>
[[gnu::always_inline]] inline typename V::Int e2m1_codes(V x) {
  using I = typename V::Int;
  const V number = min_of(x, V::broadcast(6.0F));  // min_of() gives the second operand if either is NaN
  const I code = small_float_code<V, 1, 0>(min_of(magnitude(number), V::broadcast(6.0F)));
  return code | (shift_right<28>(as_bits(number)) & I::broadcast(8));
}

template <class V>
[[gnu::always_inline]] inline typename V::Int bf16_codes(V x) {
  using I = typename V::Int;
  const I bits = as_bits(x);
  const I rounded = bits + I::broadcast(0x7FFF) + (shift_right<16>(bits) & I::broadcast(1));
  return select(is_nan(x), I::broadcast(kNanBf16), shift_right<16>(rounded));
}

// Returns, in every lane, the power-of-two scale of n values, a multiple of 16.
template <class V, RowValues kValues>
[[gnu::always_inline]] inline V block_scale(const float* x, int n) {
  using I = typename V::Int;
  constexpr bool kFp8 = kValues == RowValues::kE4m3;
  V amax = V::broadcast(kFp8 ? 1e-4F : 6.0F * 0x1p-126F);
  for (int i = 0; i < n; i += 16) amax = max_of(magnitude(V::load(x + i)), amax);
  amax = tree_max(amax);
  const V ratio = kFp8 ? amax * V::broadcast(1.0F / 448.0F) : amax / V::broadcast(6.0F);
  return as_float((as_bits(ratio) + I::broadcast(0x7FFFFF)) & I::broadcast(0x7F800000));
}

template <RowScales kScales, class V>
[[gnu::always_inline]] inline void store_scale(V scale, std::byte* to) {
  const float value = scale.first_lane();
  if constexpr (kScales == RowScales::kE8m0) {
    *to = static_cast<std::byte>(__builtin_bit_cast(std::uint32_t, value) >> 23);
  } else {
    __builtin_memcpy(to, &value, sizeof value);
  }
}

// Divides by a scale, a power of two, by multiplying with its inverse: exact, as the inverse of every possible scale is
// a normal number.
template <class V>
[[gnu::always_inline]] inline V inverse(V scale) {
  return V::broadcast(1.0F) / scale;
}

template <class V, RowValues kValues>
[[gnu::always_inline]] inline void encode_block(const float* x, int n, V scale, std::byte* out) {
  const V factor = inverse(scale);
  for (int i = 0; i < n; i += 16) {
    if constexpr (kValues == RowValues::kE4m3) {
      e4m3_codes(V::load(x + i) * factor).store_bytes(out + i);
    } else {
      const auto codes = e2m1_codes(V::load(x + i) * factor);
      std::byte pairs[16];
      (codes | shift_left<4>(permute_xor<1>(codes))).store_bytes(pairs);
      for (int j = 0; j < 8; ++j) out[i / 2 + j] = pairs[2 * j];
    }
  }
}

template <class V>
[[gnu::always_inline]] inline void encode_bf16(const float* x, int n, std::byte* out) {
  for (int i = 0; i < n; i += 16) bf16_codes(V::load(x + i)).store_words(out + 2 * i);
}

template <class V>
[[gnu::always_inline]] inline void decode_bf16(const std::byte* in, int n, float* x) {
  for (int i = 0; i < n; i += 16) V::load_bf16(in + 2 * i).store(x + i);
}

// True if the fast forms cover the shape.
template <RowCodec kCodec>
[[gnu::always_inline]] inline bool in_whole_vectors(int dims, int rope_dims) {
  constexpr RowCodecInfo kInfo = row_codec(kCodec);
  constexpr int kCodes = kInfo.values == RowValues::kE4m3 ? 64 : 32;  // codes decoded at once
  const int in_blocks = kInfo.in_blocks(dims, rope_dims);
  return kInfo.block % kCodes == 0 && in_blocks % kCodes == 0 && (dims - in_blocks) % 16 == 0;
}

// Calls run(first, count, place of the scale) for the blocks of values [0, in_blocks).
template <RowCodec kCodec, class Run>
[[gnu::always_inline]] inline void for_blocks(int in_blocks, const Run& run) {
  constexpr RowCodecInfo kInfo = row_codec(kCodec);
  if constexpr (kInfo.block == 0) {
    run(0, in_blocks, 0);
  } else {
    for (int i = 0; i < in_blocks; i += kInfo.block) {
      const bool whole = !kInfo.short_block || in_blocks - i >= kInfo.block;
      run(i, whole ? kInfo.block : in_blocks - i, i / kInfo.block * kInfo.bytes_of_scale());
    }
  }
}

// Decodes a block of `n` codes. Returns false if a code or its scale needs the scalar form.
template <class V, RowCodec kCodec>
[[gnu::always_inline]] inline bool decode_block(const std::byte* codes, const std::byte* scale_bytes, int n, float* x) {
  constexpr RowCodecInfo kInfo = row_codec(kCodec);
  if constexpr (kInfo.values == RowValues::kE4m3 && kInfo.scales == RowScales::kE8m0) {
    const int exponent = static_cast<int>(*scale_bytes);
    if (exponent < 1 || exponent > 246) return false;
    const V scale = as_float(V::Int::broadcast((exponent + 8) << 23));  // times 256
    for (int i = 0; i < n; i += 64) {
      if (V::has_e4m3_nan(codes + i)) return false;
      for (int j = i; j < i + 64; j += 16) (V::load_e4m3_over_256(codes + j) * scale).store(x + j);
    }
    return true;
  } else if constexpr (kInfo.values == RowValues::kE4m3) {
    float value;
    __builtin_memcpy(&value, scale_bytes, sizeof value);
    const V scale = V::broadcast(value);
    for (int i = 0; i < n; i += 64) {
      if (V::has_e4m3_nan(codes + i)) return false;
      for (int j = i; j < i + 64; j += 16) {
        (V::load_e4m3_over_256(codes + j) * V::broadcast(256.0F) * scale).store(x + j);
      }
    }
    return true;
  } else if constexpr (kInfo.scales == RowScales::kE8m0) {
    const int exponent = static_cast<int>(*scale_bytes);
    if (exponent < 1 || exponent > 254) return false;
    const V scale = as_float(V::Int::broadcast(exponent << 23));
    for (int i = 0; i < n; i += 16) (e2m1_values(V::Int::load_nibbles(codes + i / 2)) * scale).store(x + i);
    return true;
  } else {
    return false;
  }
}

// Decodes a row of a shape for which in_whole_vectors() holds. Returns false if a code or scale needs the scalar form.
template <class V, RowCodec kCodec>
[[gnu::always_inline]] inline bool decode_one(const RowFormat& format, RowRef row, float* x) {
  constexpr RowCodecInfo kInfo = row_codec(kCodec);
  if constexpr (kInfo.values == RowValues::kF32) {
    for (int i = 0; i < format.dims; i += 16) V::load(reinterpret_cast<const float*>(row.data) + i).store(x + i);
    return true;
  } else {
    const int in_blocks = kInfo.in_blocks(format.dims, format.rope_dims);
    bool fast = true;
    if constexpr (kInfo.quantised()) {
      for_blocks<kCodec>(in_blocks, [&](int first, int n, int at) __attribute__((always_inline)) {
        fast = fast && decode_block<V, kCodec>(row.data + kInfo.code_bytes(first), row.scales + at, n, x + first);
      });
    }
    if (fast) decode_bf16<V>(row.data + kInfo.code_bytes(in_blocks), format.dims - in_blocks, x + in_blocks);
    return fast;
  }
}

// Returns false if the shape, a code or a scale needs the scalar form.
template <class V>
[[gnu::always_inline]] inline bool decode_fast(const RowFormat& format, RowRef row, float* x) {
  bool fast = false;
  with_row_codec(
      format.codec, [&]<RowCodec kCodec>(std::integral_constant<RowCodec, kCodec>) __attribute__((always_inline)) {
        fast = in_whole_vectors<kCodec>(format.dims, format.rope_dims) && decode_one<V, kCodec>(format, row, x);
      });
  return fast;
}

// Cached rows as f32 for the products of attention: decoded into scratch, or read where they lie.

// Dims in whole vectors, and the distance of decoded rows. The distance is no power of two, so that a column of rows
// does not fall into a few sets of the cache.
[[gnu::always_inline]] inline int padded_dims(int dims) {
  return (dims + 15) / 16 * 16;
}
[[gnu::always_inline]] inline std::ptrdiff_t key_stride(int dims) {
  return padded_dims(dims) + 16;
}

// Returns where `row` can be read as f32, padded with zeros: in `into` (key_stride floats), or in the cache.
template <class V>
[[gnu::always_inline]] inline const float* key_values(const RowFormat& format, RowRef row, float* into) {
  if (format.dims % 16 == 0 && format.codec == RowCodec::kF32) return reinterpret_cast<const float*>(row.data);
  if (!decode_fast<V>(format, row, into)) {
    decode_row(format, row, into);
    for (int d = format.dims; d < padded_dims(format.dims); ++d) into[d] = 0.0F;
  }
  return into;
}

}  // namespace sluice::cpu::SLUICE_ISA
