// What the tests on a GPU share.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "kernels/cuda/device.h"
#include "kernels/cuda/op_cases_testing.h"

namespace sluice {

// GPU 0. Ends the program where there is none.
inline CudaDevice& gpu() {
  static const auto device = [] {
    auto opened = open_cuda_device(0);
    if (!opened.ok()) {
      std::printf("%s\n", opened.status().message().c_str());
      std::exit(3);
    }
    return std::move(opened).value();
  }();
  return *device;
}

// What the flags of main.cc say.
struct GpuTestOptions {
  int cases = 400;   // of each op
  int repeat = 100;  // of a case
  CaseSizes sizes = CaseSizes::kAny;
  bool early = true;     // kernels start early (kernels/cuda/launch.h)
  bool managed = false;  // each piece of a case in memory of its own; tests that take long under a sanitizer are brief
};
inline GpuTestOptions& gpu_test_options() {
  static GpuTestOptions options;
  return options;
}

}  // namespace sluice
