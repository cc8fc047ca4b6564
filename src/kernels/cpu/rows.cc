#include <algorithm>

#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/tiles.h"

namespace sluice::cpu_ops {
namespace {

constexpr int kRowsAtOnce = 64;

}  // namespace

void encode_rows(const Exec& exec, const EncodeRowsArgs& args) {
  const PlaneView& plane = *args.plane;
  const RowSlot* slots = args.slots;
  run_row_tiles(exec, args.count, static_cast<std::size_t>(8 * plane.format.dims), [&](int begin, int end) {
    RowRef rows[kRowsAtOnce];
    for (int i = begin; i < end;) {  // runs of rows that are written
      int n = 0;
      while (i + n < end && n < kRowsAtOnce && slots[i + n]) {
        rows[n] = plane.row(slots[i + n]);
        ++n;
      }
      if (n > 0) exec.kernels->encode_rows(plane.format, args.x + i * args.ldx, args.ldx, rows, n);
      i += std::max(n, 1);
    }
  });
}

void decode_rows(const Exec& exec, const DecodeRowsArgs& args) {
  const PlaneView& plane = *args.plane;
  const std::ptrdiff_t ldx = plane.format.dims;
  run_row_tiles(exec, args.count, static_cast<std::size_t>(2 * plane.format.dims), [&](int begin, int end) {
    RowRef rows[kRowsAtOnce];
    for (int i = begin; i < end; i += kRowsAtOnce) {
      const int n = std::min(kRowsAtOnce, end - i);
      for (int j = 0; j < n; ++j) {
        const std::int32_t r = args.first + i + j;
        rows[j] = plane.row(args.step->latent_page(args.span, r / plane.rows_per_page).value, r % plane.rows_per_page);
      }
      exec.kernels->decode_rows(plane.format, rows, n, args.x + i * ldx, ldx);
    }
  });
}

void simulate_rows(const Exec& exec, const SimulateRowsArgs& args) {
  if (args.codec == RowCodec::kF32) return;
  run_row_tiles(exec, args.count, static_cast<std::size_t>(8 * args.dims), [&](int begin, int end) {
    exec.kernels->simulate_rows(args.codec, args.dims, args.rope_dims, args.x + begin * args.ldx, args.ldx,
                                end - begin);
  });
}

}  // namespace sluice::cpu_ops

namespace sluice {

void encode_on_host(const KernelTable& kernels, const RowFormat& format, const float* x, std::span<const RowRef> rows) {
  kernels.encode_rows(format, x, format.dims, rows.data(), static_cast<int>(rows.size()));
}

}  // namespace sluice
