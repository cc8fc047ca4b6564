// The check at the start of the profile sm90: the kernels that multiply strips of weights (kernels/cuda/strip_layout.h)
// give the same bits, each in every way that it cuts its work. Some milliseconds.
#pragma once

#include "kernels/cuda/device.h"

namespace sluice {

// After CudaDevice::prepare_sm90(). kInternal names what differs.
Status check_strip_kernels(CudaDevice& gpu);

}  // namespace sluice
