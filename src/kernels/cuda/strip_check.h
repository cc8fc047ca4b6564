// The checks at the start of the profile sm90: its kernels give the same bits, each in every way that it cuts its work.
// Some milliseconds. After CudaDevice::prepare_sm90(). kInternal names what differs.
#pragma once

#include "kernels/cuda/device.h"

namespace sluice {

// Those that multiply strips of weights (kernels/cuda/strip_layout.h).
Status check_strip_kernels(CudaDevice& gpu);
// Those that multiply FP8 codes (kernels/cuda/fp8_layout.h).
Status check_fp8_kernels(CudaDevice& gpu);
// Attention over official FP8 rows (kernels/cuda/sm90/attend_rows.h).
Status check_attention_kernels(CudaDevice& gpu);
// The indexer's scores and choices (kernels/cuda/sm90/index_rows.h).
Status check_index_kernels(CudaDevice& gpu);

}  // namespace sluice
