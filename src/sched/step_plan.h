// StepPlan: the work of one step. Plain values.
// Used by engine/step/step_in_flight.h, scheduler.h and sim/cost_model.h.
#pragma once

#include <vector>

#include "base/index_types.h"
#include "sched/drafts/drafts.h"
#include "sluice/step_record.h"

namespace sluice {

// Rows [first_position, first_position + rows) of a sequence.
struct Span {
  SequenceId sequence;
  Position first_position = 0;
  int rows = 0;
  bool samples = false;                    // the last row's logits choose the next token; with drafts each row's do
  int drafts = 0;                          // its last rows: guesses at the tokens after the newest
  DraftSource source = DraftSource::kMtp;  // source of the drafts

  bool operator==(const Span&) const = default;
};

// A running sequence leaves the pools; no token is lost. It waits again, and is then computed anew from what the prefix
// cache still has, or brought back from the swap space.
struct Preemption {
  SequenceId sequence;
  bool swap = false;

  bool operator==(const Preemption&) const = default;
};

// A sequence that starts to run with this step. It has a span.
struct Admission {
  SequenceId sequence;
  bool restore = false;  // restored from the swap space, else resumed at first_position by the prefix cache
  Position first_position = 0;

  bool operator==(const Admission&) const = default;
};

// A sequence whose reason to wait has changed; for the records, not carried out.
struct ReasonToWait {
  SequenceId sequence;
  WaitReason reason = WaitReason::kQueue;
};

// Carried out in this order: all preemptions, all admissions, then the spans are reserved and computed.
struct StepPlan {
  std::vector<Preemption> preemptions;
  std::vector<Admission> admissions;
  std::vector<Span> spans;  // at most one per sequence
  int rows = 0;
  std::vector<SequenceId> waits;  // begin to wait until another sequence computes their prefix
  std::vector<ReasonToWait> reasons;

  bool empty() const { return spans.empty(); }
};

// The rows of a step without prompts: its sequences, a row each, and their drafts. All zero for a step with prompts.
struct DecodedRows {
  int sequences = 0, drafts = 0, by_model = 0;  // by_model: drafts of the model

  static DecodedRows of(const StepPlan& plan);
};

}  // namespace sluice
