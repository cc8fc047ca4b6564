// Drafter: guesses at the tokens that follow the newest ones of some sequences, by a model that drafts
// (Model::draft()). It does one depth after another, each for all sequences that still want a draft:
//   read the previous guess where the device keeps it; draft(); have the caller draw from the logits
// Nothing waits for the device. Thread safety: one thread at a time.
// Used by engine/step/drafts/model_drafts.h.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "kernels/device/device_tables.h"
#include "kernels/step/step_builder.h"
#include "model/model.h"

namespace sluice {

struct DraftedSequence {
  // The rows of its newest token, which no forward pass has seen, and of the drafts after it. Their pages are the
  // sequence's own: the layer's keys are written there, until the pass over these same rows overwrites them.
  BatchSpan span;
  int drafts = 0;
  TokenId newest = -1;    // the token at span.first_position; -1: it is in `slot`
  std::int32_t slot = 0;  // slot of the newest token in `tokens` below; the draft of depth d goes to slot + d
};

class Drafter {
 public:
  explicit Drafter(TableShape shape) : builder_(std::move(shape)) {}

  // Called when row i of the logits belongs to sequences[i]. It has to enqueue the draws of their tokens, each at
  // position span.first_position + depth, into slot + depth.
  using Draw = std::function<void(int depth, std::span<const int> sequences)>;

  // Enqueues all drafts. tokens: [slots] and logits: [sequences, vocab] are on the device. `tables` are the device's,
  // as large as for a step of these spans; null if the device uses the host's.
  void run(const Exec& exec, Model& model, const CacheView& cache, std::span<const DraftedSequence> sequences,
           const TokenId* tokens, float* logits, DeviceTables* tables, const Draw& draw);

 private:
  const StepTables& tables_of(std::span<const DraftedSequence> sequences, int depth);

  StepBuilder builder_;
  std::vector<int> rows_;  // sequences by falling number of drafts: each depth has the first ones
};

}  // namespace sluice
