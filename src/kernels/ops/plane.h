// Cached rows: where row r of page p of a plane lies (PlaneView), and the ops that code rows (kernels/ops/row_codec.h).
//
// A page of R rows is R data parts, then R scale parts (structure of arrays, as the official caches lay it out).
// Used by bench and kernels/composed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/device/exec.h"
#include "kernels/ops/row_codec.h"
#include "kernels/step/step_tables.h"

namespace sluice {

// One plane of one pool: pages of `rows_per_page` rows. It does not own its bytes.
struct PlaneView {
  std::byte* base = nullptr;
  std::size_t page_bytes = 0;  // bytes from page to page: rows_per_page * format.row_bytes(), and padding at the end
  int rows_per_page = 0;
  RowFormat format;

  // The one place that turns (page, row) into an address. It computes in 64 bits throughout: pools exceed 4 GiB.
  constexpr RowRef row(std::int32_t page, int r) const {
    std::byte* p = base + static_cast<std::size_t>(page) * page_bytes;
    return {p + static_cast<std::size_t>(r) * static_cast<std::size_t>(format.data_bytes),
            p + static_cast<std::size_t>(rows_per_page) * static_cast<std::size_t>(format.data_bytes) +
                static_cast<std::size_t>(r) * static_cast<std::size_t>(format.scale_bytes)};
  }
  constexpr RowRef row(RowSlot slot) const { return row(slot.value / rows_per_page, slot.value % rows_per_page); }
};

// encode_row() for many rows on the kernels and threads of `exec`: row i lies at x + i * ldx and goes to slots[i] of
// the plane, or nowhere if that is -1. No two slots are the same.
struct EncodeRowsArgs {
  const PlaneView* plane = nullptr;
  int count = 0;
  const float* x = nullptr;
  std::ptrdiff_t ldx = 0;
  const RowSlot* slots = nullptr;
};
void encode_rows(const Exec& exec, const EncodeRowsArgs& args);
// Encodes rows on this thread, to the host's memory; x: [rows, dims].
void encode_on_host(const KernelTable& kernels, const RowFormat& format, const float* x, std::span<const RowRef> rows);
// Decodes rows [first, first + count) of a span's sequence from a latent plane to x [count, dims].
struct DecodeRowsArgs {
  const StepTables* step = nullptr;
  RowSpan span;
  const PlaneView* plane = nullptr;
  std::int32_t first = 0;
  int count = 0;
  float* x = nullptr;
};
void decode_rows(const Exec& exec, const DecodeRowsArgs& args);
struct SimulateRowsArgs {
  RowCodec codec = RowCodec::kF32;
  int dims = 0, rope_dims = 0, count = 0;
  float* x = nullptr;
  std::ptrdiff_t ldx = 0;
};
void simulate_rows(const Exec& exec, const SimulateRowsArgs& args);

}  // namespace sluice
