#include "machine_probe.h"

#include <immintrin.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/aligned.h"
#include "kernels/cpu_features.h"

namespace sluice {

namespace {

clockid_t clock_id = CLOCK_MONOTONIC;

double now() {
  timespec time{};
  clock_gettime(clock_id, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

constexpr int kFmaRounds = 200'000;
constexpr int kChains = 12;

__attribute__((target("avx512f"))) float fma_rounds_avx512() {
  __m512 acc[kChains];
  for (auto& a : acc) a = _mm512_set1_ps(1.0F);
  const __m512 x = _mm512_set1_ps(0.999F);
  for (int i = 0; i < kFmaRounds; ++i) {
#pragma GCC unroll 12
    for (auto& a : acc) a = _mm512_fmadd_ps(a, x, x);
  }
  __m512 sum = acc[0];
  for (int c = 1; c < kChains; ++c) sum = _mm512_add_ps(sum, acc[c]);
  alignas(64) float lanes[16];
  _mm512_store_ps(lanes, sum);
  return lanes[0];
}

__attribute__((target("avx2,fma"))) float fma_rounds_avx2() {
  __m256 acc[kChains];
  for (auto& a : acc) a = _mm256_set1_ps(1.0F);
  const __m256 x = _mm256_set1_ps(0.999F);
  for (int i = 0; i < kFmaRounds; ++i) {
#pragma GCC unroll 12
    for (auto& a : acc) a = _mm256_fmadd_ps(a, x, x);
  }
  __m256 sum = acc[0];
  for (int c = 1; c < kChains; ++c) sum = _mm256_add_ps(sum, acc[c]);
  return _mm256_cvtss_f32(sum);
}

std::uint64_t sum_words(const std::uint64_t* from, std::size_t count) {
  __m128i sums[4] = {};
  for (std::size_t i = 0; i + 8 <= count; i += 8) {
    for (std::size_t j = 0; j < 4; ++j) {
      sums[j] = _mm_add_epi64(sums[j], _mm_load_si128(reinterpret_cast<const __m128i*>(from + i + 2 * j)));
    }
  }
  const __m128i sum = _mm_add_epi64(_mm_add_epi64(sums[0], sums[1]), _mm_add_epi64(sums[2], sums[3]));
  return static_cast<std::uint64_t>(_mm_cvtsi128_si64(sum));
}

volatile double sink;

}  // namespace

void measure_with(TimeKind kind) {
  clock_id = kind == TimeKind::kWall ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID;
}

double median_seconds(double budget, const std::function<void()>& call) {
  call();
  std::vector<double> times;
  const double start = now();
  do {
    const double begin = now();
    call();
    times.push_back(now() - begin);
  } while (now() - start < budget || times.size() < 5);
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

double fma_gflops(ThreadPool& pool) {
  const bool avx512 = cpu_has_avx512();
  const double lanes = avx512 ? 16 : 8;
  if (!avx512 && !cpu_has_avx2()) return 0.0;
  const double seconds = median_seconds(0.1, [&] {
    pool.run(pool.threads(), [&](int, int) { sink = avx512 ? fma_rounds_avx512() : fma_rounds_avx2(); });
  });
  return 2.0 * lanes * kChains * kFmaRounds * pool.threads() / seconds * 1e-9;
}

double read_gbytes(ThreadPool& pool, std::size_t bytes) {
  AlignedBytes buffer(bytes);
  std::memset(buffer.data(), 1, bytes);
  const std::size_t part = bytes / static_cast<std::size_t>(pool.threads()) / 64 * 64;
  const double seconds = median_seconds(0.1, [&] {
    pool.run(pool.threads(), [&](int i, int) {
      const auto* from = reinterpret_cast<const std::uint64_t*>(buffer.data() + static_cast<std::size_t>(i) * part);
      sink = static_cast<double>(sum_words(from, part / 8));
    });
  });
  return static_cast<double>(part) * pool.threads() / seconds * 1e-9;
}

}  // namespace sluice
