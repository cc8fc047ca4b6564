// StepExports: values that a forward call hands out of the middle of a step, in addition to the logits: choices of
// layers, and logits of many rows, a tile at a time. The functions are called on the thread that enqueues the step,
// once the ops that make the values are enqueued; values are the device's, and may be overwritten by the ops that are
// enqueued after the call returns.
//
// Unlike an Observer it changes nothing in how a step is computed, and copies nothing by itself.
// Used by engine/runner/step_results.h, model.h and model_step.h.
#pragma once

#include <cstdint>
#include <functional>

namespace sluice {

struct StepExports {
  // The rows of StepTables::logit_rows from `scored_from` on have no place in the logits: the logits of at most
  // tile_rows of them at a time are written to `tile` [tile_rows, vocab]. on_tile(first, rows) is called for rows
  // first, first + 1, ... after scored_from, and has to be done with them when it returns.
  int scored_from = 0;
  int tile_rows = 0;
  float* tile = nullptr;
  std::function<void(int first, int rows)> on_tile = nullptr;

  // Called for each layer of the model that has routed experts, with the experts of each row, [rows, slots].
  std::function<void(int layer, const std::int32_t* ids, int slots)> on_experts = nullptr;
  // Called for each layer whose indexer chooses among compressed entries of tokens_per_row tokens, with the entries of
  // each row: `counts` of `entries` [rows, most], ascending. Null entries: every row sees all of them.
  std::function<void(int layer, int tokens_per_row, int most, const std::int32_t* entries, const std::int32_t* counts)>
      on_entries = nullptr;
};

}  // namespace sluice
