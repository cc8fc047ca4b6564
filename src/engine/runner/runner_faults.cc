// Deliberate faults in the data that a pass reads and writes (cache/fault.h). They change the cache's bytes before and
// after it, so that they are the same on every device.
// Used by cli, engine, sim, src/bench and verify.
#include "engine/runner/runner.h"

namespace sluice {

std::vector<Runner::SpoiledRow> Runner::inject_before_pass() {
  if (cache_.prefix_cache().fault() == Fault::kForgottenResidual) forget_residuals();
  return cache_.prefix_cache().fault() == Fault::kSkippedWrite ? rows_to_spoil() : std::vector<SpoiledRow>();
}

void Runner::inject_after_pass(std::span<const SpoiledRow> spoiled) {
  for (const SpoiledRow& row : spoiled) cache_.pools().memory().write_rows(row.at, row.before);
  if (cache_.prefix_cache().fault() == Fault::kRowsAtResidual) move_rows_to_residuals();
}

// The place of position p's row in a plane with a row for each token.
CacheMemory::Rows Runner::row_at(std::size_t plane, const BatchSpan& span, Position p) const {
  const bool window = cache_.pools().layout().planes[plane].kind == PlaneKind::kWindow;
  const int block = p / kBlockTokens;
  const std::int32_t page = window ? span.window_pages[static_cast<std::size_t>(block - span.first_window_block)].value
                                   : span.latent_pages[static_cast<std::size_t>(block)].value;
  return {PlaneId(static_cast<std::int32_t>(plane)), page, p % kBlockTokens, 1};
}

// Fault::kSkippedWrite: the last row that each long span writes, as it was before; of the last plane with a row for
// each token, of windows if there are any.
std::vector<Runner::SpoiledRow> Runner::rows_to_spoil() const {
  std::vector<SpoiledRow> rows;
  const CacheLayout& layout = cache_.pools().layout();
  const PlaneKind kind = cache_.pools().geometry().has_windows ? PlaneKind::kWindow : PlaneKind::kLatent;
  for (std::size_t i = layout.planes.size(); i-- > 0;) {
    const PlaneSpec& plane = layout.planes[i];
    if (plane.kind != kind || plane.tokens_per_row != 1) continue;
    if (plane.layer >= model_->config().num_hidden_layers) continue;  // a drafter's, which changes no answer
    for (const BatchSpan& span : spans_) {
      if (span.rows < 3) continue;
      const CacheMemory::Rows row = row_at(i, span, span.first_position + span.rows - 1);
      rows.push_back({row, cache_.pools().memory().read_rows(row)});
    }
    break;
  }
  return rows;
}

void Runner::forget_residuals() {
  const CacheLayout& layout = cache_.pools().layout();
  for (std::size_t i = 0; i < layout.planes.size(); ++i) {
    const PlaneSpec& plane = layout.planes[i];
    if (plane.kind != PlaneKind::kOpen || plane.layer < model_->config().num_hidden_layers) continue;
    for (const BatchSpan& span : spans_) {
      cache_.pools().memory().write_initial_part(PlaneId(static_cast<std::int32_t>(i)), OpenState(span.state_in));
    }
  }
}

void Runner::move_rows_to_residuals() {
  const CacheLayout& layout = cache_.pools().layout();
  for (std::size_t i = 0; i < layout.planes.size(); ++i) {
    const PlaneSpec& plane = layout.planes[i];
    if (plane.kind == PlaneKind::kOpen || plane.tokens_per_row != 1) continue;
    if (plane.layer < model_->config().num_hidden_layers) continue;
    for (const BatchSpan& span : spans_) {
      for (Position p = std::max(span.first_position, 1); p < span.first_position + span.rows; ++p) {
        cache_.pools().memory().write_rows(row_at(i, span, p - 1),
                                           cache_.pools().memory().read_rows(row_at(i, span, p)));
      }
    }
  }
}

}  // namespace sluice
