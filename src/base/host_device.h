// SLUICE_HD marks an inline function that a CUDA compiler also compiles for the GPU.
// Used by base/formats, kernels/common, kernels/cuda, kernels/ops and kernels/weights.
#pragma once

#ifdef __CUDACC__
#define SLUICE_HD __host__ __device__
#else
#define SLUICE_HD
#endif
