// What the tests on a GPU share.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "kernels/cuda/device.h"

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

// How many cases each op has (--cases).
inline int& op_cases() {
  static int cases = 400;
  return cases;
}

}  // namespace sluice
