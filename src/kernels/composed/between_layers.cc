// The ops between two sub-layers: hyper-connections, and the plain residual stream.
// Used by kernels/composed, kernels/cpu, kernels/cuda/shared and kernels/cuda/sm90.
#include "kernels/composed/composed_rows.h"
#include "kernels/ops/ops.h"

namespace sluice::composed {

void hc_leave_enter(const Exec& exec, const HcLeaveEnterArgs& args) {
  const int dim = args.dim;
  if (args.y != nullptr) hc_expand(exec, {args.rows, dim, args.y, args.post, args.comb, args.x});
  if (args.weights == nullptr) return;
  const float* x = args.x;
  int rows = args.rows;
  if (args.only.data() != nullptr) {
    rows = static_cast<int>(args.only.size());
    gather_rows(exec, {args.only, kHcStreams * dim, x, args.gathered});
    x = args.gathered;
  }
  const bool head = args.weights->fn[1].out() == 0;
  hc_mix(exec, {rows, dim, x, args.weights, args.norm_eps, args.hc_eps, args.sinkhorn_iterations, args.mixes, args.pre,
                head ? nullptr : args.post, head ? nullptr : args.comb});
  hc_collapse(exec, {rows, dim, x, args.pre, args.collapsed});
  norm_to(exec, rows, args.collapsed, dim, args.norm, args.norm_eps, args.normed);
}

void add_norm(const Exec& exec, const AddNormArgs& args) {
  const int dim = args.dim;
  if (args.y != nullptr) add(exec, {args.rows, dim, args.y, args.x});
  if (args.norm == nullptr) return;
  const float* x = args.x;
  int rows = args.rows;
  if (args.only.data() != nullptr) {
    rows = static_cast<int>(args.only.size());
    gather_rows(exec, {args.only, dim, x, args.normed.values});
    x = args.normed.values;
  }
  norm_to(exec, rows, x, dim, args.norm, args.eps, args.normed);
}

}  // namespace sluice::composed
