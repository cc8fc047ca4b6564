// Compares the records of steps with the stepper's plans and the pools, under random schedules.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <tuple>
#include <utility>

#include "base/sanitizer_testing.h"
#include "base/test_seed_testing.h"
#include "engine/step/stepper_testing.h"

namespace sluice::stepper_record_test {
namespace {

using Kind = StepItem::Kind;

// A sequence's span in a plan: {number, first, rows}.
using SpanSeen = std::tuple<std::uint32_t, int, int>;

// Random requests over a stepper; after each step the record is compared.
class RecordedSchedule {
 public:
  explicit RecordedSchedule(unsigned seed) : random_(seed), stepper_options_(options()), stage_(stepper_options_) {
    stepper().record_in(&recorder_);
  }

  void run() {
    int left = pick(2, 7);
    while (left > 0 || !ids_.empty()) {
      while (left > 0 && (stepper().idle() || pick(0, 2) == 0)) {
        arrive();
        --left;
      }
      if (!ids_.empty() && pick(0, 14) == 0) cancel();
      pause_and_go_on();
      if (!stepper().idle()) step();
      if (::testing::Test::HasFailure()) return;
    }
  }
  std::uint64_t preemptions() const { return preemptions_; }
  std::uint64_t hits() const { return hits_; }
  std::uint64_t waits() const { return waits_; }
  std::uint64_t again() const { return again_; }
  std::uint64_t pauses() const { return pauses_; }
  std::uint64_t idle_plans() const { return all_idle_; }

 private:
  Stepper& stepper() { return stage_.stepper(); }
  int pick(int least, int most) { return std::uniform_int_distribution(least, most)(random_); }

  EngineSetup options() {
    EngineSetup options = small_options();
    options.audit = false;
    options.scheduler.max_num_batched_tokens = pick(0, 1) ? 64 : 300;
    options.scheduler.max_num_seqs = pick(1, 4);
    options.scheduler.scheduling_policy = pick(0, 1) ? SchedulingPolicy::kFair : SchedulingPolicy::kPriority;
    options.testing.force_preempt_every = pick(0, 2) ? 0 : 3;
    if (pick(0, 1)) options.cache.swap_space = 1 << 20;
    if (pick(0, 1)) options.cache.kv_cache_memory = 1 << 19;
    return options;
  }

  void arrive() {
    const std::vector<TokenId> common = random_tokens(400, 1);
    const auto shared = common.begin() + pick(0, 3) * 128;
    const std::vector<TokenId> prompt =
        joined({common.begin(), shared}, random_tokens(pick(1, 200), static_cast<unsigned>(random_())));
    const int answer = pick(1, 30);
    if (!stepper().check(static_cast<int>(prompt.size()), answer).ok()) return;
    const std::string name = std::to_string(next_++);
    ids_[name] = stage_.add(name, prompt, answer, pick(0, 2));
    numbers_[ids_[name].value] = next_;
    lengths_[next_] = {static_cast<int>(prompt.size()), answer};
  }

  void cancel() {
    const auto victim = std::next(ids_.begin(), pick(0, static_cast<int>(ids_.size()) - 1));
    stage_.end(victim->second);
    paused_.erase(victim->second);
    ids_.erase(victim);
  }

  void pause_and_go_on() {
    for (const auto& [name, id] : ids_) {
      const bool paused = paused_.contains(id);
      if (pick(0, paused ? 4 : 19) != 0) continue;
      if (paused) paused_.erase(id);
      if (!paused) paused_.insert(id);
      stepper().set_paused(id, !paused);
      told_.emplace_back(numbers_.at(id.value), !paused);
    }
  }

  void step() {
    const EngineStats before = stage_.stats();
    const std::map<std::int32_t, std::uint32_t> numbers = numbers_;
    // Takes the sequences as they are at the plan: Stage ends complete ones.
    Result<ComputedStep> step = stepper().begin().commit();
    ASSERT_TRUE(step.ok());
    const StepPlan plan = stepper().plan();
    const EngineStats planned = stage_.stats();
    const std::vector<SequenceId> sampled(step->sampled().begin(), step->sampled().end());
    for (std::size_t row = 0; row < sampled.size(); ++row) {
      const std::string name = name_of(sampled[row]);
      stage_.take(sampled[row], row);
      if (static_cast<int>(stage_.answer(name).size()) == lengths_.at(numbers.at(sampled[row].value)).second) {
        paused_.erase(sampled[row]);
        ids_.erase(name);
      }
    }
    std::move(*step).end();
    stepper().close_record();
    const std::vector<StepRecord> records = recorder_.read(steps_, 10);
    if (plan.empty() && stepper().counts().blocked && stepper().counts().paused > 0) {
      ++idle_plans_;
      EXPECT_TRUE(records.empty());
      return;
    }
    ASSERT_EQ(records.size(), 1U);
    EXPECT_EQ(records[0].number, steps_++);
    compare_counts(records[0], before, planned);
    compare_plan(records[0], plan, numbers);
    compare_pauses(records[0]);
    again_ += stage_.stats().preemptions_recompute - before.preemptions_recompute;
  }

  std::string name_of(SequenceId id) const {
    for (const auto& [name, named] : ids_) {
      if (named == id) return name;
    }
    ADD_FAILURE() << "no such sequence";
    return "";
  }

  void compare_plan(const StepRecord& record, const StepPlan& plan,
                    const std::map<std::int32_t, std::uint32_t>& numbers) {
    std::vector<SpanSeen> expected, found;
    for (const Span& span : plan.spans) {
      expected.emplace_back(numbers.at(span.sequence.value), span.first_position, span.rows);
    }
    std::vector<std::tuple<std::uint32_t, bool>> preempted, preempted_found;
    for (const Preemption& p : plan.preemptions) preempted.emplace_back(numbers.at(p.sequence.value), p.swap);
    std::map<std::uint32_t, int> admitted, admitted_found;
    for (const Admission& a : plan.admissions) admitted[numbers.at(a.sequence.value)] = a.first_position;
    std::size_t waits = 0;
    for (const StepItem& item : record.items) {
      if (item.kind == Kind::kSpan) {
        found.emplace_back(item.sequence, item.a, item.rows());
        EXPECT_LE(item.again(), item.rows());
        check_again(item);
      }
      if (item.kind == Kind::kPreemption)
        preempted_found.emplace_back(item.sequence, (item.flags & StepItem::kSwapped) != 0);
      if (item.kind == Kind::kAdmission) admitted_found[item.sequence] = item.a;
      waits += item.kind == Kind::kWait;
      if (item.kind == Kind::kArrival) {
        EXPECT_EQ((std::pair{item.a, item.b}), lengths_.at(item.sequence));
      }
    }
    EXPECT_EQ(found, expected);
    EXPECT_EQ(preempted_found, preempted);
    EXPECT_EQ(admitted_found, admitted);
    EXPECT_EQ(waits, plan.reasons.size());
    EXPECT_EQ(record.rows, plan.rows);
    waits_ += waits;
  }

  void compare_pauses(const StepRecord& record) {
    std::vector<std::pair<std::uint32_t, bool>> found;
    std::uint64_t idle = 0;
    for (const StepItem& item : record.items) {
      if (item.kind == Kind::kPause) found.emplace_back(item.sequence, item.a == 1);
      if (item.kind == Kind::kIdle) idle += static_cast<std::uint64_t>(item.a);
    }
    EXPECT_EQ(found, told_);
    EXPECT_EQ(idle, idle_plans_);
    pauses_ += told_.size();
    all_idle_ += std::exchange(idle_plans_, 0);
    told_.clear();
  }

  void check_again(const StepItem& span) {
    int& reached = reached_[span.sequence];
    EXPECT_EQ(span.again(), std::max(0, std::min(reached, span.a + span.rows()) - span.a));
    reached = std::max(reached, span.a + span.rows());
  }

  void compare_counts(const StepRecord& record, const EngineStats& before, const EngineStats& planned) {
    const EngineStats now = stage_.stats();
    const CachePools& pools = stage_.runner().cache().pools();
    EXPECT_EQ(record.latent_used, pools.latents().used());
    EXPECT_EQ(record.latent_cached, pools.latents().cached());
    EXPECT_EQ(record.window_used, pools.windows().used());
    EXPECT_EQ(record.window_cached, pools.windows().cached());
    EXPECT_EQ(record.slots_used, pools.slots().used());
    EXPECT_EQ(record.swap_bytes, now.swap_bytes_used);
    EXPECT_EQ(record.running, now.running);
    EXPECT_EQ(record.waiting, now.waiting);
    std::uint64_t resumed = 0, matched = 0, swaps = 0, recomputed = 0, restored = 0;
    for (const StepItem& item : record.items) {
      const bool swapped = (item.flags & StepItem::kSwapped) != 0;
      if (item.kind == Kind::kAdmission && !swapped) {
        const bool is_first = !cached_.contains(item.sequence);
        int& cached = cached_[item.sequence];
        const int counted = is_first ? 0 : std::max(cached, reached_[item.sequence]);
        const int more = std::max(0, std::min(item.a, lengths_.at(item.sequence).first - 1) - counted);
        cached = std::max(cached, item.a);
        resumed += static_cast<std::uint64_t>(more);
        matched += static_cast<std::uint64_t>(is_first ? item.b : more);
        hits_ += item.a > 0;
      }
      restored += item.kind == Kind::kAdmission && swapped;
      swaps += item.kind == Kind::kPreemption && swapped;
      recomputed += item.kind == Kind::kPreemption && !swapped;
    }
    EXPECT_EQ(resumed, planned.cache.resumed_tokens - before.cache.resumed_tokens);
    EXPECT_EQ(matched, planned.cache.matched_tokens - before.cache.matched_tokens);
    EXPECT_EQ(swaps, planned.preemptions_swap - before.preemptions_swap);
    EXPECT_EQ(recomputed, planned.preemptions_recompute - before.preemptions_recompute);
    EXPECT_EQ(restored, planned.swaps_restored - before.swaps_restored);
    preemptions_ += swaps + recomputed;
  }

  std::mt19937 random_;
  EngineSetup stepper_options_;
  StepRecorder recorder_;
  Stage stage_;
  std::map<std::string, SequenceId> ids_;  // live sequences
  std::map<std::int32_t, std::uint32_t> numbers_;
  std::set<SequenceId> paused_;
  std::vector<std::pair<std::uint32_t, bool>> told_;  // pauses, since the last record: whose, and whether it goes on
  std::map<std::uint32_t, std::pair<int, int>> lengths_;
  std::map<std::uint32_t, int> reached_;
  std::map<std::uint32_t, int> cached_;  // positions at which it resumed, the last one
  unsigned next_ = 0;
  std::uint64_t idle_plans_ = 0, all_idle_ = 0, pauses_ = 0;
  std::uint64_t steps_ = 0, preemptions_ = 0, hits_ = 0, waits_ = 0, again_ = 0;
};

TEST(StepperRecordTest, FiveHundredRandomSchedules) {
  const unsigned seed = test_seed();
  std::uint64_t preemptions = 0, hits = 0, waits = 0, again = 0, pauses = 0, idle_plans = 0;
  // The same records once more over a device that computes later (engine_later).
  constexpr unsigned kSchedules = 500;
  const unsigned schedules = tests_asynchronous() ? kSchedules / 10 : random_cases(kSchedules);
  for (unsigned schedule = 0; schedule < schedules; ++schedule) {
    RecordedSchedule one(seed + schedule);
    one.run();
    ASSERT_FALSE(HasFailure()) << "SLUICE_TEST_SEED=" << seed + schedule;
    preemptions += one.preemptions();
    hits += one.hits();
    waits += one.waits();
    again += one.again();
    pauses += one.pauses();
    idle_plans += one.idle_plans();
  }
  if (schedules < kSchedules) return;  // so few schedules may have none of these
  EXPECT_GT(preemptions, 100U);
  EXPECT_GT(hits, 100U);
  EXPECT_GT(waits, 100U);
  EXPECT_GT(again, 50U);
  EXPECT_GT(pauses, 500U);
  EXPECT_GT(idle_plans, 10U);
}

TEST(StepperRecordTest, ASnapshotSaysWhoRunsAndWhyOthersWait) {
  EngineSetup options = small_options();
  options.scheduler.max_num_seqs = 1;
  options.scheduler.scheduling_policy = SchedulingPolicy::kPriority;
  StepRecorder recorder;  // outlives the stepper
  Stage stage(options);
  stage.stepper().record_in(&recorder);
  stage.add("runs", random_tokens(200, 1), 8);
  stage.add("waits", random_tokens(20, 2), 8, 1);
  stage.add("worse", random_tokens(20, 3), 8, 2);
  for (int i = 0; i < 5; ++i) stage.step();
  const EngineSnapshot snapshot = stage.stepper().snapshot();
  EXPECT_EQ(snapshot.policy, "priority");
  EXPECT_EQ(snapshot.most_sequences, 1);
  EXPECT_EQ(snapshot.most_rows, 64);
  ASSERT_EQ(snapshot.sequences.size(), 3U);
  EXPECT_EQ(snapshot.sequences[0].state, SequenceSnapshot::State::kDecoding);
  EXPECT_EQ(snapshot.sequences[0].prompt_tokens, 200);
  EXPECT_EQ(snapshot.sequences[0].computed, snapshot.sequences[0].tokens - 1);
  EXPECT_EQ(snapshot.sequences[0].latent_pages.size(), 2U);
  EXPECT_EQ(snapshot.sequences[1].reason, WaitReason::kPlaces);
  EXPECT_EQ(snapshot.sequences[2].reason, WaitReason::kPriority);
  const CachePools& pools = stage.runner().cache().pools();
  EXPECT_EQ(snapshot.latents.pages, pools.latents().total());
  EXPECT_EQ(snapshot.latents.used, 2);
  ASSERT_GE(snapshot.latents.cells.size(), 3U);
  EXPECT_GE(snapshot.latents.cells[0].used, 1);
  EXPECT_EQ(snapshot.latents.cells.back(), PoolSnapshot::Cell{});
}

// A snapshot says of a pool what the pool says itself.
template <class Page>
void expect_pool(const Pool<Page>& pool, const PoolSnapshot& looked) {
  EXPECT_EQ(looked.pages, pool.total());
  EXPECT_EQ(looked.used, pool.used());
  EXPECT_EQ(looked.cached, pool.cached());
}

TEST(StepperRecordTest, ASnapshotAndTheCountersSayWhatIsHeldCachedAndEvicted) {
  EngineSetup options = small_options();
  options.cache.kv_cache_memory = 40 << 10;
  Stage stage(options);
  for (unsigned i = 0; stage.runner().cache().pools().latents().evicted_count() < 3; ++i) {
    ASSERT_LT(i, 500U) << "nothing is evicted";
    stage.add(std::to_string(i), random_tokens(260, 10 + i), 1);
    stage.run();
  }
  const SequenceId paused = stage.add("paused", random_tokens(20, 2), 30);
  stage.add("runs", random_tokens(30, 3), 30);
  for (int i = 0; i < 3; ++i) stage.step();
  stage.stepper().set_paused(paused, true);
  const CachePools& pools = stage.runner().cache().pools();
  const EngineSnapshot snapshot = stage.stepper().snapshot();
  EXPECT_GT(snapshot.latents.cached, 0);
  expect_pool(pools.latents(), snapshot.latents);
  expect_pool(pools.windows(), snapshot.windows);
  EXPECT_EQ(snapshot.slots_used, 2);
  EXPECT_EQ(snapshot.slots, pools.slots().total());
  EXPECT_EQ(snapshot.sequences.front().prompt_tokens, 20);
  EXPECT_EQ(snapshot.sequences.front().state, SequenceSnapshot::State::kPaused);
  const EngineStats stats = stage.stats();
  EXPECT_EQ(stats.running, 2);
  EXPECT_EQ(stats.paused, 1);
  EXPECT_EQ(stats.cache.evicted_blocks, pools.latents().evicted_count());
  EXPECT_EQ(stats.cache.evicted_windows, pools.windows().evicted_count());
  EXPECT_EQ(stats.cache.inserted_blocks, pools.latents().inserted_count());
  EXPECT_EQ(stats.cache.latent_pages_cached, pools.latents().cached());
  EXPECT_EQ(stats.cache.latent_pages_used, 2);
}

}  // namespace
}  // namespace sluice::stepper_record_test
