// The scalar forms of kernels/ops/linear.h and of the experts' activation (kernels/ops/experts.h): the oracle of all
// other kernels.
// Used by activation.cc, kernels/cpu/scalar/ref.cc, op_table.cc and ref_hyper_connection.cc.
#pragma once

#include "kernels/ops/experts.h"
#include "kernels/ops/linear.h"

namespace sluice {

// Computes outputs [begin, end) of y[0..rows). x is in the form that the weight multiplies, and the weight is not
// packed.
void scalar_linear(const LinearJob& job, int rows, int begin, int end);
void activation_scalar(const ActivationArgs& args, int begin, int end);

}  // namespace sluice
