// Weights without scales and the kinds of scales of kernels/cpu/linear_tile.h, over sixteen lanes V (cpu/<isa>/vec.h).
#pragma once

#include <cstddef>

namespace sluice::cpu {

// decode() has applied the scales, or there are none: fma(acc, 1, y) = acc + y.
template <class V>
struct Unscaled {
  static constexpr std::size_t kBytes = 0;
  [[gnu::always_inline]] static V load(const std::byte*) { return V::zero(); }
  [[gnu::always_inline]] static V finish(V acc, V, V y) { return acc + y; }
};

// The code is the exponent field. 0, which stands for the denormal 2^-127, becomes 0; 0xFF is NaN.
template <class V>
struct ScaledE8m0 {
  static constexpr std::size_t kBytes = 1;
  [[gnu::always_inline]] static V load(const std::byte* codes) {
    using I = typename V::Int;
    const I code = I::load_bytes(codes);
    return as_float(select(equal(code, I::broadcast(0xFF)), I::broadcast(0x7FC00000), shift_left<23>(code)));
  }
  [[gnu::always_inline]] static V finish(V acc, V scale, V y) { return fma(acc, scale, y); }
};

template <class V>
struct F32Weights {
  using Scale = Unscaled<V>;
  static constexpr int kInputs = 2;
  static constexpr std::size_t kLineBytes = 128, kScaleBytes = 0;
  [[gnu::always_inline]] void decode(const std::byte* line, const std::byte*, V (&w)[2]) const {
    w[1] = V::load(reinterpret_cast<const float*>(line));
    w[0] = V::load(reinterpret_cast<const float*>(line + 64));
  }
};

template <class V>
struct Bf16Weights {
  using Scale = Unscaled<V>;
  static constexpr int kInputs = 2;
  static constexpr std::size_t kLineBytes = 64, kScaleBytes = 0;
  [[gnu::always_inline]] void decode(const std::byte* line, const std::byte*, V (&w)[2]) const {
    using I = typename V::Int;
    const I pairs = I::load(reinterpret_cast<const std::int32_t*>(line));
    w[1] = as_float(pairs & I::broadcast(static_cast<std::int32_t>(0xFFFF0000U)));
    w[0] = as_float(shift_left<16>(pairs));
  }
};

// e4m3 with a scale per block, from the four decoded inputs that Decoder::unpack gives.
template <class V, class Decoder>
struct Fp8Weights : Decoder {
  using Scale = ScaledE8m0<V>;
  static constexpr int kInputs = 4;
  static constexpr std::size_t kLineBytes = 64, kScaleBytes = 1;
  [[gnu::always_inline]] void decode(const std::byte* line, const std::byte*, V (&w)[4]) const {
    Decoder::unpack(line, w);
  }
};

// f32 scales go into each weight.
template <class V, class Decoder>
struct Fp8PrescaledWeights : Decoder {
  using Scale = Unscaled<V>;
  static constexpr int kInputs = 4;
  static constexpr std::size_t kLineBytes = 64, kScaleBytes = 4;
  [[gnu::always_inline]] void decode(const std::byte* line, const std::byte* scales, V (&w)[4]) const {
    Decoder::unpack(line, w);
    const V by = V::load(reinterpret_cast<const float*>(scales));
    for (V& value : w) value = value * by;
  }
};

}  // namespace sluice::cpu
