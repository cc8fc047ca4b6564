// The vectors of the target: F32x16, I32x16, Mask16 and their operations.
#pragma once

#include "kernels/cpu/target.h"

#include SLUICE_VECTOR_HEADER(vec.h)
