// Called through the table of ops (kernels/ops/ops.h).
#include "kernels/ops/store_kv.h"

#include "kernels/composed/composed_rows.h"
#include "kernels/ops/ops.h"

namespace sluice::composed {

PlacedRows placed_rows(const StepTables& step, int ratio) {
  if (ratio == 0) return {0, step.rows(), step.positions.data(), step.window_slots};
  const ClosedWindows& closed = step.closed_by(ratio);
  return {0, closed.count, closed.positions, closed.slots};
}

void pool_windows(const Exec& exec, const StepTables& step, const KvRows& kind) {
  CompressArgs args = kind.compressor;
  args.dim = kind.dims, args.ratio = kind.ratio;
  args.step = &step;
  args.pooled = kind.x;
  compress(exec, args);
}

void store_rows(const Exec& exec, const KvRows& given, const PlacedRows& placed) {
  const auto& [first, rows, positions, slots] = placed;
  if (rows == 0) return;
  KvRows kind = given;
  kind.x += std::ptrdiff_t{first} * kind.heads * kind.dims;
  if (kind.values != nullptr) {
    kind.values += std::ptrdiff_t{first} * kind.heads * kind.value_dims;
    kind.joined += std::ptrdiff_t{first} * kind.heads * (kind.value_offset + kind.value_dims);
  }
  const int dims = kind.dims, heads = rows * kind.heads;
  const KvNorm& norm = kind.norm;
  if (norm.bias != nullptr) {
    layer_norm(exec, {heads, norm.dims, kind.x, dims, norm.weight, norm.bias, norm.eps, kind.x, dims});
  } else if (norm.weight != nullptr) {
    rms_norm(exec, {heads, norm.dims, kind.x, dims, norm.weight, norm.eps, kind.x, dims});
  }
  form_heads(exec, {.rope = kind.rope}, rows, kind.heads, dims, kind.x, std::ptrdiff_t{kind.heads} * dims, positions);
  if (kind.hadamard) hadamard(exec, {heads, dims, kind.x});
  simulate_rows(exec, {kind.simulation, dims, kind.simulated_rope_dims, heads, kind.x, dims});

  if (kind.planes == nullptr) return;
  const float* row = kind.x;
  int row_dims = dims;
  if (kind.values != nullptr) {
    row = kind.joined;
    row_dims = kind.value_offset + kind.value_dims;
    const std::ptrdiff_t ld = std::ptrdiff_t{kind.heads} * row_dims;
    copy_heads(exec,
               {rows, kind.heads, dims, kind.x, dims, std::ptrdiff_t{kind.heads} * dims, kind.joined, row_dims, ld,
                /*zeros=*/kind.value_offset - dims});
    copy_heads(exec, {rows, kind.heads, kind.value_dims, kind.values, kind.value_dims,
                      std::ptrdiff_t{kind.heads} * kind.value_dims, kind.joined + kind.value_offset, row_dims, ld});
  }
  for (int head = 0; head < kind.heads; ++head) {
    encode_rows(exec, {kind.planes + head, rows, row + std::ptrdiff_t{head} * row_dims,
                       std::ptrdiff_t{kind.heads} * row_dims, slots});
  }
}

void store(const Exec& exec, const StepTables& step, const KvRows& kind) {
  if (kind.ratio > 1) pool_windows(exec, step, kind);
  store_rows(exec, kind, placed_rows(step, kind.ratio));
}

void store_kv(const Exec& exec, const StoreKvArgs& args) {
  for (int i = 0; i < args.count; ++i) store(exec, *args.step, args.kinds[static_cast<std::size_t>(i)]);
}

}  // namespace sluice::composed
