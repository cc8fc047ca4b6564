// Integer codes with scales (WeightFormat::kCodes) for kernels over the lines of kernels/cpu/linear/linear_layout.h,
// sixteen lanes V.
// Used by linear_codes.isa.cc and linear_int8.isa.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/check.h"
#include "base/formats/block_types.h"
#include "kernels/cpu/linear/linear_formats.h"
#include "kernels/cpu/linear/linear_layout.h"
#include "kernels/cpu/linear/linear_panel.h"

namespace sluice::cpu::SLUICE_ISA {

template <class V>
struct F16Scales {
  static constexpr std::size_t kBytes = 2;
  [[gnu::always_inline]] static V load(const std::byte* p) { return V::load_f16(p); }
};
template <class V>
struct F32Scales {
  static constexpr std::size_t kBytes = 4;
  [[gnu::always_inline]] static V load(const std::byte* p) { return V::load(reinterpret_cast<const float*>(p)); }
};

// The facts about a code type (base/formats/block_codes.h) that kernels need. Types with equal facts share kernels.
template <class V, int kPartInputs, int kCodeBits, int kOffsetOfCode, bool kHasMin, bool kHalves, int (*kLevelOf)(int)>
struct CodesForm {
  using Load = std::conditional_t<kHalves, F16Scales<V>, F32Scales<V>>;  // V load(p): 16 scales of kBytes each
  static constexpr int kPart = kPartInputs, kBits = kCodeBits, kOffset = kOffsetOfCode;
  static constexpr bool kMin = kHasMin;
  // Functions are compared as types: to the undefined behaviour sanitizer a function's address is not a constant that
  // can be compared.
  template <int (*kFunction)(int)>
  using Function = std::integral_constant<int (*)(int), kFunction>;
  // True if the bits are numbers of codes in a table (level()), instead of codes with an offset.
  static constexpr bool kNumbered = !std::is_same_v<Function<kLevelOf>, Function<nullptr>>;
  // The code that `number` stands for; only if kNumbered.
  static constexpr int level(int number) { return kLevelOf(number); }
  static constexpr std::size_t kLineBytes = kCodeBits == 4 ? 64 : 128;
  static constexpr std::size_t kScaleBytes = (kHasMin ? 2 : 1) * Load::kBytes;
  static constexpr std::size_t kMinAt = kGroupOutputs * Load::kBytes;  // after a group's scales
};
template <class V, class Type>
using CodesFormOf =
    CodesForm<V, Type::kForm.inputs, Type::kForm.bits, Type::kForm.bits == 4 ? -Type::kForm.lowest : 128,
              Type::kForm.min, Type::kForm.f16, Type::kForm.level>;

// Calls run.template operator()<CodesForm>() with the CodesForm of `type`.
template <class V, class Run>
void with_codes_form(DType type, const Run& run) {
  const bool known = BlockTypes::with(type, [&]<class Type>() { run.template operator()<CodesFormOf<V, Type>>(); });
  SLUICE_CHECK(known, "a type of integer codes");
}

// Returns the code that starts at bit kShift of each lane.
template <int kShift, class Form, class V>
[[gnu::always_inline]] inline V code_at(typename V::Int codes) {
  using I = typename V::Int;
  const I code = shift_right<kShift>(codes);
  if constexpr (Form::kNumbered) return numbered_codes<Form>(code);
  if constexpr (Form::kBits == 4) return V::template nibbles<Form::kOffset>(code);
  return to_float((code & I::broadcast(255)) - I::broadcast(Form::kOffset));
}

// Returns the codes of inputs 2 P and 2 P + 1 of a line.
template <int P, class Form, class V>
[[gnu::always_inline]] inline void read_codes(const std::int32_t* line, V& even, V& odd) {
  using I = typename V::Int;
  constexpr int kShift = Form::kBits == 4 ? 4 * P : P / 2 * 8;
  const I codes = I::load(line + (Form::kBits == 4 ? 0 : P % 2 * 16));
  even = code_at<kShift, Form, V>(codes);
  odd = code_at<kShift + 16, Form, V>(codes);
}

// A Format of kernels/cpu/linear/linear_tile.h: weights with their scales and minima, each product and sum rounded.
template <class V, class Form, RowsAtOnce kAtOnce>
struct CodesAsFloats {
  using Scale = Unscaled<V>;
  static constexpr int kInputs = 8;
  static constexpr RowsAtOnce kRows = kAtOnce;
  static constexpr std::size_t kLineBytes = Form::kLineBytes, kScaleBytes = Form::kScaleBytes;
  struct Line {
    const std::int32_t* codes;
    const std::byte* scales;
  };
  [[gnu::always_inline]] Line load(const std::byte* line, const std::byte* scales) const {
    return {reinterpret_cast<const std::int32_t*>(line), scales};
  }
  template <int P>
  [[gnu::always_inline]] void pair(const Line& line, V& even, V& odd) const {
    const V scale = Form::Load::load(line.scales);
    read_codes<P, Form>(line.codes, even, odd);
    even = even * scale;
    odd = odd * scale;
    if constexpr (Form::kMin) {
      const V min = Form::Load::load(line.scales + Form::kMinAt);
      even = even + min;
      odd = odd + min;
    }
  }
};

// Weights with the scales and minima of their inputs (WeightFormat::kTransposedCodes).
template <class V, class Form, RowsAtOnce kAtOnce>
struct TransposedCodes {
  using Scale = Unscaled<V>;
  static constexpr int kInputs = 8;
  static constexpr RowsAtOnce kRows = kAtOnce;
  static constexpr std::size_t kLineBytes = Form::kLineBytes,
                               kLineScaleBytes = (Form::kMin ? 2 : 1) * 8 * sizeof(float);
  static constexpr std::size_t kScaleBytes = kPanelInputs / kInputs * kLineScaleBytes / kGroupOutputs;
  struct Line {
    const std::int32_t* codes;
    const float* scales;
  };
  [[gnu::always_inline]] Line load(const std::byte* line, const std::byte* scales) const {
    return {reinterpret_cast<const std::int32_t*>(line), reinterpret_cast<const float*>(scales)};
  }
  template <int P>
  [[gnu::always_inline]] void pair(const Line& line, V& even, V& odd) const {
    read_codes<P, Form>(line.codes, even, odd);
    even = even * V::broadcast(line.scales[2 * P]);
    odd = odd * V::broadcast(line.scales[2 * P + 1]);
    if constexpr (Form::kMin) {
      even = even + V::broadcast(line.scales[8 + 2 * P]);
      odd = odd + V::broadcast(line.scales[8 + 2 * P + 1]);
    }
  }
};

}  // namespace sluice::cpu::SLUICE_ISA
