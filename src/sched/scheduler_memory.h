// SchedulerMemory: what the scheduler asks of the cache, as counts. The cache implements it (engine/stepper.h); tests
// and benchmarks have their own. Answers must not change between two steps except by what the plan does.
#pragma once

#include "base/index_types.h"
#include "cache/prefix_hit.h"

namespace sluice {

class SchedulerMemory {
 public:
  virtual ~SchedulerMemory() = default;
  // Latent pages that nobody holds (vacant or cached), now.
  virtual int free_latent_pages() const = 0;
  virtual PrefixHit probe(SequenceId id) = 0;
  // The plan being made admits this sequence: what it will compute is expected by the next probe().
  virtual void admitted(SequenceId) {}
  // Latent pages that a running sequence holds alone: what its preemption gives back.
  virtual int exclusive_latent_pages(SequenceId id) const = 0;
  // Whether the swap space has room for the state of a running sequence, beside those already planned in this step.
  virtual bool can_swap(SequenceId id) = 0;
};

}  // namespace sluice
