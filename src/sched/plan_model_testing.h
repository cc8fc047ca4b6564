// PlanModel: a model of sequences that knows only a scheduler's plans, and checks each against the promises of
// scheduler.h.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include "sched/scheduler.h"

namespace sluice {

class PlanModel {
 protected:
  // The k-th arrival has the id id_factor * k.
  PlanModel(const SchedulerLimits& limits, int id_factor)
      : id_factor_(id_factor), limits_(limits), scheduler_(limits) {}

  struct Live {
    SequenceCounts counts;
    std::int64_t arrival = 0;
    bool running = false, decoding = false, swapped = false, paused = false;
    Position computed = 0, preempted_at = -1;
    int known = 0;
    std::int64_t due = 0;         // when it decodes: the last step that may serve it
    int bypassed = 0;             // younger ones admitted while it was the oldest prompt and found no room
    bool waits = false;           // for another
    std::int64_t first_wait = 0;  // when it first did
    int span_rows = 0;            // in this plan

    bool is_prompt() const { return running && !decoding; }
  };

  static bool failed() { return ::testing::Test::HasFatalFailure() || ::testing::Test::HasNonfatalFailure(); }
  SequenceId id(int k) const { return SequenceId(k * id_factor_ % 100003); }
  int number(SequenceId sequence) const { return numbers_.at(sequence.value); }
  Live& live(SequenceId sequence) { return live_.at(number(sequence)); }

  int decodes_per_round() const { return limits_.max_batched_tokens; }
  std::int64_t turn_bound(int decoding) const {
    const int rounds = (decoding + decodes_per_round() - 1) / decodes_per_round();
    return limits_.mixed && limits_.chunked_prefill ? rounds : 2 * rounds;
  }
  int decoding() const {
    int n = 0;
    for (const auto& [k, s] : live_) n += s.decoding && !s.paused;
    return n;
  }
  // Smaller is better.
  using Order = std::tuple<bool, int, std::int64_t>;
  int priority(const Live& s) const { return limits_.policy == SchedulingPolicy::kPriority ? s.counts.priority : 0; }
  Order rank(const Live& s) const { return {s.paused, priority(s), s.arrival}; }

  // A sequence waits from the plan that makes it wait to the lookup that lets it go on.
  void note_waits(const PlanFacts& facts, const StepPlan& plan) {
    for (const PrefixLookup& lookup : facts.lookups) live(lookup.sequence).waits &= lookup.hit.wait;
    for (const SequenceId sequence : plan.waits) live(sequence).waits = true;
  }

  void check(const StepPlan& plan) {
    for (auto& [k, s] : live_) s.span_rows = 0;
    check_preemptions(plan);
    check_admissions(plan);
    check_spans(plan);
    if (failed()) return;
    check_order(plan);
    check_windows();
    check_turns();
  }

  int id_factor_;
  SchedulerLimits limits_;
  Scheduler scheduler_;
  bool forced_ = false, forced_now_ = false;
  std::map<int, Live> live_;    // by number
  std::map<int, int> numbers_;  // numbers by id
  std::int64_t now_ = 0;
  std::map<int, int> offered_;  // by id: tokens, the most of them in this plan
  std::int64_t drafted_ = 0;

 private:
  // True if a plan may have no row: no unpaused sequence runs, and either paused ones run, whose memory those that wait
  // may need, or no unpaused sequence waits.
  bool may_be_idle() const {
    bool one_waits = false, one_holds = false;
    for (const auto& [k, s] : live_) {
      if (s.running && !s.paused) return false;
      one_waits |= !s.running && !s.paused;
      one_holds |= s.running;
    }
    return one_holds || !one_waits;
  }

  void check_preemptions(const StepPlan& plan) {
    const Live* best = nullptr;
    bool eligible = false;
    for (const auto& [k, s] : live_) {
      if (!s.running) continue;
      if (best == nullptr || rank(s) < rank(*best)) best = &s;
      eligible |= s.computed > s.preempted_at;
    }
    bool better_waits = false;
    int best_waiting = std::numeric_limits<int>::max();
    for (const auto& [k, s] : live_) {
      if (s.running || s.paused) continue;
      better_waits |= best != nullptr && priority(s) < priority(*best);
      best_waiting = std::min(best_waiting, priority(s));
    }
    forced_now_ = forced_ && eligible;
    forced_ = forced_ && !forced_now_;
    ASSERT_GE(plan.preemptions.size(), forced_now_ ? 1U : 0U) << "a forced preemption did not come";
    std::map<int, bool> spans;
    for (const Span& span : plan.spans) spans[number(span.sequence)] = true;
    for (std::size_t i = 0; i < plan.preemptions.size(); ++i) {
      const Preemption& p = plan.preemptions[i];
      Live& s = live(p.sequence);
      ASSERT_TRUE(s.running) << "only what runs is preempted";
      ASSERT_EQ(spans.count(number(p.sequence)), 0U) << "preempted and computed";
      const bool forced = forced_now_ && i == 0;
      ASSERT_TRUE(forced || &s != best || better_waits) << "the best one was preempted";
      s.running = s.decoding = false;
      s.swapped = p.swap;
      s.preempted_at = s.computed;
      if (!p.swap) s.computed = 0;
      if (forced) continue;
      for (const auto& [k, other] : live_) {
        if (!other.running || rank(other) <= rank(s)) continue;
        if (other.paused && limits_.policy == SchedulingPolicy::kPriority && priority(other) <= best_waiting) continue;
        bool later = spans.count(k) != 0;
        for (const Preemption& q : plan.preemptions) later |= number(q.sequence) == k;
        ASSERT_TRUE(later) << "a worse one without a span was left";
      }
    }
  }

  void check_admissions(const StepPlan& plan) {
    Live* oldest = nullptr;  // the oldest of all that have known tokens to compute
    for (auto& [k, s] : live_) {
      if (!waits_for_another(k) && !s.decoding && !s.paused && oldest == nullptr) oldest = &s;
    }
    const bool oldest_waited = oldest != nullptr && !oldest->running;
    const bool preempted_for_memory =
        limits_.policy != SchedulingPolicy::kPriority && plan.preemptions.size() > (forced_now_ ? 1U : 0U);
    ASSERT_TRUE(!preempted_for_memory || plan.admissions.empty()) << "one goes for memory and another one comes";
    for (const Admission& a : plan.admissions) {
      Live& s = live(a.sequence);
      ASSERT_FALSE(s.running);
      ASSERT_FALSE(s.paused) << "it was to wait";
      ASSERT_EQ(a.restore, s.swapped);
      ASSERT_LT(a.first_position, s.known);
      for (const Preemption& p : plan.preemptions) ASSERT_NE(p.sequence, a.sequence) << "in and out in one plan";
      s.running = true;
      s.swapped = false;
      s.computed = a.first_position;
      s.bypassed = 0;
    }
    int running = 0;
    for (const auto& [k, s] : live_) running += s.running;
    ASSERT_LE(running, limits_.max_seqs);
    ASSERT_EQ(running, scheduler_.running());
    if (!limits_.chunked_prefill || !oldest_waited || oldest->running) return;
    for (const Admission& a : plan.admissions) oldest->bypassed += live(a.sequence).arrival > oldest->arrival;
    const int most = limits_.policy == SchedulingPolicy::kFair ? Scheduler::kMaxBypasses : 0;
    if (limits_.policy == SchedulingPolicy::kPriority) return;  // arrival is not its order; check_order()
    ASSERT_LE(oldest->bypassed, most) << "younger ones passed";
  }

  bool waits_for_another(int k) {
    Live& s = live_.at(k);
    if (s.running || !s.waits) return false;
    if (s.first_wait == 0) s.first_wait = now_;
    return now_ < s.first_wait + Scheduler::kMaxShareWaits;
  }

  void check_spans(const StepPlan& plan) {
    int rows = 0, decodes = 0, drafts = 0;
    for (const Span& span : plan.spans) {
      Live& s = live(span.sequence);
      ASSERT_EQ(s.span_rows, 0) << "two spans";
      s.span_rows = span.rows;
      ASSERT_TRUE(s.running);
      ASSERT_FALSE(s.paused) << "rows for a paused one";
      ASSERT_EQ(span.first_position, s.computed);
      ASSERT_GE(span.rows, 1);
      if (s.decoding) {
        ASSERT_EQ(span.rows, 1 + span.drafts);
        ASSERT_LE(span.drafts, offered_[span.sequence.value]);
        drafts += span.drafts;
        ASSERT_LE(span.first_position + span.rows, s.counts.rows());
        ASSERT_TRUE(span.samples);
      } else {
        ASSERT_EQ(span.drafts, 0);
        ASSERT_LE(span.first_position + span.rows, s.known);
        ASSERT_EQ(span.samples, span.first_position + span.rows == s.known);
      }
      ASSERT_TRUE(span.samples || limits_.chunked_prefill || !s.is_prompt()) << "a prompt was cut";
      if (s.is_prompt() && limits_.chunked_prefill && limits_.long_prefill_token_threshold > 0) {
        ASSERT_LE(span.rows, limits_.long_prefill_token_threshold);
      }
      decodes += s.decoding;
      rows += span.rows;
    }
    for (const Admission& a : plan.admissions) ASSERT_GE(live(a.sequence).span_rows, 1);
    ASSERT_EQ(rows, plan.rows);
    ASSERT_LE(rows, limits_.max_batched_tokens);
    if (drafts > 0) {
      drafted_ += drafts;
      ASSERT_EQ(decodes, decoding()) << "drafts while a decode has no row";
      const bool has_prompts = decodes < static_cast<int>(plan.spans.size());
      ASSERT_LE(drafts, (limits_.max_batched_tokens - decodes) / (has_prompts ? 4 : 1)) << "drafts before prompts";
    }
    ASSERT_TRUE(limits_.mixed || decodes == 0 || decodes == static_cast<int>(plan.spans.size())) << "mixed";
    ASSERT_TRUE(!plan.empty() || may_be_idle() || (forced_now_ && scheduler_.running() == 0)) << "nothing was planned";
    if (decoding() <= decodes_per_round() && limits_.mixed && limits_.chunked_prefill) {
      ASSERT_EQ(decodes, decoding()) << "a decode was left out";
    }
  }

  // Checks that no sequence overtakes within the order of the policy.
  void check_order(const StepPlan& plan) {
    if (limits_.policy == SchedulingPolicy::kFair) return;
    std::optional<Order> worst_served, worst_admitted;
    for (const auto& [k, s] : live_) {
      if (s.is_prompt() && s.span_rows > 0 && (!worst_served || rank(s) > *worst_served)) worst_served = rank(s);
    }
    for (const Admission& a : plan.admissions) {
      const auto r = rank(live(a.sequence));
      if (!worst_admitted || r > *worst_admitted) worst_admitted = r;
    }
    for (const auto& [k, s] : live_) {
      if (s.paused) continue;
      ASSERT_FALSE(s.is_prompt() && s.span_rows == 0 && worst_served && rank(s) < *worst_served) << "overtaken";
      if (!s.running && !waits_for_another(k)) {
        ASSERT_FALSE(worst_admitted && rank(s) < *worst_admitted) << "overtaken while it waited";
      }
    }
  }

  // The pages of the window pool in this very step; those of the latent pool are the memory's own to check.
  void check_windows() {
    const PageGeometry& g = limits_.geometry;
    if (!g.has_windows) return;
    int windows = 0;
    for (const auto& [k, s] : live_) {
      if (!s.running) continue;
      const int held = std::max(0, blocks_for(s.computed) - g.first_window_block(s.computed));
      windows += s.span_rows > 0 ? g.window_pages(s.computed, s.span_rows) : held;
    }
    ASSERT_LE(windows, limits_.window_pages);
  }

  void check_turns() {
    const int n = decoding();
    for (auto& [k, s] : live_) {
      if (!s.decoding || s.paused) continue;
      if (s.span_rows > 0) {
        s.due = now_ + turn_bound(n);
      } else {
        ASSERT_LT(now_, s.due) << "a decode missed its turn";
      }
    }
  }
};

}  // namespace sluice
