// StepBuilder: makes the StepTables of a step from its spans, on the host. It owns their memory, which grows to the
// largest step seen and stays. Thread safety: one thread at a time.
// Used by bench, engine/runner, kernels/device and model.
#pragma once

#include <span>
#include <vector>

#include "kernels/step/step_tables.h"

namespace sluice {

// The facts that a cache gives about the next rows of a sequence. Views; owns nothing.
struct BatchSpan {
  int rows = 0;
  Position first_position = 0;
  // Rows below this position are computed only for their window and open state: their latents are already inserted.
  Position latents_from = 0;
  std::span<const LatentPage> latent_pages = {};  // by block, for every block up to that of the last row
  // [block - first_window_block], covers the window of the first row to the last row. A row that ends its block also
  // writes the boundary bytes of every Open plane there (model/cache_layout.h).
  std::span<const WindowPage> window_pages = {};
  std::int32_t first_window_block = 0;
  // Open states [first_state, first_state + states) are the sequence's, in a ring. state_in is the committed one. The
  // states that follow it receive the states after the last 1 + drafts rows; states >= 2 + drafts.
  std::int32_t state_in = 0, first_state = 0, states = 2;
  int drafts = 0;  // the number of its last rows that hold guessed tokens; any of them may be dropped

  // The open state after row `row`; -1: none is kept.
  std::int32_t state_after(int row) const {
    const int kept = row - (rows - 1 - drafts);
    return kept < 0 ? -1 : first_state + (state_in - first_state + 1 + kept) % states;
  }
};

// The tables that a cache layout needs.
struct TableShape {
  std::vector<int> ratios;  // the tokens per row of its Latent planes, ascending, each once
  bool windows = true;      // there are Window planes, or boundary bytes
};

class StepBuilder {
 public:
  explicit StepBuilder(TableShape shape = {}) : shape_(std::move(shape)), closed_(shape_.ratios.size()) { begin(); }

  void begin();  // begins a new step
  // Appends the rows of `span`: ids.size() of them, one more with an id_slot (StepTables::id_slots), and the drafts.
  // With a draft_slot it appends as many drafts as the span has, whose tokens are in that slot and those that follow
  // it. logit_rows: indices of rows, ascending.
  void add(const BatchSpan& span, std::span<const TokenId> ids, std::span<const int> logit_rows,
           std::int32_t id_slot = -1, std::span<const TokenId> drafts = {}, std::int32_t draft_slot = -1);
  // Asks for the logits of these rows of the span that was added last, too; they follow those of all add() calls.
  void add_scored(std::span<const int> rows);
  // The tables of all that was added; valid until begin() or the end of the builder.
  const StepTables& finish();

 private:
  struct Closed {
    std::vector<std::int32_t> begin;
    std::vector<Position> positions;
    std::vector<RowSlot> slots;
  };
  void add_late(std::int32_t slot);
  void add_closed(const BatchSpan& span, int ratio, Closed& closed) const;
  void add_windows(const BatchSpan& span);

  TableShape shape_;
  std::vector<TokenId> ids_;
  std::vector<std::int32_t> id_slots_;
  bool late_ids_ = false;
  std::vector<Position> positions_;
  std::vector<RowSpan> spans_;
  std::vector<std::int32_t> logit_rows_, scored_rows_, states_after_;
  std::vector<LatentPage> latent_pages_;
  std::vector<WindowPage> window_pages_, boundary_pages_;
  std::vector<RowSlot> window_slots_;
  std::vector<std::int32_t> ended_blocks_;
  std::vector<Closed> closed_;  // closed windows, by ratio
  StepTables tables_;
};

}  // namespace sluice
