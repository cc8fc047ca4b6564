// The formats and scales of kernels/cpu/linear/linear_tile.h that need no instruction of their own, over sixteen lanes
// V.
// Used by kernels/cpu/avx2, kernels/cpu/avx512, kernels/cpu/avx512vbmi and kernels/cpu/linear.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace sluice::cpu::SLUICE_ISA {

// The distance from a line's scales to those of the next line: 0 for most formats, which have one set for a block.
template <class Format>
inline constexpr std::size_t kLineScales = [] {
  if constexpr (requires { Format::kLineScaleBytes; }) return Format::kLineScaleBytes;
  return std::size_t{0};
}();

// The numbers of rows that a format's kernels multiply at once.
struct RowsAtOnce {
  int direct;          // rows multiplied at once whose sums, for all groups of a tile, fit in registers
  int alone = 0;       // this many rows are one part instead of two parts of at most `direct`
  int blocks = 0;      // rows multiplied at once by linear_blocks.h; 0: it has no kernels for the format
  int panel_from = 0;  // rows from which panels pay; 0: never
};

// The number of groups that are multiplied at once in a tile that is not whole: 1, unless the format defines
// kNarrowGroups. Formats that do also multiply several rows at once there, as routers in bf16 need it.
template <class Format>
inline constexpr bool kNarrowRows = requires { Format::kNarrowGroups; };
template <class Format>
inline constexpr int kNarrowGroups = [] {
  if constexpr (kNarrowRows<Format>) return Format::kNarrowGroups;
  return 1;
}();

// The codes by number, for a CodesForm with kNumbered (kernels/cpu/linear/linear_codes.h).
template <class Form>
alignas(64) inline constexpr std::array<float, 16> kLevels = [] {
  std::array<float, 16> codes{};
  for (int i = 0; i < 16; ++i) codes[static_cast<std::size_t>(i)] = static_cast<float>(Form::level(i));
  return codes;
}();

// The scale of weights whose scales pair() has applied, and of weights without scales: fma(acc, 1, y) = acc + y.
template <class V>
struct Unscaled {
  [[gnu::always_inline]] static V load(const std::byte*) { return V::broadcast(1.0F); }
  [[gnu::always_inline]] static V finish(V acc, V, V y) { return acc + y; }
};

// The e8m0 code is the exponent field of the f32 scale. Code 0, the denormal 2^-127, becomes 0; 0xFF becomes NaN.
template <class V>
struct ScaledE8m0 {
  static constexpr std::size_t kBytes = 1;  // bytes of one output's scale
  [[gnu::always_inline]] static V load(const std::byte* codes) {
    using I = typename V::Int;
    const I code = I::load_bytes(codes);
    return as_float(select(equal(code, I::broadcast(0xFF)), I::broadcast(0x7FC00000), shift_left<23>(code)));
  }
  [[gnu::always_inline]] static V finish(V acc, V scale, V y) { return fma(acc, scale, y); }
};

// Returns the two bf16 of each dword as floats.
template <class I, class V>
[[gnu::always_inline]] inline void split_bf16_pairs(I pairs, V& even, V& odd) {
  odd = as_float(pairs & I::broadcast(static_cast<std::int32_t>(0xFFFF0000U)));
  even = as_float(shift_left<16>(pairs));
}

template <class V>
struct ScaledF32 {
  static constexpr std::size_t kBytes = 4;
  [[gnu::always_inline]] static V load(const std::byte* scales) {
    return V::load(reinterpret_cast<const float*>(scales));
  }
  [[gnu::always_inline]] static V finish(V acc, V scale, V y) { return fma(acc, scale, y); }
};

// f32 weights. kHalf: lines have 8 outputs (has_half_lines()).
template <class V, RowsAtOnce kAtOnce, bool kHalf = false>
struct F32Weights {
  using Scale = Unscaled<V>;
  static constexpr int kInputs = 2, kNarrowGroups = 2;
  static constexpr RowsAtOnce kRows = kAtOnce;
  static constexpr std::size_t kLineBytes = kHalf ? 64 : 128, kScaleBytes = 0;
  using Line = const float*;
  [[gnu::always_inline]] Line load(const std::byte* line, const std::byte*) const {
    return reinterpret_cast<const float*>(line);
  }
  template <int P>
  [[gnu::always_inline]] void pair(Line line, V& even, V& odd) const {
    odd = kHalf ? V::load_half(line) : V::load(line);
    even = kHalf ? V::load_half(line + 8) : V::load(line + 16);
  }
};

template <class V, RowsAtOnce kAtOnce>
struct Bf16Weights {
  using Scale = Unscaled<V>;
  static constexpr int kInputs = 2, kNarrowGroups = 1;
  static constexpr RowsAtOnce kRows = kAtOnce;
  static constexpr std::size_t kLineBytes = 64, kScaleBytes = 0;
  using Line = typename V::Int;
  [[gnu::always_inline]] Line load(const std::byte* line, const std::byte*) const {
    return Line::load(reinterpret_cast<const std::int32_t*>(line));
  }
  template <int P>
  [[gnu::always_inline]] Line bf16_pair(const Line& line) const {
    return line;
  }
  template <int P>
  [[gnu::always_inline]] void pair(const Line& line, V& even, V& odd) const {
    split_bf16_pairs(line, even, odd);
  }
};

// e4m3 with a scale per block, ScaledE8m0 or ScaledF32. Decoder gives Line, load(line) and pair<P>(line, even, odd).
template <class OfBlock, class Decoder, RowsAtOnce kAtOnce>
struct Fp8Weights : Decoder {
  using Scale = OfBlock;
  static constexpr int kInputs = 4;
  static constexpr RowsAtOnce kRows = kAtOnce;
  static constexpr std::size_t kLineBytes = 64, kScaleBytes = OfBlock::kBytes;
  [[gnu::always_inline]] auto load(const std::byte* line, const std::byte*) const { return Decoder::load(line); }
};

// FP8 whose f32 scales multiply each weight.
template <class V, class Decoder, RowsAtOnce kAtOnce>
struct Fp8PrescaledWeights : Decoder {
  using Scale = Unscaled<V>;
  static constexpr int kInputs = 4;
  static constexpr RowsAtOnce kRows = kAtOnce;
  static constexpr std::size_t kLineBytes = 64, kScaleBytes = 4;
  struct Line {
    typename Decoder::Line codes;
    const float* scales;
  };
  [[gnu::always_inline]] Line load(const std::byte* line, const std::byte* scales) const {
    return {Decoder::load(line), reinterpret_cast<const float*>(scales)};
  }
  template <int P>
  [[gnu::always_inline]] void pair(const Line& line, V& even, V& odd) const {
    Decoder::template pair<P>(line.codes, even, odd);
    const V by = V::load(line.scales);
    even = even * by;
    odd = odd * by;
  }
};

}  // namespace sluice::cpu::SLUICE_ISA
