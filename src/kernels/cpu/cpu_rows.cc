// Used by kernels/cpu, kernels/cpu/attention and kernels/cpu/linear.
#include <algorithm>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/linear/tiles.h"

namespace sluice::cpu_ops {
namespace {

constexpr int kRowsAtOnce = 64;

}  // namespace

void encode_rows(const Exec& exec, const EncodeRowsArgs& args) {
  const PlaneView& plane = *args.plane;
  const RowSlot* slots = args.slots;
  run_row_tiles(exec, args.count, static_cast<std::size_t>(8 * plane.format.dims), [&](int begin, int end) {
    RowRef rows[kRowsAtOnce];
    for (int i = begin; i < end;) {  // finds runs of consecutive rows that are written
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

namespace {

// Does rows [begin, end) of a step, which belong to one of its spans.
void previous_rows_of_span(const KernelTable& kernels, const PreviousRowsArgs& args, int index, int begin, int end) {
  const RowSpan& span = args.step->spans[static_cast<std::size_t>(index)];
  const int dims = args.format.dims;
  for (std::ptrdiff_t row = begin; row < end; ++row) {
    float* y = args.y + row * dims;
    if (row == span.row_begin) {
      const RowRef state = args.state(span.state_in);
      kernels.decode_rows(args.format, &state, 1, y, dims);
    } else {
      std::copy_n(args.x + (row - 1) * dims, dims, y);
      if (args.format.codec != RowCodec::kF32) kernels.simulate_rows(args.format.codec, dims, 0, y, dims, 1);
    }
    if (args.x == nullptr) continue;
    const auto keep = [&](const RowRef& to) { kernels.encode_rows(args.format, args.x + row * dims, dims, &to, 1); };
    if (const std::int32_t after = args.step->states_after[row]; after >= 0) keep(args.state(after));
    if (args.boundaries == nullptr) continue;
    const Position p = span.first_position + static_cast<Position>(row) - span.row_begin;
    const std::int32_t page = boundary_page(args, *args.step, span, index, p);
    if (page >= 0) keep(args.boundaries->row(page, 0));
  }
}

}  // namespace

void previous_rows(const Exec& exec, const PreviousRowsArgs& args) {
  const std::span<const RowSpan> spans = args.step->spans;
  run_row_tiles(exec, args.step->rows(), static_cast<std::size_t>(4 * args.format.dims), [&](int begin, int end) {
    for (std::size_t s = 0; s < spans.size(); ++s) {
      previous_rows_of_span(*exec.kernels, args, static_cast<int>(s), std::max(begin, spans[s].row_begin),
                            std::min(end, spans[s].row_begin + spans[s].rows));
    }
  });
}

}  // namespace sluice::cpu_ops

namespace sluice {

void encode_on_host(const KernelTable& kernels, const RowFormat& format, const float* x, std::span<const RowRef> rows) {
  kernels.encode_rows(format, x, format.dims, rows.data(), static_cast<int>(rows.size()));
}

}  // namespace sluice
