// SchedulerMemory: what the scheduler asks of the cache, as counts. The cache implements it (engine/stepper.h); tests and
// benchmarks have their own. Answers must not change between two steps except by what the plan does.
#pragma once

#include "base/index_types.h"

namespace sluice {

// What the prefix cache has of a sequence that does not run.
struct PrefixHit {
  Position resume = 0;     // tokens that need not be computed: a multiple of 128, less than the sequence's tokens
  Position shared = 0;     // >= resume: tokens whose latent pages are there (the rows between are computed for their
                           // windows only)
  int claimed_free = 0;    // of those pages, how many nobody holds: they count as free until this sequence takes them
  bool wait = false;       // a running sequence is about to compute and publish more of this one's prefix
};

class SchedulerMemory {
 public:
  virtual ~SchedulerMemory() = default;
  // Latent pages that nobody holds (vacant or cached), now.
  virtual int free_latent_pages() const = 0;
  virtual PrefixHit probe(SequenceId id) = 0;
  // Latent pages that a running sequence holds alone: what its preemption gives back.
  virtual int exclusive_latent_pages(SequenceId id) const = 0;
  // Whether the swap space has room for the state of a running sequence, beside those already planned in this step.
  virtual bool can_swap(SequenceId id) = 0;
};

}  // namespace sluice
