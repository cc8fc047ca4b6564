// ToldMemory: a SchedulerMemory that says what it is told to say, for tests.
#pragma once

#include <gtest/gtest.h>

#include <set>

#include "sched/scheduler_memory.h"

namespace sluice {

class ToldMemory final : public SchedulerMemory {
 public:
  int free_latent_pages() const override { return free; }
  PrefixHit probe(SequenceId id) override {
    EXPECT_TRUE(asked.insert(id.value).second) << "twice in a plan";
    return {.resume = 0, .shared = 0, .claimed_free = 0, .wait = wait};
  }
  int exclusive_latent_pages(SequenceId) const override { return exclusive; }
  bool can_swap(SequenceId) override { return false; }

  int free = 100, exclusive = 0;
  bool wait = false;
  std::set<int> asked;  // since it was last cleared
};

}  // namespace sluice
