// The first half of a SwiGLU with many rows, whose gate and up are bf16 of one segment: m is made in the epilogue of
// tiles.
// Used by sm90_experts.cu and tiles.cu.
#pragma once

#include "kernels/common/activation.h"
#include "kernels/cuda/sm90/strip_products.h"

namespace sluice::cuda_sm90 {

// Computes m [rows, out] in bf16: SwiGLU of the two products, which have the same rows. Returns false if that does not
// suit (the rows are few, or tiles would not fill the GPU), or is not possible.
bool multiply_inner(const Exec& exec, const StripRows& rows, const StripProduct& gate, const StripProduct& up,
                    const Activation& activation, std::uint16_t* m);

}  // namespace sluice::cuda_sm90
