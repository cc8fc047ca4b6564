// StepPlan: what one step computes. Plain values.
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
  bool samples = false;  // the last row's logits choose the sequence's next token; with drafts each of them
  int drafts = 0;        // of its rows, the last ones: for guesses at the tokens that follow the newest
  DraftSource source = DraftSource::kMtp;  // of these

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
  bool restore = false;  // from the swap space; otherwise it resumes at first_position by the prefix cache
  Position first_position = 0;

  bool operator==(const Admission&) const = default;
};

// A sequence that waits for another reason than when it was last looked at; not part of what is carried out.
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
  std::vector<SequenceId> waits;  // begin to wait for another sequence, running or admitted, to compute their prefix
  std::vector<ReasonToWait> reasons;

  bool empty() const { return spans.empty(); }
};

// Of a step that has no prompts: its sequences, a row each, and the drafts behind them. Of another one: nothing.
struct DecodedRows {
  int sequences = 0, drafts = 0, by_model = 0;  // by_model: of the drafts

  static DecodedRows of(const StepPlan& plan);
};

}  // namespace sluice
