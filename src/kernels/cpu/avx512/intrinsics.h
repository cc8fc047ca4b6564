// <immintrin.h> without the false alarms of GCC 12, which takes the undefined operands of its own AVX-512 intrinsics
// for uninitialised variables (GCC bug 105593). To be included before anything else that includes it.
// Used by kernels/cpu/avx512, kernels/cpu/avx512_bf16 and kernels/cpu/avx512vbmi.
#pragma once

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
