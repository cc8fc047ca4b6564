// Drafting: sequences that decode under a scheduler, with offers of drafts that a test makes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "sched/scheduler_world_testing.h"

namespace sluice {

// `sequences` that decode, each with an offer of as many drafts as it likes.
class Drafting {
 public:
  Drafting(const DraftLimits& drafts, int sequences, int budget = 64) : world_(limits(drafts, sequences, budget)) {
    for (int i = 0; i < sequences; ++i) world_.add(i, {3, 1000});
    while (world_.scheduler.decoding() < sequences) world_.step();
  }

  StepPlan plan(int offered, DraftSource source = DraftSource::kMtp) {
    PlanFacts facts = world_.memory.answers(&world_.scheduler);
    for (int i = 0; i < world_.scheduler.decoding(); ++i) {
      facts.offers.push_back({world_.scheduler.decoding(i), source, offered});
    }
    return world_.scheduler.plan(facts);
  }
  // The first `right` drafts of each are right, or all.
  int step(int offered, int right, DraftSource source = DraftSource::kMtp,
           const std::function<double(int drafts)>& seconds = {}) {
    const StepPlan plan = this->plan(offered, source);
    world_.memory.carry_out(plan);
    std::vector<int> kept;
    int drafts = 0;
    for (const Span& span : plan.spans) {
      kept.push_back(span.rows - span.drafts + std::min(right, span.drafts));
      drafts += span.drafts;
    }
    world_.memory.finish(plan, kept);
    world_.scheduler.completed();
    for (std::size_t i = 0; i < plan.spans.size(); ++i) {
      const Span& span = plan.spans[i];
      const int stays = kept[i] - (span.rows - span.drafts);
      if (span.drafts > 0) world_.scheduler.judged(span.sequence, span.source, span.drafts, stays);
      world_.memory.append(span.sequence, 1 + stays);
    }
    if (seconds) world_.scheduler.took(DecodedRows::of(plan), seconds(drafts));
    world_.memory.audit();
    EXPECT_EQ(world_.memory.problem(), "");
    return drafts;
  }
  SchedulerWorld& world() { return world_; }

 private:
  static SchedulerLimits limits(const DraftLimits& drafts, int sequences, int budget) {
    SchedulerLimits l;
    l.max_batched_tokens = budget;
    l.max_seqs = sequences + 2;
    l.max_model_len = 2000;
    l.latent_pages = 400;
    l.geometry = {.resume_pages = 0, .has_latents = true, .has_windows = false};
    l.drafts = drafts;
    return l;
  }

  SchedulerWorld world_;
};

// A row costs this part of a step of one row.
inline DraftLimits cost(double of_row, int most = 8) {
  DraftLimits limits{.most = most, .adaptive = true, .step_seconds = {}};
  for (int rows = 0; rows < 64; ++rows) limits.step_seconds.push_back(1 + of_row * rows);
  return limits;
}

}  // namespace sluice
