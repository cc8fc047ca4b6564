#include <cstring>
#include <functional>

#include "base/check.h"
#include "kernels/cpu/ops.h"

namespace sluice::cpu_ops {
namespace {

void embed_row(const WeightView& table, TokenId id, int copies, float* out) {
  const std::size_t dim = static_cast<std::size_t>(table.in);
  table.values(id, 0, table.in, out);
  for (int c = 1; c < copies; ++c) std::memcpy(out + static_cast<std::size_t>(c) * dim, out, dim * sizeof(float));
}

}  // namespace

void embed(const Exec& exec, const EmbedArgs& args) {
  const WeightView& table = *args.table;
  SLUICE_CHECK(!weight_format(table.format).scaled, "embedding tables are f32, bf16 or codes");
  constexpr int kRowsPerTile = 64;
  const int rows = static_cast<int>(args.ids.size());
  const auto stride = static_cast<std::size_t>(args.copies) * static_cast<std::size_t>(table.in);
  const auto tile = [&](int index, int) {
    for (int t = index * kRowsPerTile; t < rows && t < (index + 1) * kRowsPerTile; ++t) {
      embed_row(table, args.ids[static_cast<std::size_t>(t)], args.copies,
                args.out + static_cast<std::size_t>(t) * stride);
    }
  };
  exec.pool->run((rows + kRowsPerTile - 1) / kRowsPerTile, std::ref(tile));
}

}  // namespace sluice::cpu_ops
