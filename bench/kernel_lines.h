// The common part of the files of kernel_bench: the machine, its speed, and the lines of the table.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "bench/machine_probe.h"
#include "kernels/device/isa.h"

namespace sluice {

struct KernelBenchOptions {
  std::string isa = "auto", kernels, filter;
  int threads = 2;
  double seconds = 0.05;
  std::vector<int> rows{1, 8, 96, 512};
  // Data that is read once a call (weights, cached rows) is rotated over this much memory, far more than the caches
  // hold.
  std::size_t rotated_bytes = std::size_t{128} << 20;
};

// The least work of one call.
struct KernelWork {
  double multiply_adds = 0;
  InputForm inputs = InputForm::kF32;  // the form whose peak they are compared with
  double bytes = 0;                    // read, and written by kernels that write as much as they read
  bool cached = false;                 // the bytes lie in the caches: no percent of the memory's speed
};

class KernelBench {
 public:
  KernelBench(const KernelBenchOptions& options, const KernelTable* table);

  const KernelBenchOptions& options() const { return options_; }
  Exec exec() { return {&pool_, table_}; }
  bool wants(const std::string& name) const { return name.find(options_.filter) != std::string::npos; }
  // The number of copies of `bytes` bytes that exceed the caches.
  int copies(std::size_t bytes) const;

  void print_header();
  // Times `call`, which gets 0, 1, 2 ..., and prints a line.
  void line(const std::string& name, int rows, const KernelWork& work, const std::function<void(int turn)>& call);

 private:
  KernelBenchOptions options_;
  ThreadPool pool_;
  const KernelTable* table_;
  MachineSpeed speed_;
  struct {
    std::string name;
    double seconds = 0, bytes = 0;
  } first_;  // first line of the kernel that is being timed
};

std::vector<float> random_floats(std::size_t count);

void bench_linear(KernelBench& bench);     // linear_kernels.cc: linear, experts, packing
void bench_attention(KernelBench& bench);  // attention_kernels.cc: through a cache of each family's kind
void bench_rows(KernelBench& bench);       // row_kernels.cc: norms, rotations, hyper-connections, router, codecs ...

}  // namespace sluice
