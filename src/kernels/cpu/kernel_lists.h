// All lists of kernels, the preferred ones first: a line for each target of each file of kernels. A list is the
// constant TARGET::FILE_kernels of that file.
// Used by kernel_table.cc and kernels/cpu/scalar/ref.cc.
#pragma once

#include "kernels/cpu/kernel_list.h"

#define SLUICE_KERNEL_LISTS(LIST)     \
  LIST(avx512_amx, linear_int8)       \
  LIST(avx512_amx, linear_tiles)      \
  LIST(avx512_amx, linear_tile_row)   \
  LIST(avx512_amx, attend_tiles)      \
  LIST(avx512_bf16, linear)           \
  LIST(avx512_bf16, attend)           \
  LIST(avx512_bf16, index_pairs)      \
  LIST(avx512vbmi_vnni, linear_mxfp4) \
  LIST(avx512_vnni, linear_int8)      \
  LIST(avx512_vnni, index_fp4)        \
  LIST(avx512vbmi, linear_fp8)        \
  LIST(avx512vbmi, linear_tiles)      \
  LIST(avx512vbmi, linear_tile_row)   \
  LIST(avx512vbmi, attend_tiles)      \
  LIST(avx512vbmi, linear_slices_fp8) \
  LIST(avx512, linear_fp8)            \
  LIST(avx512, linear_slices_fp8)     \
  LIST(avx512, linear_slices)         \
  LIST(avx512, linear_plain)          \
  LIST(avx512, linear_mxfp4)          \
  LIST(avx512, linear_codes)          \
  LIST(avx512, linear_int8)           \
  LIST(avx512, linear_inputs)         \
  LIST(avx512, activation)            \
  LIST(avx512, norms)                 \
  LIST(avx512, hyper_connection)      \
  LIST(avx512, route)                 \
  LIST(avx512, attend)                \
  LIST(avx512, attend_columns)        \
  LIST(avx512, attend_expanded)       \
  LIST(avx512, index)                 \
  LIST(avx512, compress)              \
  LIST(avx512, rows)                  \
  LIST(avx512, sample_weights)        \
  LIST(avx2_vnni, linear_int8)        \
  LIST(avx2, linear_fp8)              \
  LIST(avx2, linear_slices_fp8)       \
  LIST(avx2, linear_slices)           \
  LIST(avx2, linear_plain)            \
  LIST(avx2, linear_mxfp4)            \
  LIST(avx2, linear_codes)            \
  LIST(avx2, linear_int8)             \
  LIST(avx2, linear_inputs)           \
  LIST(avx2, activation)              \
  LIST(avx2, norms)                   \
  LIST(avx2, hyper_connection)        \
  LIST(avx2, route)                   \
  LIST(avx2, attend)                  \
  LIST(avx2, attend_columns)          \
  LIST(avx2, attend_expanded)         \
  LIST(avx2, index)                   \
  LIST(avx2, compress)                \
  LIST(avx2, rows)                    \
  LIST(avx2, sample_weights)          \
  LIST(scalar, ref)

namespace sluice::cpu {

#define SLUICE_DECLARE(target, file)      \
  namespace target {                      \
  extern const KernelList file##_kernels; \
  }
SLUICE_KERNEL_LISTS(SLUICE_DECLARE)
#undef SLUICE_DECLARE

}  // namespace sluice::cpu
