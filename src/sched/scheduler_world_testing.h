// SchedulerWorld, for tests: a Scheduler with a ModelMemory that answers it. step() runs one whole step.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <stdexcept>

#include "sched/model_memory_testing.h"
#include "sched/scheduler.h"

namespace sluice {

// Limits of memory and steps for tests in which latent pages are scarce.
inline SchedulerLimits scarce_limits(int latent_pages, int max_batched_tokens = 600, int max_seqs = 8) {
  return {.max_batched_tokens = max_batched_tokens,
          .max_seqs = max_seqs,
          .max_model_len = 10000,
          .latent_pages = latent_pages,
          .window_pages = 1000,
          .geometry = {.resume_pages = 1, .has_latents = true, .has_windows = true},
          .watermark_pages = 0};
}

class SchedulerWorld {
 public:
  explicit SchedulerWorld(const SchedulerLimits& limits, int swap_pages = 0, bool caches = true)
      : memory(limits, swap_pages, caches), scheduler(limits) {}

  // Sequences of one `family` (-1: none) have the same first `common` tokens.
  void add(int i, const SequenceCounts& counts, int family = -1, int common = 0) {
    EXPECT_TRUE(scheduler.check(counts).ok()) << scheduler.check(counts).message();
    memory.add(SequenceId(i), counts.prompt_tokens, family, common);
    scheduler.add(SequenceId(i), counts);
    answers_left_[i] = counts.max_tokens;
  }
  bool fork(int parent, int child) {
    if (!scheduler.fork(SequenceId(parent), SequenceId(child), memory.free_latent_pages())) return false;
    memory.fork(SequenceId(parent), SequenceId(child));
    answers_left_[child] = answers_left_.at(parent);
    return true;
  }
  void end(int i) {
    scheduler.end(SequenceId(i));
    memory.end(SequenceId(i));
    answers_left_.erase(i);
  }
  bool alive(int i) const { return answers_left_.count(i) != 0; }
  bool runs(int i) const { return memory.sequence(SequenceId(i)).running; }
  Position computed(int i) const { return memory.sequence(SequenceId(i)).computed; }

  const StepPlan& plan() { return scheduler.plan(memory.answers(&scheduler)); }

  // Runs a whole step and ends the sequences whose answers are complete. It throws after 20,000 steps, so that a test
  // that waits for something in a loop cannot hang.
  StepPlan step() {
    constexpr int kMostSteps = 20'000;
    if (++steps_ > kMostSteps) throw std::runtime_error("what the test waits for has not come in 20,000 steps");
    const StepPlan plan = this->plan();
    memory.carry_out(plan);
    memory.finish(plan);
    scheduler.completed();
    for (const Span& span : plan.spans) {
      if (!span.samples) continue;
      memory.append(span.sequence);
      if (--answers_left_.at(span.sequence.value) == 0) end(span.sequence.value);
    }
    memory.audit();
    EXPECT_EQ(memory.problem(), "");
    return plan;
  }
  std::vector<Span> spans() { return step().spans; }
  void steps(int n) {
    for (int i = 0; i < n; ++i) step();
  }

  ModelMemory memory;
  Scheduler scheduler;

 private:
  std::map<int, int> answers_left_;
  int steps_ = 0;
};

}  // namespace sluice
