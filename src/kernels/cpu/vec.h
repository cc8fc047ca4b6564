// The vectors of the target: F32x16, I32x16, Mask16 and their operations.
// Used by kernels/cpu, kernels/cpu/attention, kernels/cpu/avx2 and kernels/cpu/linear.
#pragma once

#include "kernels/cpu/target.h"

#include SLUICE_VECTOR_HEADER(vec.h)
