#include <cstring>
#include <functional>

#include "base/check.h"
#include "base/number_formats.h"
#include "kernels/cpu/ops.h"

namespace sluice::cpu_ops {
namespace {

void embed_row(const WeightView& table, TokenId id, int copies, float* out) {
  const std::size_t dim = static_cast<std::size_t>(table.in);
  const std::byte* row = table.data + static_cast<std::size_t>(id) * table.row_bytes();
  if (table.format == WeightFormat::kF32) {
    std::memcpy(out, row, dim * sizeof(float));
  } else if (table.format == WeightFormat::kCodes) {
    table.read(id, 0, table.in, out);
  } else {
    const auto* values = reinterpret_cast<const bf16*>(row);
    for (std::size_t d = 0; d < dim; ++d) out[d] = to_float(values[d]);
  }
  for (int c = 1; c < copies; ++c) std::memcpy(out + static_cast<std::size_t>(c) * dim, out, dim * sizeof(float));
}

}  // namespace

void embed(const Exec& exec, const EmbedArgs& args) {
  const WeightView& table = *args.table;
  SLUICE_CHECK(table.format != WeightFormat::kFp8 && table.format != WeightFormat::kMxfp4,
               "embedding tables are f32, bf16 or codes");
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
