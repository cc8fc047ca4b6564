// The ops of kernels/cuda/ops.h as a table.
#include "base/check.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/ops.h"

namespace sluice {

const OpTable& cuda_op_table() {
  static constexpr OpTable kTable = [] {
    OpTable table{.device = "cuda",
#define SLUICE_OP(op, Args) .op = [](const Exec&, const Args&) { SLUICE_CHECK(false, "op " #op " has a CUDA kernel"); },
                  SLUICE_OPS(SLUICE_OP)
#undef SLUICE_OP
    };
    table.rms_norm = cuda_ops::rms_norm;
    table.layer_norm = cuda_ops::layer_norm;
    table.rope_heads = cuda_ops::rope_heads;
    table.hadamard = cuda_ops::hadamard;
    table.add = cuda_ops::add;
    table.add_bias = cuda_ops::add_bias;
    table.scale = cuda_ops::scale;
    table.gather_rows = cuda_ops::gather_rows;
    table.copy_heads = cuda_ops::copy_heads;
    table.linear = cuda_ops::linear;
    return table;
  }();
  return kTable;
}

}  // namespace sluice
