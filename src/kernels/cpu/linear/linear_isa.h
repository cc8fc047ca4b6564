// The register tiles of the target's vectors, LinearIsa, and its decoder of FP4 (cpu/linear_tile.h).
#pragma once

#include "kernels/cpu/target.h"

#include SLUICE_VECTOR_HEADER(linear_formats.h)
