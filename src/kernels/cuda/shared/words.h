// Words of packed values as numbers: what processors of NVIDIA have instructions for, in C++ for the emulation.
#pragma once

#include <bit>
#include <cstdint>

#include "base/number_formats.h"
#include "kernels/cuda/launch.h"

namespace sluice::SLUICE_CUDA_OPS {

struct alignas(16) Chunk {
  std::uint32_t words[4];
};

// Bytes of b:a (numbers 7 to 0) by the low three bits of the four lowest nibbles of `selector`.
SLUICE_DEVICE std::uint32_t byte_perm(std::uint32_t a, std::uint32_t b, std::uint32_t selector) {
#ifdef __CUDACC__
  return __byte_perm(a, b, selector);
#else
  const std::uint64_t bytes = std::uint64_t{b} << 32 | a;
  std::uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    result |= static_cast<std::uint32_t>(bytes >> ((selector >> (4 * i) & 7U) * 8) & 0xFFU) << (8 * i);
  }
  return result;
#endif
}

// sum + the products of four signed bytes each.
SLUICE_DEVICE std::int32_t dot4(std::uint32_t a, std::uint32_t b, std::int32_t sum) {
#ifdef __CUDACC__
  return __dp4a(static_cast<int>(a), static_cast<int>(b), sum);
#else
  for (int i = 0; i < 32; i += 8) sum += static_cast<std::int8_t>(a >> i) * static_cast<std::int8_t>(b >> i);
  return sum;
#endif
}

SLUICE_DEVICE void expand_bf16(std::uint32_t word, float* out) {
  out[0] = std::bit_cast<float>(word << 16);
  out[1] = std::bit_cast<float>(word & 0xFFFF0000U);
}

SLUICE_DEVICE float half_to_float(std::uint32_t bits) {  // the low 16
#ifdef __CUDACC__
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(static_cast<std::uint16_t>(bits)));
  return value;
#else
  return to_float(f16{static_cast<std::uint16_t>(bits)});
#endif
}

// Four e4m3 codes. Shifted to the place of an f16's exponent and mantissa they are 2^-8 times their value, denormals
// too; only NaN is not one there.
SLUICE_DEVICE void expand_e4m3(std::uint32_t word, float* out) {
  if ((((word & 0x7F7F7F7FU) + 0x01010101U) & 0x80808080U) != 0) {
    for (int i = 0; i < 4; ++i) out[i] = e4m3_to_float(static_cast<std::uint8_t>(word >> (8 * i)));
    return;
  }
  SLUICE_UNROLL
  for (int i = 0; i < 4; i += 2) {
    const std::uint32_t high = byte_perm(word, 0, i == 0 ? 0x1404U : 0x3424U);
    const std::uint32_t halves = (high & 0x80008000U) | (high >> 1 & 0x3F803F80U);
    out[i] = half_to_float(halves) * 256.0F;
    out[i + 1] = half_to_float(halves >> 16) * 256.0F;
  }
}

// Eight nibbles, the lowest first.
SLUICE_DEVICE void expand_e2m1(std::uint32_t word, float* out) {
  SLUICE_UNROLL
  for (int i = 0; i < 8; ++i) {
    const std::uint32_t code = word >> (4 * i) & 7U;  // two bits of exponent, one of mantissa
    const std::uint32_t normal = (code << 22) + (126U << 23), small = code == 1 ? 0x3F000000U : 0U;
    out[i] = std::bit_cast<float>((code > 1 ? normal : small) | (word >> (4 * i) & 8U) << 28);
  }
}

// Twice the values of four e2m1 nibbles, the lowest 16 bits, as signed bytes.
SLUICE_DEVICE std::uint32_t doubled_e2m1(std::uint32_t nibbles) {
  constexpr std::uint32_t kLow = 0x03020100, kHigh = 0x0C080604;            // 0 1 2 3, 4 6 8 12
  constexpr std::uint32_t kMinusLow = 0xFDFEFF00, kMinusHigh = 0xF4F8FAFC;  // their negatives
  const std::uint32_t selector = nibbles & 0x7777U;
  const std::uint32_t negative = byte_perm(0x0000FF00U, 0, (nibbles >> 3) & 0x1111U);
  return (byte_perm(kLow, kHigh, selector) & ~negative) | (byte_perm(kMinusLow, kMinusHigh, selector) & negative);
}

// Eight nibbles as bytes: the first four, and the others.
SLUICE_DEVICE void expand_nibbles(std::uint32_t word, std::uint32_t* out) {
  const std::uint32_t even = word & 0x0F0F0F0FU, odd = (word >> 4) & 0x0F0F0F0FU;
  out[0] = byte_perm(even, odd, 0x5140);
  out[1] = byte_perm(even, odd, 0x7362);
}

}  // namespace sluice::SLUICE_CUDA_OPS
