// The ops that others are made of.
#pragma once

#include "kernels/cuda/launch.h"
#include "kernels/elementwise.h"
#include "kernels/linear.h"

namespace sluice::SLUICE_CUDA_OPS {

void linear(const Exec& exec, const LinearArgs& args);
void rms_norm(const Exec& exec, const RmsNormArgs& args);

}  // namespace sluice::SLUICE_CUDA_OPS
