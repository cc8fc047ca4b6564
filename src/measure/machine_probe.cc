#include "measure/machine_probe.h"

#include <immintrin.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <limits>

#include "base/clocks.h"
#include "base/machine.h"
#include "kernels/cpu_features.h"

namespace sluice {

namespace {

clockid_t clock_id = CLOCK_MONOTONIC;

double now() {
  return clock_seconds(clock_id);
}

constexpr int kRounds = 100'000;
constexpr int kTileRounds = 10'000;
constexpr int kChains = 12;  // as many as hide the latency of an instruction on two ports

// Results that nobody needs, kept so that the compiler computes them.
volatile double sink;

__attribute__((target("avx512f"))) void keep(__m512i value) {
  alignas(64) int lanes[16];
  _mm512_store_si512(lanes, value);
  sink = lanes[0];
}

__attribute__((target("avx512f"))) void f32_avx512() {
  __m512 acc[kChains];
  for (auto& a : acc) a = _mm512_set1_ps(1.0F);
  const __m512 x = _mm512_set1_ps(0.999F);
  for (int i = 0; i < kRounds; ++i) {
#pragma GCC unroll 12
    for (auto& a : acc) a = _mm512_fmadd_ps(a, x, x);
  }
  __m512 sum = acc[0];
  for (int c = 1; c < kChains; ++c) sum = _mm512_add_ps(sum, acc[c]);
  sink = _mm512_cvtss_f32(sum);
}

__attribute__((target("avx2,fma"))) void f32_avx2() {
  __m256 acc[kChains];
  for (auto& a : acc) a = _mm256_set1_ps(1.0F);
  const __m256 x = _mm256_set1_ps(0.999F);
  for (int i = 0; i < kRounds; ++i) {
#pragma GCC unroll 12
    for (auto& a : acc) a = _mm256_fmadd_ps(a, x, x);
  }
  __m256 sum = acc[0];
  for (int c = 1; c < kChains; ++c) sum = _mm256_add_ps(sum, acc[c]);
  sink = _mm256_cvtss_f32(sum);
}

__attribute__((target("avx512f,avx512bf16"))) void bf16_avx512() {
  __m512 acc[kChains];
  for (auto& a : acc) a = _mm512_set1_ps(1.0F);
  const __m512bh x = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.25F), _mm512_set1_ps(0.5F));
  for (int i = 0; i < kRounds; ++i) {
#pragma GCC unroll 12
    for (auto& a : acc) a = _mm512_dpbf16_ps(a, x, x);
  }
  __m512 sum = acc[0];
  for (int c = 1; c < kChains; ++c) sum = _mm512_add_ps(sum, acc[c]);
  sink = _mm512_cvtss_f32(sum);
}

__attribute__((target("avx512f,avx512vnni"))) void int8_avx512() {
  __m512i acc[kChains];
  for (auto& a : acc) a = _mm512_set1_epi32(1);
  __m512i x = _mm512_set1_epi32(static_cast<int>(0x01020304U));
  for (int i = 0; i < kRounds; ++i) {
#pragma GCC unroll 12
    for (auto& a : acc) a = _mm512_dpbusd_epi32(a, x, x);
  }
  __m512i sum = acc[0];
  for (int c = 1; c < kChains; ++c) sum = _mm512_add_epi32(sum, acc[c]);
  keep(sum);
}

__attribute__((target("avx2,avxvnni"))) void int8_avx2() {
  __m256i acc[kChains];
  for (auto& a : acc) a = _mm256_set1_epi32(1);
  const __m256i x = _mm256_set1_epi32(static_cast<int>(0x01020304U));
  for (int i = 0; i < kRounds; ++i) {
#pragma GCC unroll 12
    for (auto& a : acc) a = _mm256_dpbusd_avx_epi32(a, x, x);
  }
  __m256i sum = acc[0];
  for (int c = 1; c < kChains; ++c) sum = _mm256_add_epi32(sum, acc[c]);
  sink = _mm_cvtsi128_si32(_mm256_castsi256_si128(sum));
}

// Products of bf16 tiles that are in registers, four sums by turns.
void bf16_tiles() {
  struct alignas(64) Shapes {
    std::uint8_t palette = 1, start_row = 0, reserved[14]{};
    std::uint16_t row_bytes[16]{64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16]{16, 16, 16, 16, 16, 16, 16, 16};
  };
  const Shapes shapes;
  alignas(64) std::uint16_t values[16][32];
  for (int i = 0; i < 512; ++i) values[i / 32][i % 32] = static_cast<std::uint16_t>(0x3C00 + 37 * i % 0x200);
  const std::size_t stride = 64;
  asm volatile("ldtilecfg %0" : : "m"(shapes));
  asm volatile(
      "tilezero %%tmm0; tilezero %%tmm1; tilezero %%tmm2; tilezero %%tmm3;"
      "tileloadd (%0,%1,1), %%tmm4; tileloadd (%0,%1,1), %%tmm5"
      :
      : "r"(values), "r"(stride)
      : "memory");
  for (int i = 0; i < kTileRounds; ++i) {
    asm volatile(
        "tdpbf16ps %tmm5, %tmm4, %tmm0; tdpbf16ps %tmm5, %tmm4, %tmm1;"
        "tdpbf16ps %tmm5, %tmm4, %tmm2; tdpbf16ps %tmm5, %tmm4, %tmm3");
  }
  asm volatile("tilerelease");
}

// Eight sums, so that enough loads are under way at once.
__attribute__((target("avx512f"))) void read_avx512(const std::byte* from, std::size_t bytes) {
  __m512i sums[8] = {};
  for (std::size_t i = 0; i + 512 <= bytes; i += 512) {
#pragma GCC unroll 8
    for (std::size_t j = 0; j < 8; ++j) sums[j] = _mm512_xor_si512(sums[j], _mm512_load_si512(from + i + 64 * j));
  }
  for (int j = 1; j < 8; ++j) sums[0] = _mm512_xor_si512(sums[0], sums[j]);
  keep(sums[0]);
}

__attribute__((target("avx2"))) void read_avx2(const std::byte* from, std::size_t bytes) {
  __m256i sums[8] = {};
  for (std::size_t i = 0; i + 256 <= bytes; i += 256) {
#pragma GCC unroll 8
    for (std::size_t j = 0; j < 8; ++j) {
      sums[j] = _mm256_xor_si256(sums[j], _mm256_load_si256(reinterpret_cast<const __m256i*>(from + i + 32 * j)));
    }
  }
  for (int j = 1; j < 8; ++j) sums[0] = _mm256_xor_si256(sums[0], sums[j]);
  sink = _mm_cvtsi128_si32(_mm256_castsi256_si128(sums[0]));
}

void read_plain(const std::byte* from, std::size_t bytes) {
  __m128i sums[8] = {};
  for (std::size_t i = 0; i + 128 <= bytes; i += 128) {
    for (std::size_t j = 0; j < 8; ++j) {
      sums[j] = _mm_xor_si128(sums[j], _mm_load_si128(reinterpret_cast<const __m128i*>(from + i + 16 * j)));
    }
  }
  for (int j = 1; j < 8; ++j) sums[0] = _mm_xor_si128(sums[0], sums[j]);
  sink = _mm_cvtsi128_si32(sums[0]);
}

void read_all(const std::byte* from, std::size_t bytes) {
  if (cpu_features().has(CpuFeature::kAvx512)) return read_avx512(from, bytes);
  cpu_features().has(CpuFeature::kAvx2) ? read_avx2(from, bytes) : read_plain(from, bytes);
}

// 1e9 operations a second of `loop`, which has so many, on all threads.
double rate_of(ThreadPool& pool, double operations, void (*loop)()) {
  constexpr double kBudget = 0.02;
  const double seconds = median_seconds(kBudget, [&] { pool.run(pool.threads(), [&](int, int) { loop(); }); });
  return operations * pool.threads() / seconds * 1e-9;
}
// The same of a loop each of whose instructions is so many.
double rate(ThreadPool& pool, double operations_an_instruction, void (*loop)()) {
  return rate_of(pool, operations_an_instruction * kChains * kRounds, loop);
}

double relative(double a, double b) {
  return a == b ? 0 : std::max(a, b) / std::min(a, b) - 1;
}

}  // namespace

void measure_with(TimeKind kind) {
  clock_id = kind == TimeKind::kWall ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID;
}

double seconds_of(const std::function<void()>& call) {
  const double begin = now();
  call();
  return now() - begin;
}

double median_seconds(double budget, const std::function<void()>& call) {
  call();
  std::vector<double> times;
  const double start = now();
  do {
    times.push_back(seconds_of(call));
  } while (now() - start < budget || times.size() < 5);
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

double MachineSpeed::peak(InputForm inputs) const {
  switch (inputs) {
    case InputForm::kF32:
      return f32_gflops;
    case InputForm::kBf16:
    case InputForm::kFp8:  // exact in bf16
    case InputForm::kFp8Blocks:
      return std::max(f32_gflops, bf16_gflops);
    case InputForm::kInt8:
      return int8_gops > 0 ? int8_gops : f32_gflops;
    case InputForm::kTiles:
      return std::max(f32_gflops, tiles_gflops);
  }
  return f32_gflops;
}

double MachineSpeed::difference(const MachineSpeed& other) const {
  return std::max({relative(read_gbytes, other.read_gbytes), relative(f32_gflops, other.f32_gflops),
                   relative(bf16_gflops, other.bf16_gflops), relative(int8_gops, other.int8_gops),
                   relative(tiles_gflops, other.tiles_gflops)});
}

MachineSpeed mean(const MachineSpeed& a, const MachineSpeed& b) {
  return {(a.read_gbytes + b.read_gbytes) / 2,   (a.f32_gflops + b.f32_gflops) / 2,
          (a.bf16_gflops + b.bf16_gflops) / 2,   (a.int8_gops + b.int8_gops) / 2,
          (a.tiles_gflops + b.tiles_gflops) / 2, std::max(a.thread_ratio, b.thread_ratio)};
}

MachineSpeed median(const std::vector<MachineSpeed>& speeds) {
  const auto of = [&](double MachineSpeed::* part) {
    std::vector<double> values;
    for (const MachineSpeed& speed : speeds) values.push_back(speed.*part);
    std::sort(values.begin(), values.end());
    return values.empty() ? 0.0 : values[values.size() / 2];
  };
  return {of(&MachineSpeed::read_gbytes), of(&MachineSpeed::f32_gflops),   of(&MachineSpeed::bf16_gflops),
          of(&MachineSpeed::int8_gops),   of(&MachineSpeed::tiles_gflops), of(&MachineSpeed::thread_ratio)};
}

MachineProbe::MachineProbe(ThreadPool* pool, std::size_t bytes_per_thread)
    : pool_(pool), bytes_per_thread_(std::max(bytes_per_thread, std::size_t{64} << 10) / 4096 * 4096) {
  for (int t = 0; t < pool->threads(); ++t) memory_.emplace_back(bytes_per_thread_);
  // Touched by the thread that reads it, as far as the pool gives each thread one.
  pool->run(pool->threads(), [&](int i, int) {
    std::byte* data = memory_[static_cast<std::size_t>(i)].data();
    const auto huge = (reinterpret_cast<std::uintptr_t>(data) + 4095) / 4096 * 4096;
    madvise(reinterpret_cast<void*>(huge), bytes_per_thread_ - 4096, MADV_HUGEPAGE);
    std::memset(data, 1, bytes_per_thread_);
  });
}

double MachineProbe::read_gbytes() const {
  constexpr double kBudget = 0.1;
  const double seconds = median_seconds(kBudget, [&] {
    pool_->run(pool_->threads(),
               [&](int i, int) { read_all(memory_[static_cast<std::size_t>(i)].data(), bytes_per_thread_); });
  });
  return static_cast<double>(bytes_per_thread_) * pool_->threads() / seconds * 1e-9;
}

double MachineProbe::f32_gflops() const {
  if (cpu_features().has(CpuFeature::kAvx512)) return rate(*pool_, 32, &f32_avx512);
  return cpu_features().has(CpuFeature::kAvx2) ? rate(*pool_, 16, &f32_avx2) : 0;
}

double MachineProbe::thread_ratio() const {
  constexpr int kLoopsPerThread =
      64;  // some milliseconds, so that a thread that was stopped for a moment is no slow one
  const auto threads = static_cast<std::size_t>(pool_->threads());
  if (threads == 1 || !cpu_features().has(CpuFeature::kAvx2)) return 1;
  struct alignas(64) OfThread {
    double seconds = 0, loops = 0;
  };
  std::vector<OfThread> of(threads);
  pool_->run(kLoopsPerThread * pool_->threads(), [&](int, int thread) {
    OfThread& mine = of[static_cast<std::size_t>(thread)];
    mine.seconds += seconds_of(&f32_avx2);
    ++mine.loops;
  });
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (const OfThread& thread : of) {
    if (thread.loops == 0) continue;
    least = std::min(least, thread.seconds / thread.loops);
    most = std::max(most, thread.seconds / thread.loops);
  }
  return most / least;
}

double MachineProbe::bf16_gflops() const {
  return cpu_features().has(CpuFeature::kBf16Dot) ? rate(*pool_, 64, &bf16_avx512) : 0;
}

double MachineProbe::int8_gops() const {
  if (cpu_features().has(CpuFeature::kVnni)) return rate(*pool_, 128, &int8_avx512);
  return cpu_features().has(CpuFeature::kAvxVnni) ? rate(*pool_, 64, &int8_avx2) : 0;
}

double MachineProbe::tiles_gflops() const {
  constexpr double kOfProduct = 2.0 * 16 * 16 * 32;
  return cpu_features().has(CpuFeature::kAmxBf16) ? rate_of(*pool_, 4 * kOfProduct * kTileRounds, &bf16_tiles) : 0;
}

MachineSpeed MachineProbe::measure() const {
  return {read_gbytes(), f32_gflops(), bf16_gflops(), int8_gops(), tiles_gflops(), thread_ratio()};
}

Result<DeviceProbe> DeviceProbe::make(Device* device, std::size_t bytes) {
  if (const std::size_t free = device->free_bytes(); free > 0) bytes = std::min(bytes, free / 2);
  SLUICE_ASSIGN_OR_RETURN(DeviceMemory memory, device->map(bytes / 512 * 512, "memory to measure its speed"));
  return DeviceProbe(device, std::move(memory));
}

MachineSpeed DeviceProbe::measure() const {
  constexpr double kBudget = 0.05;
  constexpr int kCopies = 8;  // so that starting them does not count
  const std::size_t half = memory_.size() / 2;
  const double seconds = median_seconds(kBudget, [&] {
    for (int i = 0; i < kCopies; ++i) device_->copy({memory_.data() + half, memory_.data(), half});
    device_->wait();
  });
  return {.read_gbytes = 2.0 * kCopies * static_cast<double>(half) / seconds * 1e-9};
}

std::size_t probe_bytes_per_thread(int threads) {
  constexpr std::size_t kWanted = 1'000'000'000;
  std::size_t available = usable_memory();
  std::ifstream file("/proc/meminfo");
  std::size_t kilobytes = 0;
  for (std::string key; file >> key; file.ignore(64, '\n')) {
    if (key == "MemAvailable:" && file >> kilobytes) available = std::min(available, kilobytes << 10);
  }
  return std::min(kWanted, available / 8 / static_cast<std::size_t>(threads));
}

}  // namespace sluice
