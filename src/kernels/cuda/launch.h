// launch(): a kernel over teams of threads, on a GPU or, compiled by a C++ compiler, on the CPU, where tests run whole
// grids of the same sources.
//
// A kernel is a struct of plain values, its arguments, with the number of threads of a team and a call operator:
//
//   struct ScaleRows {
//     static constexpr int kThreads = 16;
//     const float* x;
//     float* y;
//     SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
//       PerThread<float, kThreads> sum;
//       team.each([&](int t) { sum[t] = x[team.index * 16 + t]; });
//       tree_sum16(team, sum);
//       team.each([&](int t) { y[team.index * 16 + t] = sum[t]; });
//     }
//   };
//   launch(exec, teams, ScaleRows{x, y});
//
// Outside of each() all threads of a team do the same: control flow there depends only on arguments and team.index, or
// on results of broadcast(). Inside, a thread knows its number t and its own elements of PerThread values. Threads
// communicate by tree_sum16() and max16(), or through memory with sync() between writing and reading. Teams are
// independent of each other; the emulation runs them last to first.
//
// On GPUs of compute capability 9.0 or later a kernel starts while the one before it still runs, as soon as all blocks
// of that have started. Before its teams begin it waits until that one has ended. So starting takes no time of its own.
// Nothing else changes, for these reasons:
//   - Each block waits, so a kernel that has ended says that all kernels before it have, and what they wrote is seen.
//   - A kernel with kWaits waits itself, in each team (wait_for_kernels()). Before that it reads nothing but weights
//     and a step's tables, and, if the kernel before it has kStartsNext, results of kernels before that one (which lets
//     others start only when it has waited itself). No kernel of launch() writes those. Uploads, copies and fills do,
//     and are ordered before the first kernel that follows, which starts as usual, and so before all later ones.
//   - A kernel of launch_beside() has nothing to do with the one before it: neither reads or writes what the other
//     writes. If that one has kStartsNext, all kernels before it have ended when this one starts. So it works at the
//     same time, and waits for that one's end when its own work is done: its end says the same as any other's.
//   - Work that is not such a kernel starts when all work before it in the stream has ended, as ever.
// On other GPUs, and in code that was compiled for less, each kernel starts when the one before it has ended.
//
// Teams of 1 to 32 threads share a block of 128 (those of one thread: 256); larger ones are blocks of their own.
// Compiled with nvcc's --expt-relaxed-constexpr -fmad=false -ftz=true -prec-div=true -prec-sqrt=true.
//
// Errors of a launch are left in the runtime, where the next call that waits for the device reads them.
// Used by kernels/cuda/runtime, kernels/cuda/shared and kernels/cuda/sm90.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "kernels/cuda/kernel_launch.h"
#include "kernels/device/exec.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>
#define SLUICE_DEVICE __device__ __forceinline__
#define SLUICE_CUDA_OPS cuda_ops
#define SLUICE_UNROLL _Pragma("unroll")
#define SLUICE_UNROLL_8 _Pragma("unroll 8")
#define SLUICE_UNROLL_4 _Pragma("unroll 4")
#define SLUICE_ROLLED _Pragma("unroll 1")
#else
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/aligned.h"
#include "base/threads/thread_pool.h"
#define SLUICE_DEVICE
#define SLUICE_CUDA_OPS cuda_emulated_ops
#define SLUICE_UNROLL
#define SLUICE_UNROLL_8
#define SLUICE_UNROLL_4
#define SLUICE_ROLLED
#endif

namespace sluice {

// The memory of exec.device (kernels/cuda/device.h) for data that the kernels of one op hand to each other:
// kCudaWorkspaceBytes, aligned to 256.
inline constexpr std::size_t kCudaWorkspaceBytes = std::size_t{64} << 20;
std::byte* cuda_workspace(const Exec& exec);
std::size_t cuda_workspace_bytes(const Exec& exec);  // kCudaWorkspaceBytes at least
// Returns the device's multiprocessors. A kernel cuts its work into about as many teams; no result may depend on that.
int cuda_processors(const Exec& exec);
// Enqueues a kernel, or keeps it until the device enqueues all of a batch (Device::begin_batch()).
void cuda_enqueue(const Exec& exec, const KernelLaunch& launch);
// True if the kernel enqueued next starts early, after one with kStartsNext.
bool cuda_starts_beside(const Exec& exec);

namespace SLUICE_CUDA_OPS {

#ifdef __CUDACC__

// One value of each thread of a team.
template <class T, int kThreads>
struct PerThread {
  T value;
  SLUICE_DEVICE T& operator[](int) { return value; }
  SLUICE_DEVICE const T& operator[](int) const { return value; }
};

template <int kThreads>
struct Team {
  int index;
  std::byte* shared;  // the team's, aligned to 16

  template <class Body>
  SLUICE_DEVICE void each(const Body& body) const {
    body(static_cast<int>(threadIdx.x) % kThreads);
  }
  // All threads of the team see after it what a thread wrote to memory before it.
  SLUICE_DEVICE void sync() const {
    if constexpr (kThreads > 32) {
      __syncthreads();
    } else if constexpr (kThreads > 1) {
      __syncwarp(mask());
    }
  }
  // The mask of the team's threads in the warp, or of sixteen if the team is larger than a warp.
  static SLUICE_DEVICE unsigned mask() {
    if constexpr (kThreads == 32) return 0xFFFFFFFFU;
    return 0xFFFFU << (threadIdx.x & 16U);
  }
};

// In each sixteen consecutive threads, all get the tree sum of lanes16 (kernels/device/exec.h).
template <int kThreads>
SLUICE_DEVICE void tree_sum16(const Team<kThreads>&, PerThread<float, kThreads>& lanes) {
  static_assert(kThreads % 16 == 0);
  for (int half = 8; half > 0; half /= 2) {
    lanes.value += __shfl_xor_sync(Team<kThreads>::mask(), lanes.value, half, 16);
  }
}

// In each sixteen consecutive threads, all get the largest of their values, none of them NaN.
template <int kThreads>
SLUICE_DEVICE void max16(const Team<kThreads>&, PerThread<float, kThreads>& lanes) {
  static_assert(kThreads % 16 == 0);
  for (int half = 8; half > 0; half /= 2) {
    const float other = __shfl_xor_sync(Team<kThreads>::mask(), lanes.value, half, 16);
    lanes.value = other > lanes.value ? other : lanes.value;
  }
}

template <class Kernel>
inline constexpr int kBlockThreads = Kernel::kThreads > 32   ? Kernel::kThreads
                                     : Kernel::kThreads == 1 ? 256
                                                             : 128;

// Blocks that a multiprocessor holds at once, if a kernel asks for some.
template <class Kernel>
consteval int resident_blocks() {
  if constexpr (requires { Kernel::kResident; }) return Kernel::kResident;
  return 1;
}

// True if a kernel calls wait_for_kernels() itself.
template <class Kernel>
consteval bool waits_itself() {
  if constexpr (requires { Kernel::kWaits; }) return Kernel::kWaits;
  return false;
}

// True if a kernel calls let_next_kernel_start() itself, after wait_for_kernels(): the next kernel may then read,
// before its own wait, what the kernels before this one wrote.
template <class Kernel>
consteval bool starts_next_itself() {
  if constexpr (requires { Kernel::kStartsNext; }) return Kernel::kStartsNext;
  return false;
}

// Waits until all kernels before have ended and their writes are seen.
SLUICE_DEVICE void wait_for_kernels() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
SLUICE_DEVICE void let_next_kernel_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// kBeside: the kernel waits for those before it only when its own work is done.
template <class Kernel, bool kBeside>
__global__ void __launch_bounds__(kBlockThreads<Kernel>, resident_blocks<Kernel>())
    run_teams(const __grid_constant__ Kernel kernel, int teams, int shared_bytes) {
  extern __shared__ __align__(16) std::byte shared[];
  if constexpr (!starts_next_itself<Kernel>()) let_next_kernel_start();
  if constexpr (!waits_itself<Kernel>() && !kBeside) wait_for_kernels();
  constexpr int kTeams = kBlockThreads<Kernel> / Kernel::kThreads;
  // Written so that the compiler sees that these values are the same for all threads of a block.
  const int of_block = kTeams == 1 ? 0 : static_cast<int>(threadIdx.x) / Kernel::kThreads;
  const int index = static_cast<int>(blockIdx.x) * kTeams + of_block;
  if (kTeams == 1 || index < teams) kernel(Team<Kernel::kThreads>{index, shared + of_block * shared_bytes});
  if constexpr (kBeside) wait_for_kernels();
}

// The runtime's facts and settings of a kernel on a device, asked and set once.
struct KernelState {
  int device = -1;
  std::size_t shared_bytes = 0;  // bytes of shared memory that it may use
  bool waits = false;            // the compiled code calls wait_for_kernels()
};

// The state on the current device. Errors as for launch().
template <class Kernel, bool kBeside>
const KernelState& kernel_state(std::size_t shared_bytes) {
  constexpr std::size_t kWithoutAsking = std::size_t{48} << 10;
  constexpr auto kFunction = run_teams<Kernel, kBeside>;
  thread_local KernelState state;
  int device = 0;
  cudaGetDevice(&device);
  if (device != state.device) {
    cudaFuncAttributes attributes{};
    if (cudaFuncGetAttributes(&attributes, kFunction) != cudaSuccess) attributes.ptxVersion = 0;
    state = {device, kWithoutAsking, attributes.ptxVersion >= 90};
  }
  if (shared_bytes > state.shared_bytes) {
    cudaFuncSetAttribute(kFunction, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
    state.shared_bytes = shared_bytes;
  }
  return state;
}

// Enqueues `teams` teams of a kernel. `cluster`: this many consecutive teams, which are blocks, see each other's shared
// memory; compute capability 9.0.
template <class Kernel, bool kBeside = false>
void launch(const Exec& exec, std::int64_t teams, const Kernel& kernel, std::size_t shared_bytes = 0, int cluster = 1) {
  constexpr int kTeams = kBlockThreads<Kernel> / Kernel::kThreads;
  if (teams <= 0) return;
  SLUICE_CHECK(cluster == 1 || (kTeams == 1 && teams % cluster == 0), "whole clusters of blocks");
  SLUICE_CHECK(teams <= INT32_MAX, "as many teams as an index can tell apart");
  const std::size_t team_bytes = (shared_bytes + 15) / 16 * 16, block_bytes = team_bytes * kTeams;
  const bool waits = kernel_state<Kernel, kBeside>(block_bytes).waits;
  cuda_enqueue(exec, {.function = reinterpret_cast<const void*>(run_teams<Kernel, kBeside>),
                      .blocks = static_cast<unsigned>((teams + kTeams - 1) / kTeams),
                      .threads = kBlockThreads<Kernel>,
                      .cluster = static_cast<unsigned>(cluster),
                      .shared_bytes = block_bytes,
                      .waits = waits,
                      .starts_next = waits && starts_next_itself<Kernel>(),
                      .kernel = &kernel,
                      .kernel_bytes = sizeof kernel,
                      .teams = static_cast<int>(teams),
                      .team_shared_bytes = static_cast<int>(team_bytes)});
}

// Enqueues a kernel that has nothing to do with the one enqueued last. It neither waits itself nor lets the next one
// start.
template <class Kernel>
void launch_beside(const Exec& exec, std::int64_t teams, const Kernel& kernel, std::size_t shared_bytes = 0) {
  static_assert(!waits_itself<Kernel>() && !starts_next_itself<Kernel>());
  if (cuda_starts_beside(exec)) {
    launch<Kernel, true>(exec, teams, kernel, shared_bytes);
  } else {
    launch(exec, teams, kernel, shared_bytes);
  }
}

// The bytes of the workspace; an op must cut its work so that they suffice. The contents are unspecified.
inline std::size_t workspace_bytes(const Exec& exec) {
  return cuda_workspace_bytes(exec);
}
inline std::byte* workspace(const Exec& exec, std::size_t bytes) {
  SLUICE_CHECK(bytes <= workspace_bytes(exec), "an op cuts its work so that the workspace is enough");
  return cuda_workspace(exec);
}

inline int processors(const Exec& exec) {
  return cuda_processors(exec);
}

// Copies 16 bytes of global memory to shared memory, both aligned to 16, while the thread goes on: only it sees them,
// once wait_copies() says so. A thread's copies are counted in groups, each ended by commit_copies().
SLUICE_DEVICE void copy_16(void* shared, const void* from) {
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))),
      "l"(from)
      : "memory");
}
// Copies 16 bytes, or writes 16 zeros.
SLUICE_DEVICE void copy_16_or_zeros(void* shared, const void* from, bool copy) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                   static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))),
               "l"(from), "r"(copy ? 16 : 0)
               : "memory");
}
// Copies 4 bytes as copy_16() does; both addresses are aligned to 4.
SLUICE_DEVICE void copy_4(void* shared, const void* from) {
  asm volatile(
      "cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))),
      "l"(from)
      : "memory");
}
SLUICE_DEVICE void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Waits until all groups but the last kLeft have arrived.
template <int kLeft>
SLUICE_DEVICE void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

// Adds to an integer in memory; returns its previous value.
SLUICE_DEVICE std::int32_t add_atomically(std::int32_t* to, std::int32_t value) {
  return atomicAdd(to, value);
}
SLUICE_DEVICE void add_atomically(std::uint64_t* to, std::uint64_t value) {
  atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));
}

#else

template <class T, int kThreads>
struct PerThread {
  std::array<T, kThreads> values;
  T& operator[](int t) { return values[static_cast<std::size_t>(t)]; }
  const T& operator[](int t) const { return values[static_cast<std::size_t>(t)]; }
};

template <int kThreads>
struct Team {
  int index;
  std::byte* shared;

  template <class Body>
  void each(const Body& body) const {
    for (int t = 0; t < kThreads; ++t) body(t);
  }
  void sync() const {}
};

template <int kThreads>
void tree_sum16(const Team<kThreads>&, PerThread<float, kThreads>& lanes) {
  static_assert(kThreads % 16 == 0);
  for (int first = 0; first < kThreads; first += 16) {
    for (int half = 8; half > 0; half /= 2) {
      for (int l = first; l < first + half; ++l) lanes[l] += lanes[l + half];
    }
    for (int l = first + 1; l < first + 16; ++l) lanes[l] = lanes[first];
  }
}

template <int kThreads>
void max16(const Team<kThreads>&, PerThread<float, kThreads>& lanes) {
  static_assert(kThreads % 16 == 0);
  for (int first = 0; first < kThreads; first += 16) {
    float largest = lanes[first];
    for (int l = first; l < first + 16; ++l) largest = lanes[l] > largest ? lanes[l] : largest;
    for (int l = first; l < first + 16; ++l) lanes[l] = largest;
  }
}

inline void wait_for_kernels() {}

template <class Kernel>
void launch(const Exec&, std::int64_t teams, const Kernel& kernel, std::size_t shared_bytes = 0) {
  const FlushDenormals flush;
  std::vector<std::byte> shared(shared_bytes);
  SLUICE_CHECK(teams <= INT32_MAX, "as many teams as an index can tell apart");
  for (std::int64_t index = teams - 1; index >= 0; --index) {
    std::fill(shared.begin(), shared.end(), std::byte{0xFF});  // NaN shows memory that is read before it is written
    kernel(Team<Kernel::kThreads>{static_cast<int>(index), shared.data()});
  }
}

template <class Kernel>
void launch_beside(const Exec& exec, std::int64_t teams, const Kernel& kernel, std::size_t shared_bytes = 0) {
  launch(exec, teams, kernel, shared_bytes);
}

inline std::byte* workspace(const Exec&, std::size_t bytes) {
  thread_local AlignedBytes memory;
  SLUICE_CHECK(bytes <= kCudaWorkspaceBytes, "an op cuts its work so that the workspace is enough");
  if (memory.size() < bytes) memory = AlignedBytes(bytes);
  std::fill_n(memory.data(), bytes, std::byte{0xFF});
  return memory.data();
}

inline int processors(const Exec&) {
  return 3;
}

inline void copy_16(void* shared, const void* from) {
  std::memcpy(shared, from, 16);
}
inline void copy_4(void* shared, const void* from) {
  std::memcpy(shared, from, 4);
}
inline void commit_copies() {}
template <int kLeft>
void wait_copies() {}

inline std::int32_t add_atomically(std::int32_t* to, std::int32_t value) {
  *to += value;
  return *to - value;
}
inline void add_atomically(std::uint64_t* to, std::uint64_t value) {
  *to += value;
}

#endif

}  // namespace SLUICE_CUDA_OPS
}  // namespace sluice
