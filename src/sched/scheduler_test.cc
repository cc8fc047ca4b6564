#include "sched/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "base/test_seed_testing.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

SchedulerLimits limits() {
  return {.max_batched_tokens = 16,
          .max_seqs = 4,
          .max_model_len = 10000,
          .latent_pages = 100,
          .window_pages = 100,
          .geometry = {.window_tokens = 128, .has_latents = true, .has_windows = true}};
}

SequenceId id(int i) {
  return SequenceId(i);
}

std::vector<Span> step(Scheduler& scheduler) {
  std::vector<Span> spans = scheduler.plan().spans;
  scheduler.completed();
  return spans;
}

TEST(SchedulerTest, PromptsAreCutByTheBudgetAndThenDecode) {
  Scheduler s(limits());
  s.add(id(0), {40, 5});
  EXPECT_THAT(s.plan().admissions, ElementsAre(id(0)));
  s.completed();
  EXPECT_THAT(step(s), ElementsAre(Span{id(0), 16, 16, false}));
  EXPECT_THAT(step(s), ElementsAre(Span{id(0), 32, 8, true}));
  EXPECT_THAT(step(s), ElementsAre(Span{id(0), 40, 1, true}));
  s.end(id(0));
  EXPECT_THAT(step(s), IsEmpty());
}

TEST(SchedulerTest, DecodesGoFirstAndPromptsShareWhatIsLeftInOrder) {
  Scheduler s(limits());
  s.add(id(0), {1, 5});
  step(s);
  s.add(id(1), {12, 5});
  s.add(id(2), {20, 5});
  EXPECT_THAT(step(s), ElementsAre(Span{id(0), 1, 1, true}, Span{id(1), 0, 12, true}, Span{id(2), 0, 3, false}));
  EXPECT_THAT(step(s), ElementsAre(Span{id(0), 2, 1, true}, Span{id(1), 12, 1, true}, Span{id(2), 3, 14, false}));
}

TEST(SchedulerTest, DecodesBeyondTheBudgetTakeTurns) {
  SchedulerLimits l = limits();
  l.max_batched_tokens = 2;
  l.max_seqs = 5;
  Scheduler s(l);
  for (int i = 0; i < 5; ++i) s.add(id(i), {1, 100});
  for (int i = 0; i < 20 && s.waiting() > 0; ++i) step(s);
  EXPECT_EQ(s.running(), 5);  // prompts advance although two decodes fill the budget
  std::map<int, std::vector<int>> served;
  for (int i = 0; i < 50; ++i) {
    const auto spans = step(s);
    EXPECT_EQ(spans.size(), 2U);
    for (const Span& span : spans) served[span.sequence.value].push_back(i);
  }
  EXPECT_EQ(served.size(), 5U);
  for (const auto& [sequence, steps] : served) {
    EXPECT_LT(steps.front(), 3);
    for (std::size_t i = 1; i < steps.size(); ++i) EXPECT_LE(steps[i] - steps[i - 1], 3) << sequence;
  }
}

TEST(SchedulerTest, OneRowABudgetStillServesEverybody) {
  SchedulerLimits l = limits();
  l.max_batched_tokens = 1;
  Scheduler s(l);
  s.add(id(0), {1, 100});
  s.add(id(1), {3, 100});
  EXPECT_THAT(step(s), ElementsAre(Span{id(0), 0, 1, true}));
  EXPECT_THAT(step(s), ElementsAre(Span{id(1), 0, 1, false}));
  EXPECT_THAT(step(s), ElementsAre(Span{id(0), 1, 1, true}));
  EXPECT_THAT(step(s), ElementsAre(Span{id(1), 1, 1, false}));
  EXPECT_THAT(step(s), ElementsAre(Span{id(0), 2, 1, true}));
}

TEST(SchedulerTest, AdmitsInOrderWhatMemoryHolds) {
  SchedulerLimits l = limits();
  l.latent_pages = 3;
  Scheduler s(l);
  s.add(id(0), {128, 129});  // 256 rows: 2 pages
  s.add(id(1), {128, 2});    // 129 rows: 2 pages
  s.add(id(2), {1, 1});      // 1 page, but not before its turn
  EXPECT_THAT(s.plan().admissions, ElementsAre(id(0)));
  s.completed();
  EXPECT_EQ(s.waiting(), 2);
  for (int i = 0; i < 7; ++i) step(s);
  EXPECT_EQ(s.waiting(), 2);
  s.end(id(0));
  EXPECT_THAT(s.plan().admissions, ElementsAre(id(1)));
  s.completed();
  for (int i = 0; i < 8; ++i) step(s);
  EXPECT_EQ(s.running(), 2);
}

TEST(SchedulerTest, SpansShrinkWhereWindowPagesAreShort) {
  SchedulerLimits l = limits();
  l.max_batched_tokens = 1000;
  l.window_pages = 4;
  l.max_seqs = 2;
  Scheduler s(l);
  s.add(id(0), {1000, 1});
  s.add(id(1), {1000, 1});
  EXPECT_THAT(step(s), ElementsAre(Span{id(0), 0, 512, false}));  // 2 pages of its own and the 2 spare ones
  // Position 512 sees block 3, so blocks 3 to 6.
  EXPECT_THAT(step(s), ElementsAre(Span{id(0), 512, 384, false}));
  EXPECT_THAT(step(s), ElementsAre(Span{id(0), 896, 104, true}, Span{id(1), 0, 256, false}));
}

TEST(SchedulerTest, WhatNeverFitsIsRefusedWithNumbers) {
  const Scheduler s(limits());
  EXPECT_TRUE(s.check({1, 1}).ok());
  EXPECT_TRUE(s.check({9000, 1000}).ok());
  EXPECT_THAT(s.check({9000, 1001}).message(), HasSubstr("prompt (9000 tokens) + max_tokens (1001) = 10001"));
  SchedulerLimits l = limits();
  l.latent_pages = 2;
  const Scheduler small(l);
  EXPECT_TRUE(small.check({200, 57}).ok());
  EXPECT_THAT(small.check({200, 58}).message(), HasSubstr("need 3 cache pages of 128 tokens, but there are 2"));
}

TEST(SchedulerTest, EndingAWaitingSequenceLetsTheNextOneGo) {
  SchedulerLimits l = limits();
  l.latent_pages = 2;
  Scheduler s(l);
  s.add(id(0), {10, 1});
  step(s);
  s.add(id(1), {200, 1});
  s.add(id(2), {10, 1});
  EXPECT_THAT(s.plan().admissions, IsEmpty());
  s.completed();
  s.end(id(1));
  EXPECT_THAT(s.plan().admissions, ElementsAre(id(2)));
}

// Drives a scheduler with random arrivals, aborts and ends, and checks every plan against a model of its own.
class Fuzz {
 public:
  explicit Fuzz(unsigned seed) : random_(seed), limits_(random_limits()), scheduler_(limits_) {}

  void run() {
    for (int i = 0; i < 400 && !::testing::Test::HasFatalFailure(); ++i) one_step(i);
    for (int i = 400; !live_.empty() && !::testing::Test::HasFatalFailure(); ++i) {
      ASSERT_LT(i, 1000000) << "no end";
      draining_ = true;
      one_step(i);
    }
    EXPECT_EQ(scheduler_.running() + scheduler_.waiting(), 0);
  }

 private:
  struct Live {
    SequenceCounts counts;
    Position computed = 0;
    int known = 0;
    bool admitted = false;
    std::int64_t last_served = 0;
    int most_decoding = 0;  // the most sequences that decoded at once since it was last served
    int arrival = 0;
  };

  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  SchedulerLimits random_limits() {
    SchedulerLimits l;
    l.max_batched_tokens = 1 + below(below(2) ? 8 : 600);
    l.max_seqs = 1 + below(20);
    l.max_model_len = 2000;
    l.geometry = {.window_tokens = 1 + below(300), .has_latents = below(8) != 0, .has_windows = below(8) != 0};
    l.latent_pages = l.geometry.has_latents ? 4 + below(60) : 0;
    l.window_pages = l.geometry.steady_window_pages() + below(30);
    return l;
  }

  void arrivals() {
    for (int n = below(3); n > 0; --n) {
      const SequenceCounts counts{1 + below(below(3) ? 40 : 700), 1 + below(30)};
      if (!scheduler_.check(counts).ok()) continue;
      int free = 0;
      while (live_.count(free)) ++free;
      live_[free] = {.counts = counts, .known = counts.prompt_tokens, .arrival = ++arrived_};
      scheduler_.add(id(free), counts);
    }
  }

  void aborts() {
    if (live_.empty() || below(6) != 0) return;
    auto victim = live_.begin();
    std::advance(victim, below(static_cast<int>(live_.size())));
    scheduler_.end(id(victim->first));
    live_.erase(victim);
  }

  void one_step(int now) {
    if (!draining_) arrivals();
    aborts();
    int decoding = 0;
    for (auto& [i, s] : live_) decoding += s.admitted && s.computed >= s.counts.prompt_tokens;
    const StepPlan plan = scheduler_.plan();
    check_admissions(plan);
    check_memory(plan);
    int rows = 0, decodes = 0;
    std::vector<bool> seen(1000);
    for (const Span& span : plan.spans) {
      ASSERT_FALSE(seen[static_cast<std::size_t>(span.sequence.value)]) << "two spans";
      seen[static_cast<std::size_t>(span.sequence.value)] = true;
      const Live& s = live_.at(span.sequence.value);
      ASSERT_TRUE(s.admitted);
      ASSERT_EQ(span.first_position, s.computed);
      ASSERT_GE(span.rows, 1);
      ASSERT_LE(span.first_position + span.rows, s.known);
      ASSERT_EQ(span.samples, span.first_position + span.rows == s.known);
      decodes += s.computed >= s.counts.prompt_tokens;
      rows += span.rows;
    }
    ASSERT_EQ(rows, plan.rows);
    ASSERT_LE(rows, limits_.max_batched_tokens);
    const bool prompt_took_a_turn = decoding >= limits_.max_batched_tokens && rows > decodes;
    ASSERT_EQ(decodes, std::min(decoding, limits_.max_batched_tokens - prompt_took_a_turn)) << "decodes come first";
    check_prompts(rows > decodes, decoding);
    ASSERT_EQ(plan.empty(), live_.empty()) << "something could have run";
    check_turns(plan, now, decoding);
    advance(plan);
  }

  void check_admissions(const StepPlan& plan) {
    int running = 0, newest = 0;
    for (auto& [i, s] : live_) running += s.admitted;
    for (const SequenceId admitted : plan.admissions) {
      Live& s = live_.at(admitted.value);
      ASSERT_FALSE(s.admitted);
      ASSERT_GT(s.arrival, newest);
      newest = s.arrival;
      s.admitted = true;
      ++running;
    }
    ASSERT_LE(running, limits_.max_seqs);
    for (auto& [i, s] : live_) ASSERT_TRUE(s.admitted || s.arrival > newest) << "overtaken";
  }

  // Latent pages as if every sequence ran to its end at once; window pages of this very step.
  void check_memory(const StepPlan& plan) {
    const PageGeometry& g = limits_.geometry;
    int latents = 0, windows = 0;
    std::map<int, int> rows;
    for (const Span& span : plan.spans) rows[span.sequence.value] = span.rows;
    for (auto& [i, s] : live_) {
      if (!s.admitted) continue;
      latents += g.latent_pages(s.counts.rows());
      const int held = g.has_windows ? std::max(0, blocks_for(s.computed) - g.first_window_block(s.computed)) : 0;
      windows += rows.count(i) ? g.window_pages(s.computed, rows[i]) : held;
    }
    ASSERT_LE(latents, limits_.latent_pages);
    ASSERT_LE(windows, limits_.window_pages);
  }

  void check_prompts(bool advanced, int decoding) {
    bool prompts = false;
    for (auto& [i, s] : live_) prompts |= s.admitted && s.computed < s.counts.prompt_tokens;
    steps_without_prompt_ = advanced || !prompts ? 0 : steps_without_prompt_ + 1;
    most_decoding_ = steps_without_prompt_ == 0 ? 0 : std::max(most_decoding_, decoding);
    ASSERT_LE(steps_without_prompt_, turn_bound(most_decoding_ + 1)) << "prompts are starved";
  }

  int turn_bound(int sequences) const {
    return (sequences + limits_.max_batched_tokens - 1) / limits_.max_batched_tokens;
  }

  void check_turns(const StepPlan& plan, int now, int decoding) {
    for (auto& [i, s] : live_) {
      if (s.computed < s.counts.prompt_tokens) continue;
      s.most_decoding = std::max(s.most_decoding, decoding);
      const int bound = turn_bound(s.most_decoding + 1);
      ASSERT_LE(now - s.last_served, bound) << "starved";
    }
    for (const Span& span : plan.spans) {
      live_.at(span.sequence.value).last_served = now;
      live_.at(span.sequence.value).most_decoding = 0;
    }
  }

  void advance(const StepPlan& plan) {
    std::vector<SequenceId> ended;
    for (const Span& span : plan.spans) {
      Live& s = live_.at(span.sequence.value);
      s.computed += span.rows;
      s.known += span.samples;
      if (s.known == s.counts.prompt_tokens + s.counts.max_tokens || (span.samples && below(40) == 0))
        ended.push_back(span.sequence);
    }
    const bool before = below(2) == 0;  // ends may come before or after the step counts as done
    if (!before) scheduler_.completed();
    for (const SequenceId e : ended) {
      scheduler_.end(e);
      live_.erase(e.value);
    }
    if (before) scheduler_.completed();
  }

  std::mt19937 random_;
  SchedulerLimits limits_;
  Scheduler scheduler_;
  std::map<int, Live> live_;
  int arrived_ = 0, steps_without_prompt_ = 0, most_decoding_ = 0;
  bool draining_ = false;
};

TEST(SchedulerTest, KeepsItsPromisesOnRandomWorkloads) {
  const unsigned first = test_seed();
  for (unsigned i = 0; i < 150; ++i) {
    SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << first + i);
    Fuzz(first + i).run();
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

}  // namespace
}  // namespace sluice
