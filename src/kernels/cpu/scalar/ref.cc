// The scalar kernels: those of kernels/ref, on weights as they lie. They are the last list: they need no feature and
// fit every weight.
#include "kernels/cpu/kernel_lists.h"
#include "kernels/ref/kernels.h"
#include "kernels/ref/ref_linear.h"
#include "kernels/weights/linear_inputs.h"

namespace sluice::cpu::scalar {
namespace {

#define SLUICE_REF(entry) SLUICE_NAMED_KERNEL("ref::" #entry, entry, ref::entry)

constexpr Kernel kKernels[] = {
    SLUICE_NAMED_KERNEL("prepare_inputs", prepare_inputs, prepare_inputs),
    SLUICE_NAMED_KERNEL("activation_scalar", activation, activation_scalar),
    SLUICE_REF(rms_norm),
    SLUICE_REF(layer_norm),
    SLUICE_REF(rope_heads),
    SLUICE_REF(hadamard),
    SLUICE_REF(hc_product),
    SLUICE_REF(hc_finish),
    SLUICE_REF(hc_collapse),
    SLUICE_REF(hc_expand),
    SLUICE_REF(route),
    SLUICE_REF(attend),
    SLUICE_NAMED_KERNEL("ref::attend", attend_bf16, ref::attend),
    SLUICE_NAMED_KERNEL("ref::attend", attend_bf16_odd, ref::attend),
    SLUICE_NAMED_KERNEL("ref::attend", attend_tiles, ref::attend),
    SLUICE_REF(attend_expanded),
    SLUICE_REF(merge_attention),
    SLUICE_REF(index_scores),
    SLUICE_NAMED_KERNEL("ref::index_scores", index_scores_fp8, ref::index_scores),
    SLUICE_NAMED_KERNEL("ref::index_scores", index_scores_fp4, ref::index_scores),
    SLUICE_REF(keep_best),
    SLUICE_REF(compress),
    SLUICE_REF(encode_rows),
    SLUICE_REF(decode_rows),
    SLUICE_REF(simulate_rows),
    SLUICE_REF(sample_weights),
};

#undef SLUICE_REF

constexpr unsigned kAll = ~0U;
constexpr LinearKernel kLinears[] = {
    {.name = "scalar_linear", .run = scalar_linear, .weights = {kAll, kAll}, .inputs = kAll},
};

}  // namespace

constinit const KernelList ref_kernels{kKernels, kLinears};

}  // namespace sluice::cpu::scalar
