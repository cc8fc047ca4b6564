// SLUICE_HD marks an inline function that a CUDA compiler also compiles for the GPU.
#pragma once

#ifdef __CUDACC__
#define SLUICE_HD __host__ __device__
#else
#define SLUICE_HD
#endif
