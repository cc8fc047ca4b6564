// ToldMemory: answers a scheduler's questions as a test sets it up to.
#pragma once

#include <gtest/gtest.h>

#include <set>

#include "sched/scheduler.h"

namespace sluice {

struct ToldMemory {
  const StepPlan& plan(Scheduler* scheduler) {
    asked.clear();
    PlanFacts facts{.free_latent_pages = free, .swap_bytes = 0, .lookups = {}, .leavers = {}};
    gather(
        scheduler, &facts,
        [this](SequenceId id) {
          EXPECT_TRUE(asked.insert(id.value).second) << "twice in a plan";
          return PrefixLookup{.sequence = id, .hit = {.wait = wait}};
        },
        [this](SequenceId id) { return Leaver{.sequence = id, .latent_pages = exclusive, .image_bytes = 1}; });
    return scheduler->plan(facts);
  }

  int free = 100, exclusive = 0;
  bool wait = false;
  std::set<int> asked;  // about prefixes, by the last plan
};

}  // namespace sluice
