// SequenceTable: the sequences of a stepper, by their ids. Ids of ended sequences are used again.
// Thread safety: none; it belongs to a stepper.
// Used by stepper.h.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "cache/pages/block_chain.h"
#include "cache/prefix_cache.h"
#include "engine/runner/runner.h"
#include "engine/step/drafts/copied_drafts.h"
#include "engine/step/ruled_tokens.h"
#include "sched/scheduler.h"
#include "sluice/engine.h"

namespace sluice {

// A request with choices that have not ended. Its sequences hold its prompt.
struct PendingRequest {
  RequestId id = 0;
  std::shared_ptr<const RequestOptions> options = {};
  std::function<void(Output)> on_output = {};
  std::vector<SequenceId> choices;  // none: ended, or not begun (choice 0 computes the prompt)
  std::vector<bool> ended;
  int unfinished = 0;
  std::shared_ptr<PromptLogprobs> prompt_logprobs = {};  // asked for; complete when the first token is drawn
};

// The part of a request that a sequence answers: one choice. The stepper only keeps it.
struct SequenceAnswer {
  PendingRequest* request = nullptr;
  int choice = 0;
  SamplingParams sampling;                           // parameters with the choice's own seed
  std::shared_ptr<TokenConstraint> constraint = {};  // its own; null: none
  std::shared_ptr<RuledTokens> ruled = {};           // its own; null: no rules

  // True if the tokens so far limit which token may come next.
  bool is_bound() const { return constraint != nullptr || ruled != nullptr; }
};

struct NewSequence {
  std::vector<TokenId> prompt;                         // at least one token
  std::shared_ptr<const RequestOptions> options = {};  // null: the defaults
  SequenceAnswer answer = {};
  // Filled from its `start` on while the prompt is computed; null: not wanted.
  std::shared_ptr<PromptLogprobs> logprobs = {};
};

// Counters of one prompt; all sequences that answer it share them, so that each token counts once.
struct PromptCount {
  bool admitted = false;
  Position reached = 0;  // the first position that was neither computed nor found in the cache
};

// A sequence of a stepper, which alone writes it. Spans, draws and drafts belong to the step in flight.
struct LiveSequence {
  int prompt_tokens() const { return counts.prompt_tokens; }
  int generated() const { return static_cast<int>(tokens.size()) - counts.prompt_tokens; }

  bool alive = false;
  std::uint32_t number = 0;  // its name in records
  Position reached = 0;      // computed tokens when it was last preempted
  std::vector<TokenId> tokens;
  SequenceCounts counts;
  SequenceAnswer answer;
  int cached_tokens = 0;  // prompt tokens that it did not compute; 0 before it was admitted
  bool admitted_before = false, waited = false;
  std::chrono::steady_clock::time_point admitted_at{};  // reported to the client, otherwise unused
  int span = -1;                                        // its index in step_spans_, in the step that was begun
  int draw = -1;  // index in drawn_ of its next token, on its way; its drafts' draws follow
  // The drafts proposed for the next step: made anew each time, and never part of its tokens.
  std::array<TokenId, kMostDrafts> proposal{};
  bool predicted = false;                  // the proposal is from the prediction
  DraftSource source = DraftSource::kMtp;  // source of its span's drafts
  TokenId predicted_next = -1;             // the token on its way, as a draft source would guess it; -1: no guess
  DraftSource predicted_by = DraftSource::kMtp;
  std::unique_ptr<CopiedDrafts> copies;
  bool complete = false;  // the token on its way is its last: it has left scheduler and memory
  StateSlot slot;         // its state, while it runs
  SwapHandle swapped;     // while its state is in the swap space
  Position swapped_position = 0;
  std::unique_ptr<BlockChain> chain;
  std::shared_ptr<PromptCount> count;             // shared by all sequences of the prompt
  std::shared_ptr<PromptLogprobs> logprobs;       // its prompt's so far; null: not wanted
  std::shared_ptr<const RequestOptions> options;  // its request's; never null while alive
  ExportedRows rows;                              // exported rows that no output has taken yet
  Position exported = 0;                          // the first position whose row is still to be exported
  PrefixHit hit;                                  // the last lookup's
  int expected_begin = 0, expected_end = 0;       // blocks that the prefix cache expects from it
};

class SequenceTable {
 public:
  // An id that no sequence has, and whose entry is empty.
  SequenceId reserve() {
    if (free_ids_.empty()) {
      free_ids_.emplace_back(static_cast<std::int32_t>(entries_.size()));
      entries_.emplace_back();
    }
    const SequenceId id = free_ids_.back();
    free_ids_.pop_back();
    return id;
  }
  void release(SequenceId id) {
    (*this)[id] = {};
    free_ids_.push_back(id);
  }

  LiveSequence& operator[](SequenceId id) { return entries_[static_cast<std::size_t>(id.value)]; }
  const LiveSequence& operator[](SequenceId id) const { return entries_[static_cast<std::size_t>(id.value)]; }
  const std::vector<LiveSequence>& entries() const { return entries_; }  // by id; some are not alive

 private:
  std::vector<LiveSequence> entries_;
  std::vector<SequenceId> free_ids_;
};

}  // namespace sluice
