// PlanFacts: what a plan is made from besides the scheduler's own counts: the state of the memory before the step.
// Plain values, gathered before plan() (gather() in sched/scheduler.h); they must hold until the plan is carried out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/index_types.h"
#include "cache/prefix_hit.h"
#include "sched/drafts/drafts.h"

namespace sluice {

// What the prefix cache has of a sequence that is not running.
struct PrefixLookup {
  SequenceId sequence;
  PrefixHit hit;  // `wait` is about what runs; none for a swapped sequence, which comes back where it was
  // Identifies the first full block that the sequence would compute itself and that is not cached: two sequences have
  // the same value if and only if it is the same block after the same tokens. 0: there is none.
  std::uint64_t next_block = 0;
};

// What a running sequence leaves behind when it is preempted.
struct Leaver {
  SequenceId sequence;
  int latent_pages = 0;         // that only it holds
  std::size_t image_bytes = 0;  // of its state in the swap space
};

struct PlanFacts {
  int free_latent_pages = 0;   // that nobody holds: vacant or cached
  std::size_t swap_bytes = 0;  // free in the swap space
  std::vector<PrefixLookup> lookups;
  std::vector<Leaver> leavers;
  std::vector<DraftOffer> offers = {};  // for decoding sequences, those of one next to each other
};

// A fact that a plan may depend on.
struct Question {
  enum class About { kNothing, kPrefix, kLeaving };

  About about = About::kNothing;
  SequenceId sequence;

  explicit operator bool() const { return about != About::kNothing; }
};

}  // namespace sluice
