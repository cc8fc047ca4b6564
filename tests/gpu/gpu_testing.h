// Helpers for the tests on a GPU.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "kernels/cuda/device.h"
#include "kernels/cuda/op_cases_testing.h"

namespace sluice {

// GPU 0; ends the program if there is none.
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

// The values of main.cc's flags.
struct GpuTestOptions {
  int cases = 400;   // cases of each op
  int repeat = 100;  // runs of a case
  CaseSizes sizes = CaseSizes::kAny;
  bool early = true;     // kernels start early (kernels/cuda/launch.h)
  bool managed = false;  // each piece of a case has memory of its own; tests that a sanitizer makes slow are brief
};
inline GpuTestOptions& gpu_test_options() {
  static GpuTestOptions options;
  return options;
}

}  // namespace sluice
