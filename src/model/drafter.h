// Drafter: guesses at the tokens that follow the newest ones of some sequences, by a model that drafts
// (Model::draft()). Depth after depth, for all sequences that still want one at once:
//   take the token guessed before from where the device keeps it; draft(); have the caller draw from the logits
// Nothing waits for the device. Thread safety: one thread at a time.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "kernels/device/device_tables.h"
#include "kernels/step/step_builder.h"
#include "model/model.h"

namespace sluice {

struct DraftedSequence {
  // Of its newest token, which no forward pass has seen, and the drafts behind it. Their pages are the sequence's own:
  // the layer's keys are written there, until the pass over these same rows overwrites them.
  BatchSpan span;
  int drafts = 0;
  TokenId newest = -1;    // at span.first_position; -1: it is in `slot`
  std::int32_t slot = 0;  // of the newest token, in `tokens` below; the draft of depth d belongs in slot + d
};

class Drafter {
 public:
  explicit Drafter(TableShape shape) : builder_(std::move(shape)) {}

  // Called when row i of the logits is of sequences[i]: has to enqueue the draws of their tokens, each at position
  // span.first_position + depth, into slot + depth.
  using Draw = std::function<void(int depth, std::span<const int> sequences)>;

  // tokens: [slots], of the device; logits: [sequences, vocab], too. `tables`: the device's, as large as for a step of
  // these spans; null where the host's are the device's.
  void run(const Exec& exec, Model& model, const CacheView& cache, std::span<const DraftedSequence> sequences,
           const TokenId* tokens, float* logits, DeviceTables* tables, const Draw& draw);

 private:
  const StepTables& tables_of(std::span<const DraftedSequence> sequences, int depth);

  StepBuilder builder_;
  std::vector<int> rows_;  // the sequences, those with most drafts first: each depth has the first ones
};

}  // namespace sluice
