// PrefixHit: the cached prefix of a sequence that is not running. Plain values.
// Used by prefix_cache.h and sched/plan_facts.h.
#pragma once

#include "base/index_types.h"

namespace sluice {

struct PrefixHit {
  Position resume = 0;   // tokens that need not be computed: a multiple of 128, less than the sequence's tokens
  Position shared = 0;   // >= resume: tokens whose latent pages are there (the rows between are computed for their
                         // windows only)
  int claimed_free = 0;  // number of these pages without an owner: they count as free until this sequence claims them
  bool wait = false;     // a running sequence is about to compute and insert more of this one's prefix
};

}  // namespace sluice
