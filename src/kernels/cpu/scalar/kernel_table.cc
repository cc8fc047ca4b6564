// The scalar kernels as a table: those of kernels/ref, on weights as they lie.
#include "kernels/cpu/kernel_table.h"

#include "kernels/linear_inputs.h"
#include "kernels/ref/kernels.h"
#include "kernels/ref/linear.h"

namespace sluice {
namespace {

std::size_t no_packed_bytes(const WeightView&) {
  return 0;
}
void pack_nothing(const WeightView&, int, int, std::byte*) {}

}  // namespace

const KernelTable& scalar_kernels() {
  static const KernelTable table{
      .isa = "scalar",
      .linear = {{no_packed_bytes, pack_nothing, 32}, scalar_linear, prepare_inputs},
      .swiglu = swiglu_scalar,
      .rms_norm = ref::rms_norm,
      .layer_norm = ref::layer_norm,
      .rope_heads = ref::rope_heads,
      .hadamard = ref::hadamard,
      .hc_finish = ref::hc_finish,
      .hc_collapse = ref::hc_collapse,
      .hc_expand = ref::hc_expand,
      .route = ref::route,
      .attend = ref::attend,
      .attend_expanded = ref::attend_expanded,
      .merge_attention = ref::merge_attention,
      .index_scores = ref::index_scores,
      .keep_best = ref::keep_best,
      .compress = ref::compress,
      .encode_rows = ref::encode_rows,
      .decode_rows = ref::decode_rows,
      .simulate_rows = ref::simulate_rows,
      .sample_weights = ref::sample_weights,
  };
  return table;
}

}  // namespace sluice
