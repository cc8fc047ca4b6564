// attend() and expand_and_attend().
// Used by kernels/composed, kernels/cpu, kernels/cuda/shared and kernels/cuda/sm90.
#include "kernels/composed/composed_rows.h"
#include "kernels/ops/ops.h"

namespace sluice::composed {

void attend(const Exec& exec, const AttendArgs& args) {
  if (args.spans.empty()) return;
  // Reads the span from the host's tables, because args.spans is an address of the device.
  const std::ptrdiff_t first =
      args.step->host_spans[static_cast<std::size_t>(args.spans.data() - args.step->spans.data())].row_begin;
  const int heads = args.heads, rows = args.rows;
  const Position* positions = args.step->positions.data() + first;
  float* q = args.q + first * heads * args.dims;
  if (args.query_heads == nullptr) {
    form_heads(exec, args.query, rows, heads, args.dims, q, std::ptrdiff_t{heads} * args.dims, positions);
  } else {
    const int dims = args.query_dims, rope_dims = args.query.rope.dims;
    const std::ptrdiff_t ld = std::ptrdiff_t{heads} * dims;
    float* x = args.query_heads + first * ld;
    form_heads(exec, args.query, rows, heads, dims, x, ld, positions);
    copy_heads(exec, {rows, heads, rope_dims, x + args.query.rope.offset, dims, ld, q + args.dims - rope_dims,
                      args.dims, std::ptrdiff_t{heads} * args.dims});
  }
  attend_keys(exec, args);
  const std::ptrdiff_t ldo = std::ptrdiff_t{heads} * args.value_dims;
  if (args.out_rope.table != nullptr) {
    rope_heads(exec, {.rows = rows,
                      .heads = heads,
                      .head_dim = args.value_dims,
                      .rope_dims = args.out_rope.dims,
                      .offset = args.out_rope.offset,
                      .x = args.out + first * ldo,
                      .ldx = ldo,
                      .positions = positions,
                      .table = args.out_rope.table,
                      .inverse = true,
                      .half_split = args.out_rope.half_split});
  }
  make_forms(exec, rows, args.out_rows);
}

void form_index_queries(const Exec& exec, const IndexSelectArgs& args, int begin, int end) {
  const int rows = end - begin, heads = args.heads, dims = args.dims;
  float* q = args.q + std::ptrdiff_t{begin} * heads * dims;
  form_heads(exec, {.rope = args.query_rope}, rows, heads, dims, q, std::ptrdiff_t{heads} * dims,
             args.step->positions.data() + begin);
  if (args.query_hadamard) hadamard(exec, {rows * heads, dims, q});
  simulate_rows(exec, {args.query_simulation, dims, 0, rows * heads, q, dims});
  if (args.weight_factor != 1.0F) {
    scale(exec, {rows, heads, args.weight_factor, args.weights + std::ptrdiff_t{begin} * heads});
  }
}

void index_select(const Exec& exec, const IndexSelectArgs& args) {
  form_index_queries(exec, args, 0, args.rows);
  select_entries(exec, args);
}

void route(const Exec& exec, const RouteArgs& args) {
  if (args.gate != nullptr) {
    const LinearJob logits = product_of(*args.gate, args.x, 0, args.logits, args.experts);
    linear(exec, {args.rows, {&logits, 1}});
  }
  choose_experts(exec, args);
}

}  // namespace sluice::composed
