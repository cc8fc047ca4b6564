// Random workloads against every promise of scheduler.h, checked by a model of its own that knows only the plans. A
// second scheduler is told more than it asks, and has to make the same plans.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <tuple>
#include <vector>

#include "base/sanitizer_testing.h"
#include "base/test_seed_testing.h"
#include "sched/model_memory_testing.h"
#include "sched/scheduler.h"

namespace sluice::scheduler_property_test {
namespace {

class Fuzz {
 public:
  // The k-th arrival has the id id_factor * k: plans must not depend on it. Decodes get up to
  // `drafts` guesses a step.
  Fuzz(unsigned seed, int id_factor, int drafts = 0)
      : random_(seed),
        id_factor_(id_factor),
        limits_(random_limits(drafts)),
        memory_(limits_, below(2) * below(40), below(4) != 0),
        scheduler_(limits_),
        informed_(limits_),
        preempts_by_force_(below(3) == 0),
        loses_swapped_(below(4) == 0),
        pauses_(below(3) != 0) {}

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
  int below(int n) { return n <= 0 ? 0 : static_cast<int>(random_() % static_cast<unsigned>(n)); }
  SequenceId id(int k) const { return SequenceId(k * id_factor_ % 100003); }
  int number(SequenceId sequence) const { return numbers_.at(sequence.value); }
  Live& live(SequenceId sequence) { return live_.at(number(sequence)); }

  SchedulerLimits random_limits(int drafts) {
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

  std::int64_t rows_alive() const {
    std::int64_t rows = 0;
    for (const auto& [k, s] : live_) rows += s.counts.rows();
    return rows;
  }
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

  // What cannot run for want of the memory that paused ones hold, is all that waits.
  bool may_be_idle() const {
    bool one_waits = false, one_holds = false;
    for (const auto& [k, s] : live_) {
      if (s.running && !s.paused) return false;
      one_waits |= !s.running && !s.paused;
      one_holds |= s.running;
    }
    return one_holds || !one_waits;
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
    for (auto& [k, s] : live_) s.span_rows = 0;
    check_preemptions(plan);
    check_admissions(plan);
    check_spans(plan);
    if (failed()) return;
    check_order(plan);
    check_windows();
    check_turns();
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

  // From the plan that says so to the answer that it need not.
  void note_waits(const PlanFacts& facts, const StepPlan& plan) {
    for (const PrefixLookup& lookup : facts.lookups) live(lookup.sequence).waits &= lookup.hit.wait;
    for (const SequenceId sequence : plan.waits) live(sequence).waits = true;
  }

  // What was not asked changes no plan.
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
    Live* oldest = nullptr;  // of all that have known tokens to compute
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

  // Within the order of its policy nobody overtakes.
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
  int id_factor_;
  SchedulerLimits limits_;
  ModelMemory memory_;
  Scheduler scheduler_, informed_;
  bool preempts_by_force_, loses_swapped_, pauses_;
  bool forced_ = false, forced_now_ = false;
  std::map<int, Live> live_;    // by number
  std::map<int, int> numbers_;  // of ids
  int arrived_ = 0;
  std::int64_t now_ = 0;
  std::vector<DraftOffer> offers_;  // in this plan
  std::map<int, int> offered_;      // by id: tokens, the most of them
  std::int64_t drafted_ = 0, paused_ = 0;
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
