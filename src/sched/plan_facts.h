// PlanFacts: the facts that a plan depends on besides the scheduler's own counts: the state of the memory before the
// step. Plain values, gathered before plan() (gather() in sched/scheduler.h); they must hold until the plan is carried
// out.
// Used by scheduler.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/index_types.h"
#include "cache/prefix_hit.h"
#include "sched/drafts/drafts.h"

namespace sluice {

// The cached prefix of a sequence that is not running.
struct PrefixLookup {
  SequenceId sequence;
  PrefixHit hit;  // `wait` is about running sequences; empty for a swapped one, which comes back where it was
  // Identifies the first full block that the sequence would compute itself and that is not cached; 0: there is none.
  // Two sequences have the same value if and only if it is the same block after the same tokens.
  std::uint64_t next_block = 0;
};

// The memory that a running sequence frees, and the image that it leaves, when it is preempted.
struct Leaver {
  SequenceId sequence;
  int latent_pages = 0;         // pages that only it holds
  std::size_t image_bytes = 0;  // size of its state in the swap space
};

struct PlanFacts {
  int free_latent_pages = 0;   // pages without an owner: vacant or cached
  std::size_t swap_bytes = 0;  // free in the swap space
  std::vector<PrefixLookup> lookups;
  std::vector<Leaver> leavers;
  std::vector<DraftOffer> offers = {};  // for decoding sequences; offers of one sequence are adjacent
};

// A fact that a plan may depend on.
struct Question {
  enum class About { kNothing, kPrefix, kLeaving };

  About about = About::kNothing;
  SequenceId sequence;

  explicit operator bool() const { return about != About::kNothing; }
};

}  // namespace sluice
