// Random workloads against every promise of scheduler.h, checked by a PlanModel. A second scheduler gets more facts
// than it asks for, and has to make the same plans.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "base/sanitizer_testing.h"
#include "base/test_seed_testing.h"
#include "sched/model_memory_testing.h"
#include "sched/plan_model_testing.h"
#include "sched/scheduler.h"

namespace sluice::scheduler_property_test {
namespace {

int below_of(std::mt19937& random, int n) {
  return n <= 0 ? 0 : static_cast<int>(random() % static_cast<unsigned>(n));
}

SchedulerLimits random_limits(std::mt19937& random, int drafts) {
  const auto below = [&](int n) { return below_of(random, n); };
  SchedulerLimits l;
  l.max_model_len = 1500;
  l.max_batched_tokens = 1 + below(below(2) ? 8 : 600);
  l.chunked_prefill = below(4) != 0;
  if (!l.chunked_prefill) l.max_batched_tokens = l.max_model_len + below(300);
  l.mixed = below(4) != 0;
  l.max_seqs = 1 + below(20);
  l.geometry = {.resume_pages = below(3), .has_latents = below(8) != 0, .has_windows = below(8) != 0};
  l.latent_pages = l.geometry.has_latents ? 4 + below(60) : 0;
  l.window_pages = l.geometry.steady_window_pages() + below(30);
  l.long_prefill_token_threshold = below(2) * (1 + below(200));
  l.policy = static_cast<SchedulingPolicy>(below(3));
  l.watermark_pages = below(4) - 1;
  l.recompute_cost_per_row = below(2);
  l.swap_cost_per_page = below(3) * 10;
  if (drafts == 0) return l;
  l.drafts.most = drafts;
  l.drafts.adaptive = below(3) != 0;
  for (int rows = 0; rows < below(70); ++rows) l.drafts.step_seconds.push_back(1 + 0.1 * rows + 0.05 * below(10));
  l.drafts.seconds.fill(0.01 * below(10));
  return l;
}

class Fuzz : public PlanModel {
 public:
  // The k-th arrival has the id id_factor * k: plans must not depend on it. Decodes get up to `drafts`
  // guesses a step.
  Fuzz(unsigned seed, int id_factor, int drafts = 0) : Fuzz(std::mt19937(seed), id_factor, drafts) {}

  void run(int steps = 250) {
    for (now_ = 1; now_ <= steps && !failed(); ++now_) one_step(true);
    const std::int64_t most = now_ + 2000 + 40 * rows_alive();
    for (; !live_.empty() && !failed(); ++now_) {
      ASSERT_LT(now_, most) << "no end";
      one_step(false);
    }
    if (failed()) return;
    EXPECT_EQ(scheduler_.running() + scheduler_.waiting(), 0);
    EXPECT_EQ(memory_.free_latent_pages(), limits_.latent_pages);
    EXPECT_EQ(memory_.swap_used(), 0);
  }

  std::int64_t paused() const { return paused_; }
  const std::string& log() const { return log_; }
  std::int64_t drafted() const { return drafted_; }
  std::string described() const {
    return fmt::format("budget {} seqs {} pages {}+{} policy {} chunked {} mixed {} threshold {}",
                       limits_.max_batched_tokens, limits_.max_seqs, limits_.latent_pages, limits_.window_pages,
                       static_cast<int>(limits_.policy), limits_.chunked_prefill, limits_.mixed,
                       limits_.long_prefill_token_threshold) +
           fmt::format(" drafts {} adaptive {}", limits_.drafts.most, limits_.drafts.adaptive);
  }

 private:
  Fuzz(std::mt19937&& random, int id_factor, int drafts)
      : PlanModel(random_limits(random, drafts), id_factor),
        random_(random),
        memory_(limits_, below(2) * below(40), below(4) != 0),
        informed_(limits_),
        preempts_by_force_(below(3) == 0),
        loses_swapped_(below(4) == 0),
        pauses_(below(3) != 0) {}

  int below(int n) { return below_of(random_, n); }

  std::int64_t rows_alive() const {
    std::int64_t rows = 0;
    for (const auto& [k, s] : live_) rows += s.counts.rows();
    return rows;
  }
  int new_number() {
    ++arrived_;
    numbers_[id(arrived_).value] = arrived_;
    return arrived_;
  }

  void arrivals() {
    for (int n = below(3); n > 0; --n) {
      const SequenceCounts counts{1 + below(below(3) ? 60 : 1000), 1 + below(40), below(3)};
      const int family = below(3), common = below(2) * below(8) * 100;
      if (!scheduler_.check(counts).ok()) continue;
      const int k = new_number();
      live_[k] = {.counts = counts, .arrival = k, .known = counts.prompt_tokens};
      memory_.add(id(k), counts.prompt_tokens, family, common);
      scheduler_.add(id(k), counts);
      informed_.add(id(k), counts);
    }
  }

  std::optional<int> any_live() {
    if (live_.empty()) return {};
    auto chosen = live_.begin();
    std::advance(chosen, below(static_cast<int>(live_.size())));
    return chosen->first;
  }

  void end(int k) {
    scheduler_.end(id(k));
    informed_.end(id(k));
    memory_.end(id(k));
    live_.erase(k);
  }

  void forks() {
    const std::optional<int> parent = any_live();
    if (!parent || !live_.at(*parent).running || live_.at(*parent).paused || below(4) != 0) return;
    for (int n = 1 + below(4); n > 0; --n) {
      const int child = new_number();
      const int free = memory_.free_latent_pages();
      const bool forked = scheduler_.fork(id(*parent), id(child), free);
      ASSERT_EQ(forked, informed_.fork(id(*parent), id(child), free));
      if (!forked) return;
      memory_.fork(id(*parent), id(child));
      Live& c = live_[child] = live_.at(*parent);
      c.arrival = child;
      c.preempted_at = -1;
      c.bypassed = 0;
      c.waits = false;
      c.first_wait = 0;
      if (c.decoding) c.due = now_ - 1 + turn_bound(decoding());
      ASSERT_LE(scheduler_.running(), limits_.max_seqs);
    }
  }

  void set_paused(int k, bool paused) {
    Live& s = live_.at(k);
    scheduler_.set_paused(id(k), paused);
    informed_.set_paused(id(k), paused);
    s.paused = paused;
    s.waits = false;
    if (s.decoding && !paused) s.due = now_ - 1 + turn_bound(decoding());
  }

  // In the end all go on.
  void pauses(bool more) {
    if (!pauses_) return;
    if (const std::optional<int> k = any_live(); more && k && below(6) == 0) {
      set_paused(*k, true);
      ++paused_;
    }
    for (const auto& [k, s] : live_) {
      if (s.paused && below(25) == 0) set_paused(k, false);
    }
    int paused = 0;
    for (const auto& [k, s] : live_) paused += s.paused;
    ASSERT_EQ(paused, scheduler_.paused());
  }

  void one_step(bool more) {
    if (more) {
      arrivals();
      forks();
    }
    pauses(more);
    if (const std::optional<int> k = any_live(); k && below(8) == 0) end(*k);
    if (preempts_by_force_ && below(12) == 0) {
      scheduler_.force_preemption();
      informed_.force_preemption();
      forced_ = true;
    }
    PlanFacts facts = memory_.answers(&scheduler_);
    make_offers();
    facts.offers = offers_;
    ASSERT_LE(static_cast<int>(facts.lookups.size()), limits_.max_seqs + 2 * 32 + 10);
    const StepPlan plan = scheduler_.plan(facts);
    plan_informed(plan);
    note_waits(facts, plan);
    write_log(plan);
    memory_.carry_out(plan);
    check(plan);
    if (failed()) return;
    lose_some(plan);
    advance(plan);
    memory_.audit();
    ASSERT_EQ(memory_.problem(), "");
  }

  void make_offers() {
    offers_.clear();
    offered_.clear();
    if (limits_.drafts.most == 0) return;
    for (const auto& [k, s] : live_) {
      for (const DraftSource source : {DraftSource::kShortCopy, DraftSource::kMtp}) {
        if (!s.decoding || below(3) == 0) continue;
        offers_.push_back({id(k), source, 1 + below(10)});
        offered_[id(k).value] = std::max(offered_[id(k).value], offers_.back().tokens);
      }
    }
  }

  // Facts that were not asked for change no plan.
  void plan_informed(const StepPlan& plan) {
    PlanFacts facts = memory_.answers(&informed_);
    facts.offers = offers_;
    const auto told = [](const auto& answers, SequenceId sequence) {
      return std::any_of(answers.begin(), answers.end(), [=](const auto& a) { return a.sequence == sequence; });
    };
    for (const auto& [k, s] : live_) {
      if (s.running && !told(facts.leavers, id(k))) facts.leavers.push_back(memory_.leaver(id(k)));
      if (!s.running && !told(facts.lookups, id(k))) facts.lookups.push_back(memory_.look_up(id(k)));
    }
    const StepPlan& other = informed_.plan(facts);
    ASSERT_EQ(plan.preemptions, other.preemptions);
    ASSERT_EQ(plan.admissions, other.admissions);
    ASSERT_EQ(plan.spans, other.spans);
    ASSERT_EQ(plan.waits, other.waits);
  }

  void write_log(const StepPlan& plan) {
    for (const Preemption& p : plan.preemptions) log_ += fmt::format("p{}{} ", number(p.sequence), p.swap ? "s" : "");
    for (const Admission& a : plan.admissions) log_ += fmt::format("a{}@{} ", number(a.sequence), a.first_position);
    for (const Span& s : plan.spans) log_ += fmt::format("{}+{} ", number(s.sequence), s.rows);
    log_ += '\n';
  }

  void lose_some(const StepPlan& plan) {
    if (!loses_swapped_) return;
    std::vector<SequenceId> lost;
    for (const Preemption& p : plan.preemptions) {
      if (p.swap && below(2) == 0) lost.push_back(p.sequence);
    }
    for (const Admission& a : plan.admissions) {
      if (a.restore && below(2) == 0) lost.push_back(a.sequence);
    }
    for (const SequenceId sequence : lost) {
      scheduler_.lost(sequence);
      informed_.lost(sequence);
      memory_.lose(sequence);
      Live& s = live(sequence);
      s.running = s.swapped = false;
      s.computed = 0;
      s.span_rows = 0;
    }
  }

  void advance(const StepPlan& plan) {
    std::vector<int> ended, kept, tokens;
    for (const Span& span : plan.spans) {
      tokens.push_back(1 + below(1 + span.drafts));
      kept.push_back(live(span.sequence).decoding ? tokens.back() : span.rows);
    }
    memory_.finish(plan, kept);
    for (std::size_t i = 0; i < plan.spans.size(); ++i) {
      const Span& span = plan.spans[i];
      Live& s = live(span.sequence);
      if (s.span_rows == 0) continue;  // lost
      s.computed += kept[i];
      if (!span.samples) continue;
      s.known += tokens[i];
      memory_.append(span.sequence, tokens[i]);
      const bool complete = s.known == s.counts.prompt_tokens + s.counts.max_tokens;
      if (complete || below(60) == 0) ended.push_back(number(span.sequence));
    }
    const bool end_first = below(2) == 0;  // ends may come before or after the step counts as done
    if (!end_first) complete(plan, tokens);
    for (const int k : ended) end(k);
    if (end_first) complete(plan, tokens);
  }

  void complete(const StepPlan& plan, const std::vector<int>& tokens) {
    scheduler_.completed();
    informed_.completed();
    for (std::size_t i = 0; i < plan.spans.size(); ++i) {
      const Span& span = plan.spans[i];
      const auto found = live_.find(number(span.sequence));
      if (span.drafts == 0 || found == live_.end() || found->second.span_rows == 0) continue;
      scheduler_.judged(span.sequence, span.source, span.drafts, tokens[i] - 1);
      informed_.judged(span.sequence, span.source, span.drafts, tokens[i] - 1);
    }
    std::vector<Live*> fresh;
    for (const Span& span : plan.spans) {
      const auto found = live_.find(number(span.sequence));
      if (found == live_.end() || found->second.span_rows == 0 || !span.samples || found->second.decoding) continue;
      found->second.decoding = true;
      fresh.push_back(&found->second);
    }
    for (Live* s : fresh) s->due = now_ + turn_bound(decoding());
  }

  std::mt19937 random_;
  ModelMemory memory_;
  Scheduler informed_;
  bool preempts_by_force_, loses_swapped_, pauses_;
  int arrived_ = 0;
  std::vector<DraftOffer> offers_;  // in this plan
  std::int64_t paused_ = 0;
  std::string log_;
};

TEST(SchedulerPropertyTest, KeepsItsPromisesOnRandomWorkloads) {
  const unsigned first = test_seed();
  std::int64_t paused = 0;
  const unsigned cases = random_cases(200U);
  for (unsigned i = 0; i < cases; ++i) {
    Fuzz fuzz(first + i, 1);
    SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << first + i << ": " << fuzz.described());
    fuzz.run();
    paused += fuzz.paused();
    if (HasFailure()) return;
  }
  EXPECT_GT(paused, 5 * cases);
}

TEST(SchedulerPropertyTest, KeepsThemWithDrafts) {
  const unsigned first = test_seed();
  std::int64_t drafted = 0;
  const unsigned cases = random_cases(200U);
  for (unsigned i = 0; i < cases; ++i) {
    Fuzz fuzz(first + i, 1, 1 + static_cast<int>(i % 8));
    SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << first + i << ": " << fuzz.described());
    fuzz.run();
    drafted += fuzz.drafted();
    if (HasFailure()) return;
  }
  EXPECT_GT(drafted, 5 * cases);
}

TEST(SchedulerPropertyTest, PlansDoNotDependOnIds) {
  const unsigned first = test_seed();
  for (unsigned i = 0; i < random_cases(60U); ++i) {
    SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << first + i);
    Fuzz plain(first + i, 1, 3), renamed(first + i, 39119, 3);  // prime to 100003
    plain.run(100);
    renamed.run(100);
    ASSERT_EQ(plain.log(), renamed.log());
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace sluice::scheduler_property_test
