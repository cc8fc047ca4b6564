// StepSpan: the part of a step that is one sequence's, as the caller of a Runner describes it. Thread safety: plain
// values; what they refer to must live while the step runs.
// Used by runner.h and step_results.h.
#pragma once

#include <span>

#include "base/index_types.h"
#include "cache/pages/block_chain.h"
#include "sluice/request_options.h"
#include "sluice/sampling.h"

namespace sluice {

// A row of a span whose logits judge a known token: the next one of the sequence.
struct ScoreRequest {
  int row = 0;                // within the span
  TokenId token = 0;          // the token whose log-probability is asked for
  int top_logprobs = 0;       // also the log-probabilities of this many best tokens
  bool distribution = false;  // also the log-probabilities of all tokens
};

// The next ids.size() tokens of a sequence, and the rows whose logits are wanted.
struct StepSpan {
  StateSlot sequence;
  std::span<const TokenId> ids;          // at least one, or `newest`
  std::span<const int> logit_rows;       // indices of its rows, ascending
  bool keep = true;                      // false: computed, then forgotten; the sequence stays where it was
  const BlockChain* chain = nullptr;     // the sequence's chain: complete blocks are inserted
  bool newest = false;                   // one more row: the token that was drawn for the sequence last
  std::span<const TokenId> drafts = {};  // guesses at the next tokens: the last rows; commit() may keep some
  int model_drafts = 0;                  // instead: the number that Model::draft() makes, drawn with `sampling`
  const SamplingParams* sampling = nullptr;
  std::span<const ScoreRequest> scores = {};  // by row, ascending
  const RequestOptions* options = nullptr;    // the request's, constant while the step runs; null: the defaults

  int draft_count() const { return static_cast<int>(drafts.size()) + model_drafts; }
  int rows() const { return static_cast<int>(ids.size()) + newest + draft_count(); }
};

}  // namespace sluice
