#include "kernels/cuda/emulated_testing.h"

#include "kernels/cuda/shared/attend.cu"
#include "kernels/cuda/shared/attend_expanded.cu"
#include "kernels/cuda/shared/compressor.cu"
#include "kernels/cuda/shared/embedding.cu"
#include "kernels/cuda/shared/experts.cu"
#include "kernels/cuda/shared/hyper_connection.cu"
#include "kernels/cuda/shared/linear.cu"
#include "kernels/cuda/shared/norms.cu"
#include "kernels/cuda/shared/rotations.cu"
#include "kernels/cuda/shared/router.cu"
#include "kernels/cuda/shared/rows.cu"
#include "kernels/cuda/shared/streams.cu"

namespace sluice {

const OpTable& cuda_emulated_op_table() {
  static constexpr OpTable kTable = [] {
    OpTable table = {};
    table.device = "cuda, emulated";
    table.rms_norm = cuda_emulated_ops::rms_norm;
    table.layer_norm = cuda_emulated_ops::layer_norm;
    table.rope_heads = cuda_emulated_ops::rope_heads;
    table.hadamard = cuda_emulated_ops::hadamard;
    table.add = cuda_emulated_ops::add;
    table.add_bias = cuda_emulated_ops::add_bias;
    table.scale = cuda_emulated_ops::scale;
    table.gather_rows = cuda_emulated_ops::gather_rows;
    table.copy_heads = cuda_emulated_ops::copy_heads;
    table.linear = cuda_emulated_ops::linear;
    table.embed = cuda_emulated_ops::embed;
    table.hc_mix = cuda_emulated_ops::hc_mix;
    table.hc_collapse = cuda_emulated_ops::hc_collapse;
    table.hc_expand = cuda_emulated_ops::hc_expand;
    table.route = cuda_emulated_ops::route;
    table.encode_rows = cuda_emulated_ops::encode_rows;
    table.decode_rows = cuda_emulated_ops::decode_rows;
    table.simulate_rows = cuda_emulated_ops::simulate_rows;
    table.compress = cuda_emulated_ops::compress;
    table.experts = cuda_emulated_ops::experts;
    table.attend = cuda_emulated_ops::attend;
    table.attend_expanded = cuda_emulated_ops::attend_expanded;
    table.merge_attention = cuda_emulated_ops::merge_attention;
    return table;
  }();
  return kTable;
}

}  // namespace sluice
