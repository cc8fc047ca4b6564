// Words of packed values as numbers, by instructions of NVIDIA's processors, or in C++ for the emulation.
// Used by few_outputs.cu, indexer.cu, linear_formats.h and linear_staging.h.
#pragma once

#include <bit>
#include <cstdint>

#include "base/formats/number_formats.h"
#include "kernels/cuda/launch.h"

namespace sluice::SLUICE_CUDA_OPS {

struct alignas(16) Chunk {
  std::uint32_t words[4];
};

// Returns bytes of b:a (numbers 7 to 0) by the four lowest nibbles of `selector`, none of them above 7.
SLUICE_DEVICE std::uint32_t byte_perm(std::uint32_t a, std::uint32_t b, std::uint32_t selector) {
#ifdef __CUDACC__
  std::uint32_t result;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(selector));
  return result;
#else
  const std::uint64_t bytes = std::uint64_t{b} << 32 | a;
  std::uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    result |= static_cast<std::uint32_t>(bytes >> ((selector >> (4 * i) & 7U) * 8) & 0xFFU) << (8 * i);
  }
  return result;
#endif
}

// Returns sum + the products of four signed bytes each.
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

SLUICE_DEVICE float half_to_float(std::uint32_t bits) {  // `bits`: the low 16 hold the f16
#ifdef __CUDACC__
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(static_cast<std::uint16_t>(bits)));
  return value;
#else
  return to_float(f16{static_cast<std::uint16_t>(bits)});
#endif
}

// Returns 256 times both halves, f16 values, denormals too.
SLUICE_DEVICE std::uint32_t times_256(std::uint32_t halves) {
#ifdef __CUDACC__
  std::uint32_t result;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(result) : "r"(halves), "r"(0x5C005C00U));
  return result;
#else
  const auto half = [](std::uint32_t bits) {
    return std::uint32_t{to_f16(to_float(f16{static_cast<std::uint16_t>(bits)}) * 256.0F).bits};
  };
  return half(halves) | half(halves >> 16) << 16;
#endif
}

// Expands four e4m3 codes, none of them NaN. Shifted to the place of an f16's exponent and mantissa they are 2^-8 times
// their value, denormals too.
SLUICE_DEVICE void expand_e4m3(std::uint32_t word, float* out) {
  SLUICE_UNROLL
  for (int i = 0; i < 4; i += 2) {
    const std::uint32_t high = byte_perm(word, 0, i == 0 ? 0x1404U : 0x3424U);
    const std::uint32_t halves = times_256((high & 0x80008000U) | (high >> 1 & 0x3F803F80U));
    out[i] = half_to_float(halves);
    out[i + 1] = half_to_float(halves >> 16);
  }
}

// Expands eight e2m1 values in the layout of kernels/cuda/linear_layout.h: nibble i is the magnitude of value i, bit
// 8i + 7 the sign of value i, bit 8i + 3 that of value 4 + i. The upper bytes of their f16 come from a table.
SLUICE_DEVICE void expand_e2m1(std::uint32_t word, float* out) {
  constexpr std::uint32_t kLow = 0x3E3C3800, kHigh = 0x46444240;  // 0 0.5 1 1.5, 2 3 4 6
  const std::uint32_t selector = word & 0x77777777U;
  SLUICE_UNROLL
  for (int i = 0; i < 8; i += 4) {
    const std::uint32_t bytes =
        byte_perm(kLow, kHigh, selector >> (4 * i)) | ((i == 0 ? word : word << 4) & 0x80808080U);
    const std::uint32_t first = byte_perm(bytes, 0, 0x1404), second = byte_perm(bytes, 0, 0x3424);
    out[i] = half_to_float(first);
    out[i + 1] = half_to_float(first >> 16);
    out[i + 2] = half_to_float(second);
    out[i + 3] = half_to_float(second >> 16);
  }
}

// Returns 0xFF for a byte that has its highest bit, else 0.
SLUICE_DEVICE std::uint32_t sign_bytes(std::uint32_t word) {
#ifdef __CUDACC__
  std::uint32_t result;
  asm("prmt.b32 %0, %1, %1, 0xBA98;" : "=r"(result) : "r"(word));
  return result;
#else
  return (word >> 7 & 0x01010101U) * 0xFFU;
#endif
}

// Returns twice the values of four e2m1 magnitudes, the low three bits of the lowest nibbles, as signed bytes;
// `negative`: 0xFF where one is negative.
SLUICE_DEVICE std::uint32_t doubled_e2m1(std::uint32_t magnitudes, std::uint32_t negative) {
  constexpr std::uint32_t kLow = 0x03020100, kHigh = 0x0C080604;            // 0 1 2 3, 4 6 8 12
  constexpr std::uint32_t kMinusLow = 0xFDFEFF00, kMinusHigh = 0xF4F8FAFC;  // the negatives of these
  return (byte_perm(kLow, kHigh, magnitudes) & ~negative) | (byte_perm(kMinusLow, kMinusHigh, magnitudes) & negative);
}

// The same for four e2m1 nibbles, the lowest 16 bits.
SLUICE_DEVICE std::uint32_t doubled_e2m1(std::uint32_t nibbles) {
  return doubled_e2m1(nibbles & 0x7777U, byte_perm(0x0000FF00U, 0, (nibbles >> 3) & 0x1111U));
}

// The same for eight nibbles in expand_e2m1()'s layout: the first four, and the others.
SLUICE_DEVICE void expand_doubled_e2m1(std::uint32_t word, std::uint32_t* out) {
  const std::uint32_t selector = word & 0x77777777U;
  out[0] = doubled_e2m1(selector, sign_bytes(word));
  out[1] = doubled_e2m1(selector >> 16, sign_bytes(word << 4));
}

// Expands eight nibbles to bytes: the first four, and the others.
SLUICE_DEVICE void expand_nibbles(std::uint32_t word, std::uint32_t* out) {
  const std::uint32_t even = word & 0x0F0F0F0FU, odd = (word >> 4) & 0x0F0F0F0FU;
  out[0] = byte_perm(even, odd, 0x5140);
  out[1] = byte_perm(even, odd, 0x7362);
}

}  // namespace sluice::SLUICE_CUDA_OPS
