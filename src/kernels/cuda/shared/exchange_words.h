// Reads, writes and waits of kernels that exchange values with other ranks (kernels/cuda/exchange_view.h).
// Used by shared_all_gather.cu.
#pragma once

#include "kernels/cuda/exchange_view.h"
#include "kernels/cuda/launch.h"

#ifndef __CUDACC__
#include <atomic>
#include <chrono>
#include <thread>
#endif

namespace sluice::SLUICE_CUDA_OPS {

// kWords words that are moved at once.
template <int kWords>
struct alignas(4 * kWords) Words {
  std::uint32_t words[kWords];
};

#ifdef __CUDACC__

// Stores words and their epochs. Each half (a word and its epoch) arrives as a whole; the halves arrive in any order.
SLUICE_DEVICE void store_packet(std::byte* to, const Words<2>& data, std::uint32_t epoch) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %2};" ::"l"(to), "r"(data.words[0]), "r"(epoch),
               "r"(data.words[1])
               : "memory");
}
// Returns whether both halves have the epoch.
SLUICE_DEVICE bool load_packet(const std::byte* from, std::uint32_t epoch, Words<2>& data) {
  std::uint32_t first = 0, second = 0;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(data.words[0]), "=r"(first), "=r"(data.words[1]), "=r"(second)
               : "l"(from)
               : "memory");
  return first == epoch && second == epoch;
}
// Loads words that other ranks wrote, never from a cache of this multiprocessor.
SLUICE_DEVICE Words<4> load_received(const std::byte* from) {
  Words<4> data;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(data.words[0]), "=r"(data.words[1]), "=r"(data.words[2]), "=r"(data.words[3])
               : "l"(from)
               : "memory");
  return data;
}
SLUICE_DEVICE std::uint32_t load_count(const std::uint32_t* from) {
  return *static_cast<const volatile std::uint32_t*>(from);
}
SLUICE_DEVICE void store_count(std::uint32_t* to, std::uint32_t value) {
  *static_cast<volatile std::uint32_t*>(to) = value;
}
// Stores a flag after all that the team's threads wrote before they met.
SLUICE_DEVICE void store_flag(std::byte* to, std::uint32_t value) {
  __threadfence_system();
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}
SLUICE_DEVICE std::uint32_t load_flag(const std::byte* from) {
  std::uint32_t value = 0;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}
SLUICE_DEVICE std::uint64_t load_fault(const std::uint64_t* from) {
  return *static_cast<const volatile std::uint64_t*>(from);
}
SLUICE_DEVICE void store_fault(std::uint64_t* to, std::uint64_t word) {
  *static_cast<volatile std::uint64_t*>(to) = word;
}
SLUICE_DEVICE std::uint64_t nanoseconds() {
  std::uint64_t ns = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}
SLUICE_DEVICE void rest() {}
// Polls before the first check of the fault, and between two checks. The first comes soon, so that kernels that follow
// one that gave up end at once. Words that come in time pay for no check, as the fault lies across the bus.
inline constexpr unsigned kFirstLook = 16, kLooks = 64;
// The next kernel may start early, unless it could keep another rank's kernels from a GPU that both have.
SLUICE_DEVICE void begin_exchange(const ExchangeView& ranks) {
  wait_for_kernels();
  if (!ranks.shares_gpu) let_next_kernel_start();
}

#else

inline std::uint64_t half_of(std::uint32_t word, std::uint32_t epoch) {
  return std::uint64_t{epoch} << 32 | word;
}
inline void store_packet(std::byte* to, const Words<2>& data, std::uint32_t epoch) {
  auto* halves = reinterpret_cast<std::uint64_t*>(to);
  for (int i = 1; i >= 0; --i) std::atomic_ref(halves[i]).store(half_of(data.words[i], epoch));
}
inline bool load_packet(const std::byte* from, std::uint32_t epoch, Words<2>& data) {
  auto* halves = reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(from));
  bool arrived = true;
  for (int i = 0; i < 2; ++i) {
    const std::uint64_t half = std::atomic_ref(halves[i]).load();
    data.words[i] = static_cast<std::uint32_t>(half);
    arrived = arrived && half >> 32 == epoch;
  }
  return arrived;
}
inline Words<4> load_received(const std::byte* from) {
  return *reinterpret_cast<const Words<4>*>(from);
}
inline std::uint32_t load_count(const std::uint32_t* from) {
  return *from;
}
inline void store_count(std::uint32_t* to, std::uint32_t value) {
  *to = value;
}
inline void store_flag(std::byte* to, std::uint32_t value) {
  std::atomic_ref(*reinterpret_cast<std::uint32_t*>(to)).store(value, std::memory_order_release);
}
inline std::uint32_t load_flag(const std::byte* from) {
  return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(const_cast<std::byte*>(from)))
      .load(std::memory_order_acquire);
}
inline std::uint64_t load_fault(const std::uint64_t* from) {
  return std::atomic_ref(*const_cast<std::uint64_t*>(from)).load();
}
inline void store_fault(std::uint64_t* to, std::uint64_t word) {
  std::atomic_ref(*to).store(word);
}
inline std::uint64_t nanoseconds() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}
inline void rest() {
  std::this_thread::yield();
}
inline constexpr unsigned kFirstLook = 0, kLooks = 1;
inline void begin_exchange(const ExchangeView&) {}

#endif

// Waits until arrived(), for words that `sender` writes. Returns false once the group has ended, which this may do
// itself, at the limit. The fault lies across the bus, where reads by thousands of threads at once take longer than an
// exchange. So each thread reads it once in a millisecond, and notes a fault where its own GPU's threads see it sooner,
// also those of the kernels that follow.
template <class Arrived>
SLUICE_DEVICE bool wait_for_rank(const ExchangeView& ranks, int sender, const Arrived& arrived) {
  constexpr unsigned kPolls = 16;
  constexpr std::uint64_t kLookNs = 1'000'000;
  std::uint32_t* const ended = ranks.counts + kExchangeEnded;
  std::uint64_t begin = 0, looked = 0;
  for (unsigned polls = 1;; ++polls) {
    if (arrived()) return true;
    rest();
    if (polls % kPolls != 0) continue;
    if (load_count(ended) != 0) return false;
    const std::uint64_t now = nanoseconds();
    if (begin == 0) begin = looked = now;
    if (now - looked < kLookNs) continue;
    looked = now;
    if (load_fault(ranks.fault) == 0) {
      if (now - begin <= ranks.limit_ns) continue;
      store_fault(ranks.fault, fault_word({ranks.rank, sender, load_count(ranks.counts + kBulkBlocks) + 1}));
    }
    store_count(ended, 1);
    return false;
  }
}

}  // namespace sluice::SLUICE_CUDA_OPS
