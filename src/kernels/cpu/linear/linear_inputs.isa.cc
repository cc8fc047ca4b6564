// Compiled for avx2 and avx512.
// The inputs of linears in the form that a weight multiplies (kernels/weights/linear_inputs.h), over sixteen lanes V.
#include "kernels/weights/linear_inputs.h"

#include "kernels/cpu/avx2/quantized_codes.h"
#include "kernels/cpu/cpu_rows.h"
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/vec.h"

namespace sluice::cpu::SLUICE_ISA {

// Stores the low halves of the lanes, sixteen bf16.
template <class V>
[[gnu::always_inline]] inline void prepare_bf16(int count, const float* x, std::uint16_t* to) {
  int i = 0;
  for (; i + 16 <= count; i += 16) bf16_codes(V::load(x + i)).store_words(reinterpret_cast<std::byte*>(to + i));
  if (i < count) prepare_bf16_inputs(count - i, x + i, to + i);
}

template <class V>
[[gnu::always_inline]] inline void quantize_whole_block(const float* x, QuantizedBlock& block) {
  using I = typename V::Int;
  const V low = V::load(x), high = V::load(x + 16);
  // The bits of magnitudes, read as integers, have the order of the magnitudes; those that are not finite are the
  // largest.
  const I mask = I::broadcast(0x7FFFFFFF);
  const I largest = max_of(as_bits(low) & mask, as_bits(high) & mask);
  const QuantizedScale scale = quantized_scale(max_of_lanes(largest));
  block.scale = scale.scale;
  if (scale.inverse == 0.0F) return clear_codes(block);
  const V inverse = V::broadcast(scale.inverse), magic = V::broadcast(kQuantizedMagic);
  static_assert((kQuantizedMagicBits & 255) == 0, "the low byte of a rounded value is its code");
  const std::int32_t lower = store_codes(as_bits(low * inverse + magic).low_bytes(), block.codes);
  const std::int32_t upper = store_codes(as_bits(high * inverse + magic).low_bytes(), block.codes + 16);
  set_sums(lower, upper, block);
}

void prepare_inputs(InputForm form, int count, const float* x, float* to) {
  using V = F32x16;
  if (form == InputForm::kBf16 || form == InputForm::kTiles) {
    return prepare_bf16<V>(count, x, reinterpret_cast<std::uint16_t*>(to));
  }
  if (form != InputForm::kInt8) return sluice::prepare_inputs(form, count, x, to);
  auto* block = reinterpret_cast<QuantizedBlock*>(to);
  int i = 0;
  for (; i + kQuantizedInputs <= count; i += kQuantizedInputs, ++block) quantize_whole_block<V>(x + i, *block);
  if (i < count) quantize_block(count - i, x + i, *block);
}

namespace {

constexpr Kernel kKernels[] = {
    SLUICE_KERNEL(prepare_inputs, prepare_inputs),
};

}  // namespace

SLUICE_KERNELS(linear_inputs, kKernels, {});

}  // namespace sluice::cpu::SLUICE_ISA
