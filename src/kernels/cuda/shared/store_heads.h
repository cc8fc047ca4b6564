// store_kv (kernels/ops/store_kv.h) for rows of several heads, with or without separate values, and for rows that are
// made but not coded.
// Used by store_kv.cu.
#pragma once

#include "kernels/cuda/launch.h"
#include "kernels/ops/store_kv.h"

namespace sluice::SLUICE_CUDA_OPS {

// True if store_heads() can do all of the op's kinds: no windows to pool, no layer norm, transform or simulation,
// planes that differ by their addresses alone, and no more of them than an argument of a kernel holds.
bool stores_heads(const StoreKvArgs& args);
void store_heads(const Exec& exec, const StoreKvArgs& args);

}  // namespace sluice::SLUICE_CUDA_OPS
