// sluice kernels: which kernels run here, and why.
#pragma once

#include <string>

namespace sluice {

struct KernelsOptions {
  std::string isa = "auto";
};

int run_kernels(const KernelsOptions& options);

}  // namespace sluice
