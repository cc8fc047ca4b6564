#include "kernels/cpu/avx2/kernels.h"
#include "kernels/cpu/avx2/linear.h"
#include "kernels/cpu/avx2/vec.h"
#include "kernels/cpu/compress.inc.h"
#include "kernels/cpu/hyper_connection.inc.h"
#include "kernels/cpu/norms.inc.h"
#include "kernels/cpu/order.inc.h"
#include "kernels/cpu/route.inc.h"
#include "kernels/cpu/rows.inc.h"
#include "kernels/cpu/sample.inc.h"

namespace sluice::avx2 {

const KernelTable& kernels() {
  static const KernelTable table{
      .isa = "avx2",
      .linear = avx2_linear_kernels(),
      .swiglu = swiglu_avx2,
      .rms_norm = cpu::rms_norm<F32x16>,
      .layer_norm = cpu::layer_norm<F32x16>,
      .rope_heads = cpu::rope_heads<F32x16>,
      .hadamard = cpu::hadamard<F32x16>,
      .hc_finish = cpu::hc_finish<F32x16>,
      .hc_collapse = cpu::hc_collapse<F32x16>,
      .hc_expand = cpu::hc_expand<F32x16>,
      .route = cpu::route<F32x16>,
      .attend = attend,
      .attend_expanded = attend_expanded,
      .merge_attention = merge_attention,
      .index_scores = index_scores,
      .keep_best = cpu::keep_best<F32x16>,
      .compress = cpu::compress<F32x16>,
      .encode_rows = cpu::encode_rows<F32x16>,
      .decode_rows = cpu::decode_rows<F32x16>,
      .simulate_rows = cpu::simulate_rows<F32x16>,
      .sample_weights = cpu::sample_weights<F32x16>,
  };
  return table;
}

}  // namespace sluice::avx2
