// StepPlan: what one step computes. Plain values.
#pragma once

#include <vector>

#include "base/index_types.h"

namespace sluice {

// Rows [first_position, first_position + rows) of a sequence.
struct Span {
  SequenceId sequence;
  Position first_position = 0;
  int rows = 0;
  bool samples = false;  // the last row's logits choose the sequence's next token

  bool operator==(const Span&) const = default;
};

struct StepPlan {
  std::vector<SequenceId> admissions;  // sequences that start to run with this step; each has a span
  std::vector<Span> spans;             // at most one per sequence
  int rows = 0;

  bool empty() const { return spans.empty(); }
};

}  // namespace sluice
