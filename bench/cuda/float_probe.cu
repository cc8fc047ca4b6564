// Whether a GPU computes f32 as the CPU kernels do: sums, products, fused ones, quotients, square roots on random bits
// (near the smallest normal number above all), conversions to bf16 and f16, and exp and log of kernels/math.h on every
// float. The CPU flushes denormals, as all its kernels do. Prints how many of how many differ; NaNs count as equal.
//
//   sed 's/^inline \(float\|int\) /__host__ __device__ &/' src/kernels/math.h >math_for_both.h
//   nvcc -std=c++20 -O2 -arch=sm_90 -fmad=false -ftz=true -prec-div=true -prec-sqrt=true --expt-relaxed-constexpr \
//     -Xcompiler -mfma,-mf16c,-O2,-fopenmp,-ffp-contract=off -I. bench/cuda/float_probe.cu -o float_probe
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <immintrin.h>
#include <omp.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "math_for_both.h"

namespace {

constexpr int kOps = 12;
const char* const kNames[kOps] = {"a + b",   "a - b",  "a * b",  "a / b",   "sqrt |a|",   "fma(a, b, c)",
                                  "bf16(a)", "f16(a)", "exp(a)", "log |a|", "sigmoid(a)", "softplus(a)"};

__host__ __device__ float as_float(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}

// Words of a counter. Kind 0: any bits; 1: exponents within 24 of the smallest normal; 2: within 30 of one.
__host__ __device__ std::uint32_t word(std::uint64_t i, std::uint32_t lane, int kind) {
  std::uint64_t x = i * 3 + lane + 1;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  const auto bits = static_cast<std::uint32_t>(x ^ (x >> 31));
  if (kind == 0) return bits;
  const std::uint32_t exponent = kind == 1 ? (bits >> 23) % 50 : 97 + (bits >> 23) % 61;
  return (bits & 0x807FFFFFU) | exponent << 23;
}

__host__ __device__ std::uint32_t compute(int op, float a, float b, float c) {
  switch (op) {
    case 0:
      return std::bit_cast<std::uint32_t>(a + b);
    case 1:
      return std::bit_cast<std::uint32_t>(a - b);
    case 2:
      return std::bit_cast<std::uint32_t>(a * b);
    case 3:
      return std::bit_cast<std::uint32_t>(a / b);
    case 4:
      return std::bit_cast<std::uint32_t>(sqrtf(fabsf(a)));
    case 5:
      return std::bit_cast<std::uint32_t>(fmaf(a, b, c));
    case 8:
      return std::bit_cast<std::uint32_t>(sluice::exp_f32(a));
    case 9:
      return std::bit_cast<std::uint32_t>(sluice::log_f32(fabsf(a)));
    case 10:
      return std::bit_cast<std::uint32_t>(sluice::sigmoid_f32(a));
    case 11:
      return std::bit_cast<std::uint32_t>(sluice::softplus_f32(a));
    default:
      break;
  }
#ifdef __CUDA_ARCH__
  if (op == 6) return static_cast<std::uint32_t>(__bfloat16_as_ushort(__float2bfloat16_rn(a)));
  return static_cast<std::uint32_t>(__half_as_ushort(__float2half_rn(a)));
#else
  if (op == 6) {
    const auto bits = std::bit_cast<std::uint32_t>(a);
    if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return (bits >> 16) | 0x40U;
    return (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  }
  return static_cast<std::uint32_t>(_cvtss_sh(a, 0));
#endif
}

__host__ __device__ bool is_nan(int op, std::uint32_t bits) {
  if (op == 6) return (bits & 0x7FFFU) > 0x7F80U;
  if (op == 7) return (bits & 0x7FFFU) > 0x7C00U;
  return (bits & 0x7FFFFFFFU) > 0x7F800000U;
}

__global__ void on_gpu(int op, int kind, std::uint64_t first, std::uint32_t n, bool every_float, std::uint32_t* out) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  if (i >= n) return;
  const std::uint32_t a = every_float ? static_cast<std::uint32_t>(first + i) : word(first + i, 0, kind);
  out[i] = compute(op, as_float(a), as_float(word(first + i, 1, kind)), as_float(word(first + i, 2, kind)));
}

void probe(int op, int kind, bool every_float) {
  constexpr std::uint32_t kPiece = 1U << 26;
  const std::uint64_t cases = every_float ? std::uint64_t{1} << 32 : std::uint64_t{1} << 28;
  std::uint32_t* device = nullptr;
  cudaMalloc(&device, kPiece * sizeof(std::uint32_t));
  std::vector<std::uint32_t> found(kPiece);
  std::uint64_t different = 0, shown = 0;
  for (std::uint64_t first = 0; first < cases; first += kPiece) {
    on_gpu<<<kPiece / 256, 256>>>(op, kind, first, kPiece, every_float, device);
    cudaMemcpy(found.data(), device, kPiece * sizeof(std::uint32_t), cudaMemcpyDeviceToHost);
#pragma omp parallel for reduction(+ : different)
    for (std::int64_t i = 0; i < std::int64_t{kPiece}; ++i) {
      _mm_setcsr(_mm_getcsr() | 0x8040U);  // denormals are zero
      const std::uint64_t at = first + static_cast<std::uint64_t>(i);
      const std::uint32_t a = every_float ? static_cast<std::uint32_t>(at) : word(at, 0, kind);
      const std::uint32_t b = word(at, 1, kind), c = word(at, 2, kind);
      const std::uint32_t expected = compute(op, as_float(a), as_float(b), as_float(c));
      const std::uint32_t gpu = found[static_cast<std::size_t>(i)];
      if (op == 9 && (a & 0x7F800000U) == 0) continue;  // log takes normal numbers
      if (gpu == expected || (is_nan(op, gpu) && is_nan(op, expected))) continue;
      ++different;
#pragma omp critical
      if (shown++ < 3) std::printf("    a %08x b %08x c %08x: cpu %08x gpu %08x\n", a, b, c, expected, gpu);
    }
  }
  cudaFree(device);
  const char* const kinds[] = {"any bits", "near the smallest normal", "near one"};
  std::printf("%-14s %-26s %12llu of %llu differ\n", kNames[op], every_float ? "every float" : kinds[kind],
              static_cast<unsigned long long>(different), static_cast<unsigned long long>(cases));
}

}  // namespace

int main() {
  cudaDeviceProp properties{};
  cudaGetDeviceProperties(&properties, 0);
  std::printf("%s\n", properties.name);
  for (int op = 0; op < 6; ++op) {
    for (int kind = 0; kind < 3; ++kind) probe(op, kind, false);
  }
  for (int op = 6; op < kOps; ++op) probe(op, 0, true);
  return cudaGetLastError() == cudaSuccess ? 0 : 1;
}
