// How this target reads FP8 weights (cpu/linear_fp8.isa.cc).
#pragma once

#include "kernels/cpu/fp8_planes.h"
