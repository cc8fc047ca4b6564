// store_kv (kernels/ops/store_kv.h) of rows of several heads, values apart or not, and of rows that are formed alone.
#pragma once

#include "kernels/cuda/launch.h"
#include "kernels/ops/store_kv.h"

namespace sluice::SLUICE_CUDA_OPS {

// Whether store_heads() takes all of its kinds: no windows to pool, no layer norm, transform or simulation, planes that
// differ by their addresses alone, and no more of them than an argument of a kernel holds.
bool stores_heads(const StoreKvArgs& args);
void store_heads(const Exec& exec, const StoreKvArgs& args);

}  // namespace sluice::SLUICE_CUDA_OPS
