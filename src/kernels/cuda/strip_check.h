// The checks at the start of the profile sm90: its kernels give the same bits, each in every way that it cuts its work.
// They take some milliseconds. Call them after CudaDevice::prepare_sm90(). kInternal names what differs.
// Used by kernels/cuda/runtime and kernels/cuda/sm90.
#pragma once

#include "kernels/cuda/device.h"

namespace sluice {

// Checks the kernels that multiply strips of weights (kernels/cuda/strip_layout.h).
Status check_strip_kernels(CudaDevice& gpu);
// Checks the kernels that multiply FP8 codes (kernels/cuda/fp8_layout.h).
Status check_fp8_kernels(CudaDevice& gpu);
// Checks attention over official FP8 rows (kernels/cuda/sm90/attend_rows.h).
Status check_attention_kernels(CudaDevice& gpu);
// Checks the indexer's scores and choices (kernels/cuda/sm90/index_rows.h).
Status check_index_kernels(CudaDevice& gpu);

}  // namespace sluice
