// Helpers for the tests of the profile sm90.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "gpu_testing.h"
#include "kernels/cuda/launch.h"

namespace sluice::sm90_testing {

inline __global__ void copy_all(const uint4* from, uint4* to, std::size_t count) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; i + 3 * step < count; i += 4 * step) {
    const uint4 a = from[i], b = from[i + step], c = from[i + 2 * step], d = from[i + 3 * step];
    to[i] = a, to[i + step] = b, to[i + 2 * step] = c, to[i + 3 * step] = d;
  }
  for (; i < count; i += step) to[i] = from[i];
}

inline __global__ void read_all(const uint4* from, std::size_t count, unsigned* sum) {
  unsigned bits = 0;
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    const uint4 value = from[i];
    bits |= value.x | value.y | value.z | value.w;
  }
  if (bits == 1) atomicAdd(sum, bits);
}

inline __global__ void count_cycles(unsigned long long* cycles_and_ns) {
  const auto now = [] {
    unsigned long long ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
    return ns;
  };
  const unsigned long long begin = now();
  const long long first = clock64();
  while (now() - begin < 200'000) {
  }
  cycles_and_ns[0] = static_cast<unsigned long long>(clock64() - first), cycles_and_ns[1] = now() - begin;
}

inline __global__ void count_different(const std::uint32_t* a, const std::uint32_t* b, std::size_t count,
                                       unsigned* different) {
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    if (a[i] != b[i]) atomicAdd(different, 1U);
  }
}

inline bool has_sm90() {
  static const Status status = gpu().prepare_sm90();
  if (!status.ok()) std::printf("%s\n", status.message().c_str());
  return status.ok();
}

template <class T>
class OnDevice {
 public:
  explicit OnDevice(std::size_t count) : count_(count), memory_(gpu().map(count * sizeof(T), "a test").value()) {}
  explicit OnDevice(const std::vector<T>& values) : OnDevice(values.size()) {
    gpu().upload({memory_.data(), reinterpret_cast<const std::byte*>(values.data()), count_ * sizeof(T)});
  }
  T* data() const { return reinterpret_cast<T*>(memory_.data()); }
  std::vector<T> fetch() const {
    std::vector<T> values(count_);
    gpu().download({reinterpret_cast<std::byte*>(values.data()), memory_.data(), count_ * sizeof(T)});
    gpu().wait();
    EXPECT_TRUE(gpu().status().ok()) << gpu().status().message();
    return values;
  }
  void poison() { gpu().fill(memory_.data(), std::byte{0xFF}, count_ * sizeof(T)); }
  std::size_t bytes() const { return count_ * sizeof(T); }

 private:
  std::size_t count_;
  DeviceMemory memory_;
};

// Inputs that the kernel ahead of an op writes, long after the op's first kernel could start. They are zeros until
// then, so that values that are read too early differ.
class LateInputs {
 public:
  template <class T>
  void add(const OnDevice<T>& array) {
    const std::size_t bytes = array.bytes();
    copies_.push_back(std::make_unique<OnDevice<std::byte>>(bytes));
    gpu().copy({copies_.back()->data(), reinterpret_cast<const std::byte*>(array.data()), bytes});
    arrays_.push_back({reinterpret_cast<const std::uint32_t*>(copies_.back()->data()),
                       reinterpret_cast<std::uint32_t*>(array.data()), static_cast<std::uint32_t>(bytes / 4)});
  }
  void forget() const {
    for (const Array& array : arrays_)
      gpu().fill(reinterpret_cast<std::byte*>(array.to), std::byte{0}, array.words * 4);
  }
  void write(const Exec& exec) const {
    Write kernel{};
    for (const Array& array : arrays_) kernel.arrays[kernel.count++] = array;
    cuda_ops::launch(exec, Write::kTeams, kernel);
  }
  // Runs ops after write(), kernel by kernel, then as a graph.
  template <class Run, class Check>
  void try_all(const Exec& exec, const Run& run, const Check& check) const {
    for (int time = 0; time < 4; ++time) {  // a graph from the second batch on
      forget();
      if (time > 0) gpu().begin_batch();
      write(exec);
      run();
      if (time > 0) gpu().end_batch();
      check(time);
    }
  }

  struct Array {
    const std::uint32_t* from;
    std::uint32_t *to, words;
  };
  struct Write {
    static constexpr int kThreads = 1024, kTeams = 4;
    Array arrays[4];
    int count;
    SLUICE_DEVICE void operator()(const cuda_ops::Team<kThreads>& team) const {
      const auto now = [] {
        std::uint64_t ns;
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
        return ns;
      };
      const std::uint64_t begin = now();
      while (now() - begin < 30'000) {
      }
      for (int a = 0; a < count; ++a) {
        const std::uint32_t first = static_cast<std::uint32_t>(team.index * kThreads) + threadIdx.x;
        for (std::uint32_t i = first; i < arrays[a].words; i += kTeams * kThreads) arrays[a].to[i] = arrays[a].from[i];
      }
    }
  };

 private:
  std::vector<std::unique_ptr<OnDevice<std::byte>>> copies_;
  std::vector<Array> arrays_;
};

inline std::vector<float> random_values(std::mt19937& random, std::size_t count) {
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

inline double relative_distance(const std::vector<float>& a, const std::vector<double>& b) {
  double difference = 0.0, size = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(difference / size);
}

class Sm90Test : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_sm90()) GTEST_SKIP();
  }
  unsigned different(const float* a, const float* b, std::size_t count) {
    static OnDevice<unsigned> counter(1);
    gpu().fill(reinterpret_cast<std::byte*>(counter.data()), std::byte{0}, sizeof(unsigned));
    count_different<<<64, 256, 0, static_cast<cudaStream_t>(gpu().stream())>>>(
        reinterpret_cast<const std::uint32_t*>(a), reinterpret_cast<const std::uint32_t*>(b), count, counter.data());
    return counter.fetch()[0];
  }
  std::mt19937 random_{91};
  const Exec exec_{.kernels = &scalar_kernels(), .ops = &cuda_sm90_op_table(), .device = &gpu()};
};

// Measures ops, in graphs of launches over inputs that are not in the second cache.
class Sm90SpeedTest : public Sm90Test {
 protected:
  template <class Run>
  double microseconds(int times, const Run& run, bool cold = false) {  // cold: the second cache has other bytes
    auto* stream = static_cast<cudaStream_t>(gpu().stream());
    run(0);
    gpu().wait();
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    for (int i = 0; i < times; ++i) run(i);
    cudaStreamEndCapture(stream, &graph);
    EXPECT_EQ(cudaGraphInstantiate(&ready, graph, 0), cudaSuccess);
    cudaEvent_t begin, end;
    cudaEventCreate(&begin), cudaEventCreate(&end);
    std::vector<double> all;
    for (int i = 0; i < (cold ? 11 : 6); ++i) {
      if (cold) flush_cache();
      cudaEventRecord(begin, stream);
      cudaGraphLaunch(ready, stream);
      cudaEventRecord(end, stream);
      cudaEventSynchronize(end);
      float ms = 0.0F;
      cudaEventElapsedTime(&ms, begin, end);
      all.push_back(ms * 1e3 / times);
    }
    cudaGraphExecDestroy(ready), cudaGraphDestroy(graph), cudaEventDestroy(begin), cudaEventDestroy(end);
    std::ranges::sort(all);
    return all[all.size() / 2];
  }
  void flush_cache() {
    constexpr std::size_t kBytes = std::size_t{384} << 20;
    static const OnDevice<std::byte> other(kBytes);
    static const OnDevice<unsigned> sum(1);
    read_all<<<132 * 8, 512, 0, static_cast<cudaStream_t>(gpu().stream())>>>(
        reinterpret_cast<const uint4*>(other.data()), kBytes / 16, sum.data());
  }
  // Returns the clock of the multiprocessors after the last measurement.
  double megahertz() {
    static const OnDevice<unsigned long long> counts(2);
    count_cycles<<<1, 1, 0, static_cast<cudaStream_t>(gpu().stream())>>>(counts.data());
    const auto both = counts.fetch();
    return static_cast<double>(both[0]) * 1e3 / static_cast<double>(both[1]);
  }
  double copy_bytes_a_second() {
    static const double rate = [this] {
      constexpr std::size_t kBytes = std::size_t{2} << 30;
      const OnDevice<std::byte> a(kBytes), b(kBytes);
      return 2.0 * kBytes /
             (microseconds(3,
                           [&](int) {
                             copy_all<<<132 * 16, 512, 0, static_cast<cudaStream_t>(gpu().stream())>>>(
                                 reinterpret_cast<const uint4*>(a.data()), reinterpret_cast<uint4*>(b.data()),
                                 kBytes / 16);
                           }) *
              1e-6);
    }();
    return rate;
  }
};

}  // namespace sluice::sm90_testing
