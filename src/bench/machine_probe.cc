// Used by bench, cli/bench and src/bench.
#include "bench/machine_probe.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <limits>

#include "base/threads/clocks.h"
#include "base/threads/machine.h"

namespace sluice {

namespace {

clockid_t clock_id = CLOCK_MONOTONIC;

double now() {
  return clock_seconds(clock_id);
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
  return Peaks{.f32 = f32_gflops, .bf16_dot = bf16_gflops, .int8 = int8_gops, .tiles = tiles_gflops}.of(inputs);
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

MachineProbe::MachineProbe(ThreadPool* pool, std::size_t bytes_per_thread, CpuFeatures features)
    : pool_(pool),
      bytes_per_thread_(std::max(bytes_per_thread, std::size_t{64} << 10) / 4096 * 4096),
      features_(features) {
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
               [&](int i, int) { read_lines(memory_[static_cast<std::size_t>(i)].data(), bytes_per_thread_); });
  });
  return static_cast<double>(bytes_per_thread_) * pool_->threads() / seconds * 1e-9;
}

double MachineProbe::peak(BareKind kind) const {
  constexpr double kBudget = 0.02;
  const BareLoop loop = bare_loop(kind, features_);
  if (loop.run == nullptr) return 0;
  const double seconds = median_seconds(kBudget, [&] { pool_->run(pool_->threads(), [&](int, int) { loop.run(); }); });
  return loop.operations * pool_->threads() / seconds * 1e-9;
}

double MachineProbe::thread_ratio() const {
  constexpr int kLoopsPerThread =
      64;  // some milliseconds, so that a thread that was stopped for a moment is no slow one
  const auto threads = static_cast<std::size_t>(pool_->threads());
  const BareLoop loop = bare_loop(BareKind::kF32, features_);
  if (threads == 1 || loop.run == nullptr) return 1;
  struct alignas(64) OfThread {
    double seconds = 0, loops = 0;
  };
  std::vector<OfThread> of(threads);
  pool_->run(kLoopsPerThread * pool_->threads(), [&](int, int thread) {
    OfThread& mine = of[static_cast<std::size_t>(thread)];
    mine.seconds += seconds_of(loop.run);
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

MachineSpeed MachineProbe::measure() const {
  return {read_gbytes(),         peak(BareKind::kF32),   peak(BareKind::kBf16Dot),
          peak(BareKind::kInt8), peak(BareKind::kTiles), thread_ratio()};
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
