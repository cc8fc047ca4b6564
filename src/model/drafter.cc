// Used by engine/step/drafts/model_drafts.h.
#include "model/drafter.h"

#include <algorithm>
#include <numeric>

#include "kernels/device/device.h"
#include "kernels/ops/ops.h"

namespace sluice {

void Drafter::run(const Exec& exec, Model& model, const CacheView& cache, std::span<const DraftedSequence> sequences,
                  const TokenId* tokens, float* logits, DeviceTables* tables, const Draw& draw) {
  const auto drafts = [&](int index) { return sequences[static_cast<std::size_t>(index)].drafts; };
  rows_.resize(sequences.size());
  std::iota(rows_.begin(), rows_.end(), 0);
  std::ranges::stable_sort(rows_, std::greater(), drafts);
  for (int depth = 1;; ++depth) {
    while (!rows_.empty() && drafts(rows_.back()) < depth) rows_.pop_back();
    if (rows_.empty()) return;
    const StepTables& host = tables_of(sequences, depth);
    const StepTables& step = tables != nullptr ? tables->upload(host) : host;
    if (exec.device != nullptr) exec.device->begin_batch();
    if (step.id_slots != nullptr) {
      take_ids(exec, {step.rows(), step.id_slots, tokens, const_cast<TokenId*>(step.ids.data())});
    }
    model.draft(exec, step, cache, depth, logits, nullptr);
    draw(depth, rows_);
    if (exec.device != nullptr) exec.device->end_batch();
  }
}

const StepTables& Drafter::tables_of(std::span<const DraftedSequence> sequences, int depth) {
  builder_.begin();
  for (const int index : rows_) {
    const DraftedSequence& sequence = sequences[static_cast<std::size_t>(index)];
    BatchSpan row = sequence.span;
    row.rows = 1, row.drafts = 0;
    row.first_position += depth - 1;
    const bool known = depth == 1 && sequence.newest >= 0;
    const int wanted = 0;
    builder_.add(row, known ? std::span(&sequence.newest, 1) : std::span<const TokenId>(), {&wanted, 1},
                 known ? -1 : sequence.slot + depth - 1);
  }
  return builder_.finish();
}

}  // namespace sluice
