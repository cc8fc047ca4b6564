// Measures the machine's peak speeds, at the same time as the benchmarks that run on it: percentages refer to these
// figures. Each is for all threads of the pool together.
//
//   read bandwidth  every thread streams through memory of its own, far larger than the caches, by loads of 64 bytes
//   f32, bf16 dot, int8, tiles: the loops of kernels/device/bare_loops.h, of instructions that the running kernels may
//   use
// A GPU has only its memory measured: bytes that copies within it read and write. Thread safety: one thread at a time.
// Used by bench, cli/bench and src/bench.
#pragma once

#include <boost/json/object.hpp>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "base/aligned.h"
#include "base/threads/thread_pool.h"
#include "kernels/device/bare_loops.h"
#include "kernels/device/device.h"
#include "kernels/ops/linear.h"

namespace sluice {

// The time of one call, in seconds. Processor time counts the calling thread alone: for one thread on a machine that is
// busy with other work.
enum class TimeKind { kWall, kProcessor };
void measure_with(TimeKind kind);
double seconds_of(const std::function<void()>& call);

// The median time of one call, in seconds: repeated for about `budget` seconds after a warm-up call.
double median_seconds(double budget, const std::function<void()>& call);

// Threads that differ by more are uneven: work that waits for all of them waits for the slowest.
inline constexpr double kEvenThreads = 1.3;

// In 1e9 per second; 0 if the machine has no such instruction, or it was not measured.
struct MachineSpeed {
  double read_gbytes = 0, f32_gflops = 0, bf16_gflops = 0, int8_gops = 0, tiles_gflops = 0;
  double thread_ratio = 1;  // the slowest thread's time for the same f32 loop / the fastest one's

  // The peak of the fastest instruction that gives the bits of products with such inputs (docs/dev/numerics.md).
  double peak(InputForm inputs) const;
  bool uneven() const { return thread_ratio > kEvenThreads; }
  // The largest relative difference of two measurements, 0.1 for 100 and 110.
  double difference(const MachineSpeed& other) const;
};
MachineSpeed mean(const MachineSpeed& a, const MachineSpeed& b);
MachineSpeed median(const std::vector<MachineSpeed>& speeds);

class MachineProbe {
 public:
  // Reserves `bytes_per_thread` for each thread, at least 64 KiB. `pool` must outlive it. `features` are some of this
  // machine's.
  MachineProbe(ThreadPool* pool, std::size_t bytes_per_thread, CpuFeatures features = cpu_features());

  std::size_t bytes_per_thread() const { return bytes_per_thread_; }
  double read_gbytes() const;
  double peak(BareKind kind) const;  // 1e9 operations a second
  double thread_ratio() const;
  MachineSpeed measure() const;

 private:
  ThreadPool* pool_;
  std::size_t bytes_per_thread_;
  CpuFeatures features_;
  std::vector<AlignedBytes> memory_;  // by thread
};

// A probe of the same form for a device with memory of its own, by copies of `bytes` bytes, or fewer if it cannot spare
// as many.
class DeviceProbe {
 public:
  static Result<DeviceProbe> make(Device* device, std::size_t bytes = std::size_t{1} << 30);

  MachineSpeed measure() const;

 private:
  DeviceProbe(Device* device, DeviceMemory memory) : device_(device), memory_(std::move(memory)) {}

  Device* device_;
  DeviceMemory memory_;  // copied from one half to the other
};

// 1 GB per thread, or less so that all take at most an eighth of the free memory.
std::size_t probe_bytes_per_thread(int threads);

// Fingerprint: the machine on which something was measured, without anything that identifies it.

struct Fingerprint {
  std::string cpu;                    // "AMD EPYC", as the system calls it
  int cores = 0;                      // cores that this process may use
  std::size_t memory_bytes = 0;       // likewise
  std::vector<std::string> features;  // features that kernels may use: "avx512_vnni"
  std::string date;                   // UTC, "2026-11-21T22:13:45Z"
};

Fingerprint take_fingerprint();
boost::json::object to_json(const Fingerprint& fingerprint);

}  // namespace sluice
