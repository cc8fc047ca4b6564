// StepTables: the description of a step, as values that every op of every layer shares: its tokens, their positions and
// spans, and where each row is written. They are built once per step (kernels/step/step_builder.h); there is no prefill
// and no decode. Plain data: counts, and addresses on the device that the ops run on (kernels/device/device_tables.h).
// No address leads into a pool; pages are numbers.
//
// A plane of a pool is an array of rows, `rows_per_page` to a page. A RowSlot is page * rows_per_page + row, so one
// slot serves all layers whose planes have the same number of tokens per row. -1: the row is computed but not written.
// Thread safety: plain values, constant while a step runs.
// Used by kernels/cuda/shared, kernels/device, kernels/ops, kernels/step and model.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/index_types.h"

namespace sluice {

using RowSlot = StrongIndex<struct RowSlotTag>;

// Rows [row_begin, row_begin + rows) of a step: consecutive positions of one sequence.
struct RowSpan {
  int row_begin = 0, rows = 0;
  Position first_position = 0;
  std::int32_t latent_list = 0;  // the page of block b is StepTables::latent_pages[latent_list + b]
  // The page of block b >= first_window_block is StepTables::window_pages[window_list + b - first_window_block].
  std::int32_t window_list = 0;
  std::int32_t first_window_block = 0;
  std::int32_t state_in = 0;  // the open state (CacheView) before the first row; later ones: StepTables::states_after
};

// The groups of `ratio` tokens that the step's rows complete, in row order. With ratio 1 these are the rows.
struct ClosedWindows {
  int ratio = 0, count = 0;
  const std::int32_t* begin = nullptr;  // [spans + 1]: where each span's groups begin
  const Position* positions = nullptr;  // [count]: the position of the group's first token
  const RowSlot* slots = nullptr;       // [count]: the slot of its latent row; -1: that row is inserted already
};

struct StepTables {
  std::span<const TokenId> ids;              // [rows]; all are tokens once take_ids() has brought those of id_slots
  std::span<const Position> positions;       // [rows]
  std::span<const RowSpan> spans;            // in row order, covering every row
  std::span<const std::int32_t> logit_rows;  // rows whose logits are wanted, ascending; then the scored ones
  // [rows]: the open state that receives the state after the row; -1: none does, as no later step goes on from there. A
  // span's last row always has one; so has every row of a span of drafts that may be the last one to stay.
  const std::int32_t* states_after = nullptr;
  const LatentPage* latent_pages = nullptr;
  const WindowPage* window_pages = nullptr;
  std::int32_t latent_count = 0, window_count = 0;  // the lengths of these two lists
  const RowSlot* window_slots = nullptr;            // [rows]: the slot of a row of a Window plane
  std::array<ClosedWindows, 4> closed;              // one for each number of tokens per row of a Latent plane
  const std::int32_t* ended_blocks = nullptr;       // [spans + 1]: where each span's blocks begin in boundary_pages
  const WindowPage* boundary_pages = nullptr;       // the pages of the blocks whose last token is in the step
  // [rows]: the slot of take_ids() that has the row's token, which the host does not know yet; -1: `ids` has it. Null:
  // the host knows all.
  const std::int32_t* id_slots = nullptr;
  Position end = 0;  // one past the last position of any row

  std::span<const RowSpan> host_spans;  // the spans again, for the host while it enqueues the step

  int rows() const { return static_cast<int>(ids.size()); }
  constexpr const ClosedWindows& closed_by(int ratio) const {
    const ClosedWindows* found = closed.data();
    while (found->ratio != ratio) ++found;
    return *found;
  }
  constexpr LatentPage latent_page(const RowSpan& span, std::int32_t block) const {
    return latent_pages[span.latent_list + block];
  }
  constexpr WindowPage window_page(const RowSpan& span, std::int32_t block) const {
    return window_pages[span.window_list + block - span.first_window_block];
  }
};

}  // namespace sluice
