// The register tiles of the target's vectors, LinearIsa, and its decoder of FP4 (kernels/cpu/linear/linear_tile.h).
// Used by kernels/cpu/linear.
#pragma once

#include "kernels/cpu/target.h"

#include SLUICE_VECTOR_HEADER(linear_formats.h)
