// Used by bench, engine/runner, kernels/device and model.
#include "kernels/step/step_builder.h"

#include <algorithm>

#include "base/check.h"

namespace sluice {

void StepBuilder::begin() {
  ids_.clear();
  id_slots_.clear();
  late_ids_ = false;
  positions_.clear();
  spans_.clear();
  logit_rows_.clear();
  scored_rows_.clear();
  states_after_.clear();
  latent_pages_.clear();
  window_pages_.clear();
  boundary_pages_.clear();
  window_slots_.clear();
  ended_blocks_.assign(1, 0);
  for (Closed& closed : closed_) {
    closed.begin.assign(1, 0);
    closed.positions.clear();
    closed.slots.clear();
  }
  tables_ = {};
}

void StepBuilder::add_scored(std::span<const int> rows) {
  for (const int row : rows) scored_rows_.push_back(spans_.back().row_begin + row);
}

void StepBuilder::add(const BatchSpan& span, std::span<const TokenId> ids, std::span<const int> logit_rows,
                      std::int32_t id_slot, std::span<const TokenId> drafts, std::int32_t draft_slot) {
  const int late_drafts = draft_slot >= 0 ? span.drafts : 0;
  SLUICE_CHECK(span.rows == static_cast<int>(ids.size() + drafts.size()) + (id_slot >= 0) + late_drafts,
               "a span has a token for each row");
  SLUICE_CHECK(span.drafts < span.rows && span.drafts + 2 <= span.states, "a state for each row that may be the last");
  const auto row_begin = static_cast<int>(ids_.size());
  spans_.push_back({.row_begin = row_begin,
                    .rows = span.rows,
                    .first_position = span.first_position,
                    .latent_list = static_cast<std::int32_t>(latent_pages_.size()),
                    .window_list = static_cast<std::int32_t>(window_pages_.size()),
                    .first_window_block = span.first_window_block,
                    .state_in = span.state_in});
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  id_slots_.resize(ids_.size(), -1);
  if (id_slot >= 0) add_late(id_slot);
  for (int i = 0; i < late_drafts; ++i) add_late(draft_slot + i);
  ids_.insert(ids_.end(), drafts.begin(), drafts.end());
  id_slots_.resize(ids_.size(), -1);
  for (int i = 0; i < span.rows; ++i) {
    positions_.push_back(span.first_position + i);
    states_after_.push_back(span.state_after(i));
  }
  for (const int row : logit_rows) logit_rows_.push_back(row_begin + row);
  latent_pages_.insert(latent_pages_.end(), span.latent_pages.begin(), span.latent_pages.end());
  for (std::size_t i = 0; i < closed_.size(); ++i) add_closed(span, shape_.ratios[i], closed_[i]);
  if (shape_.windows) add_windows(span);
  tables_.end = std::max(tables_.end, span.first_position + span.rows);
}

// Appends a token that the host does not know yet.
void StepBuilder::add_late(std::int32_t slot) {
  ids_.push_back(-1);  // -1 is no token: no code may use it before take_ids() has replaced it
  id_slots_.push_back(slot);
  late_ids_ = true;
}

void StepBuilder::add_closed(const BatchSpan& span, int ratio, Closed& closed) const {
  const int rows_per_page = kBlockTokens / ratio;
  const std::int32_t last = (span.first_position + span.rows) / ratio;
  for (std::int32_t e = span.first_position / ratio; e < last; ++e) {
    closed.positions.push_back(e * ratio);
    RowSlot slot;
    if ((e + 1) * ratio > span.latents_from) {
      const LatentPage page = span.latent_pages[static_cast<std::size_t>(e / rows_per_page)];
      slot = RowSlot(page.value * rows_per_page + e % rows_per_page);
    }
    closed.slots.push_back(slot);
  }
  closed.begin.push_back(static_cast<std::int32_t>(closed.positions.size()));
}

void StepBuilder::add_windows(const BatchSpan& span) {
  window_pages_.insert(window_pages_.end(), span.window_pages.begin(), span.window_pages.end());
  const auto page = [&](std::int32_t block) {
    return span.window_pages[static_cast<std::size_t>(block - span.first_window_block)];
  };
  const Position end = span.first_position + span.rows;
  for (Position p = span.first_position; p < end; ++p) {
    window_slots_.emplace_back(page(p / kBlockTokens).value * kBlockTokens + p % kBlockTokens);
  }
  for (std::int32_t block = span.first_position / kBlockTokens; block < end / kBlockTokens; ++block) {
    boundary_pages_.push_back(page(block));
  }
  ended_blocks_.push_back(static_cast<std::int32_t>(boundary_pages_.size()));
}

const StepTables& StepBuilder::finish() {
  SLUICE_CHECK(closed_.size() <= tables_.closed.size(), "a layout has few compression ratios");
  for (std::size_t i = 0; i < closed_.size(); ++i) {
    const Closed& closed = closed_[i];
    tables_.closed[i] = {.ratio = shape_.ratios[i],
                         .count = static_cast<int>(closed.positions.size()),
                         .begin = closed.begin.data(),
                         .positions = closed.positions.data(),
                         .slots = closed.slots.data()};
  }
  tables_.ids = ids_;
  tables_.id_slots = late_ids_ ? id_slots_.data() : nullptr;
  tables_.positions = positions_;
  tables_.spans = tables_.host_spans = spans_;
  logit_rows_.insert(logit_rows_.end(), scored_rows_.begin(), scored_rows_.end());
  tables_.logit_rows = logit_rows_;
  tables_.states_after = states_after_.data();
  tables_.latent_count = static_cast<std::int32_t>(latent_pages_.size());
  tables_.window_count = static_cast<std::int32_t>(window_pages_.size());
  tables_.latent_pages = latent_pages_.data();
  tables_.window_pages = window_pages_.data();
  tables_.window_slots = shape_.windows ? window_slots_.data() : nullptr;
  tables_.ended_blocks = ended_blocks_.data();
  tables_.boundary_pages = boundary_pages_.data();
  return tables_;
}

}  // namespace sluice
