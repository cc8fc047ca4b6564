// sluice kernels: which kernel runs here for what.
#pragma once

#include <string>

namespace sluice {

struct KernelsOptions {
  std::string isa = "auto", kernels;
};

int run_kernels(const KernelsOptions& options);

}  // namespace sluice
