// The ops that others are made of.
#pragma once

#include "kernels/cuda/launch.h"
#include "kernels/linear.h"

namespace sluice::SLUICE_CUDA_OPS {

void linear(const Exec& exec, const LinearArgs& args);

}  // namespace sluice::SLUICE_CUDA_OPS
