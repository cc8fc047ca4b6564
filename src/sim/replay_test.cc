// A trace that was saved from an engine's records, sent again by its steps, gives the same plans.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <random>
#include <tuple>

#include "base/test_paths_testing.h"
#include "base/test_seed_testing.h"
#include "config/model_config.h"
#include "engine/runner/runner.h"
#include "engine/step/stepper.h"
#include "files/json.h"
#include "model/model_plan.h"
#include "sim/null_model.h"
#include "sim/simulation.h"
#include "telemetry/exports.h"

namespace sluice::replay_test {
namespace {

// The plan in words. Without ids, which are given anew: a request may take the place of one that a cancellation before
// the same step made free.
using Plans = std::vector<std::string>;

std::string words_of(const StepPlan& plan) {
  std::string text;
  for (const Preemption& p : plan.preemptions) text += p.swap ? "-swap " : "- ";
  for (const Admission& a : plan.admissions) text += fmt::format("+{} ", a.first_position);
  for (const Span& s : plan.spans) text += fmt::format("{}+{} ", s.first_position, s.rows);
  return text;
}

// Requests with common prefixes, choices, pauses, ends before their limit and cancellations, on a model without
// weights.
class Recording {
 public:
  Recording(const SimulatedModel& model, const SimulationOptions& options, unsigned seed) : random_(seed) {
    const EngineSetup setup =
        null_model_options(model.cache_layout, model.max_position_embeddings, options.engine).value();
    runner_ =
        Runner::create(make_null_model(model.cache_layout, model.max_position_embeddings), nullptr, setup).value();
    stepper_ = std::make_unique<Stepper>(runner_.get(), setup);
    stepper_->record_in(&recorder_);
  }

  Plans run() {
    Plans plans;
    std::size_t recorded = 0;
    int left = pick(3, 12);
    while (left > 0 || !live_.empty()) {
      while (left > 0 && (stepper_->idle() || pick(0, 3) == 0)) {
        arrive();
        --left;
      }
      if (!live_.empty() && pick(0, 30) == 0) {
        const auto victim = std::next(live_.begin(), pick(0, static_cast<int>(live_.size()) - 1));
        stepper_->end(victim->first);
        live_.erase(victim);
        closed_before_end_ = recorder_.closed();
      }
      pause_and_go_on();
      if (stepper_->idle()) continue;
      Result<ComputedStep> step = stepper_->begin().commit();
      EXPECT_TRUE(step.ok());
      plans.push_back(words_of(stepper_->plan()));
      idle_plans_ += stepper_->counts().blocked;
      const std::vector<SequenceId> sampled(step->sampled().begin(), step->sampled().end());
      std::vector<SequenceId> forked;
      for (const SequenceId id : sampled) {
        for (; stepper_->sequences()[id].generated() == 0 && live_[id].forks > 0; --live_[id].forks) fork(id, forked);
      }
      for (const SequenceId id : forked) take(id);
      for (const SequenceId id : sampled) take(id);
      const std::uint64_t closed = recorder_.closed();
      std::move(*step).end();
      stepper_->close_record();
      if (recorder_.closed() > closed) recorded = plans.size();
    }
    open_end_ = recorded < plans.size() || closed_before_end_ == recorder_.closed();
    plans.resize(recorded);
    return plans;
  }

  std::string trace() const { return trace_lines(recorder_.read(0, 4096)); }
  std::vector<StepRecord> records() const { return recorder_.read(0, 4096); }
  EngineStats stats() const {
    EngineStats stats;
    stepper_->fill(&stats);
    return stats;
  }
  int forks() const { return forks_; }
  int pauses() const { return pauses_; }
  int idle_plans() const { return idle_plans_; }
  // True if the last event was a cancellation, after which no step closed a record.
  bool open_end() const { return open_end_; }

 private:
  struct Live {
    int answer = 0, forks = 0;
    bool paused = false;
  };
  int pick(int least, int most) { return std::uniform_int_distribution(least, most)(random_); }

  void arrive() {
    NewSequence given;
    const int shared = pick(0, 4) * 128, own = pick(1, 900);
    for (int i = 0; i < shared; ++i) given.prompt.push_back(i % 97);
    for (int i = 0; i < own; ++i) given.prompt.push_back(pick(0, 4000));
    RequestOptions options;
    options.max_tokens = pick(1, 200);
    options.priority = pick(0, 2);
    if (pick(0, 1)) options.message_starts = {0, std::min(shared + 1, static_cast<int>(given.prompt.size()) - 1)};
    if (!stepper_->check(static_cast<int>(given.prompt.size()), options.max_tokens).ok()) return;
    const Live live = {pick(1, options.max_tokens), pick(0, 3) ? 0 : pick(1, 3)};
    given.options = share(std::move(options));
    live_[stepper_->add(std::move(given))] = live;
  }

  // In any order, which replays have to keep.
  void pause_and_go_on() {
    std::vector<SequenceId> ids;
    for (const auto& [id, live] : live_) ids.push_back(id);
    std::shuffle(ids.begin(), ids.end(), random_);
    for (const SequenceId id : ids) {
      Live& live = live_[id];
      if (pick(0, live.paused ? 9 : 39) != 0) continue;
      live.paused = !live.paused;
      stepper_->set_paused(id, live.paused);
      pauses_ += live.paused;
    }
  }

  void fork(SequenceId parent, std::vector<SequenceId>& forked) {
    const SequenceId id = stepper_->fork(parent);
    if (!id) return;
    live_[id] = {live_[parent].answer, 0};
    forked.push_back(id);
    ++forks_;
  }

  void take(SequenceId id) {
    stepper_->append(id, pick(0, 4000));
    if (stepper_->sequences()[id].generated() < live_[id].answer) return;
    stepper_->end(id);
    live_.erase(id);
  }

  std::mt19937 random_;
  StepRecorder recorder_;
  std::unique_ptr<Runner> runner_;
  std::unique_ptr<Stepper> stepper_;
  std::map<SequenceId, Live> live_;
  int forks_ = 0, pauses_ = 0, idle_plans_ = 0;
  std::uint64_t closed_before_end_ = ~std::uint64_t{0};  // records, at the last cancellation
  bool open_end_ = false;
};

// Reads the record of a step from the form of the page (docs/server.md). Times are in microseconds there.
StepRecord step_of(const boost::json::array& row) {
  std::vector<std::int64_t> n;
  for (std::size_t i = 0; i < 13; ++i) n.push_back(row.at(i).as_int64());
  const auto count = [&n](std::size_t i) { return static_cast<int>(n[i]); };
  StepRecord step;
  step.number = static_cast<std::uint64_t>(n[0]), step.begin_ns = n[1] * 1000, step.end_ns = n[2] * 1000;
  step.rows = count(3);
  step.running = count(4), step.waiting = count(5), step.latent_used = count(6), step.latent_cached = count(7);
  step.window_used = count(8), step.window_cached = count(9), step.slots_used = count(10), step.swap_bytes = n[11];
  step.lost = count(12);
  for (const boost::json::value& item : row.at(13).as_array()) {
    const auto at = [&item](std::size_t i) { return item.as_array().at(i).as_int64(); };
    step.items.push_back({static_cast<StepItem::Kind>(at(0)), static_cast<std::uint8_t>(at(1)),
                          static_cast<std::uint16_t>(at(2)), static_cast<std::uint32_t>(at(3)),
                          static_cast<std::int32_t>(at(4)), static_cast<std::int32_t>(at(5))});
  }
  return step;
}

bool same(const StepRecord& a, const StepRecord& b) {
  const auto values = [](const StepRecord& r) {
    return std::tuple(r.number, r.begin_ns, r.end_ns, r.rows, r.running, r.waiting, r.latent_used, r.latent_cached,
                      r.window_used, r.window_cached, r.slots_used, r.lost, r.swap_bytes, r.items);
  };
  return values(a) == values(b);
}

void expect_streamed(const std::vector<StepRecord>& records) {
  const Result<boost::json::value> parsed = parse_json(steps_json(records), "steps");
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  const boost::json::array& rows = parsed->as_array();
  ASSERT_EQ(rows.size(), records.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    StepRecord expected = records[i];
    for (std::int64_t* time : {&expected.begin_ns, &expected.end_ns}) *time -= *time % 1000;
    using Kind = StepItem::Kind;
    std::erase_if(expected.items, [](const StepItem& item) {  // items that the page does not use
      return item.kind == Kind::kBlock || item.kind == Kind::kMessage || item.kind == Kind::kIdle;
    });
    ASSERT_TRUE(same(step_of(rows[i].as_array()), expected)) << "step " << i;
  }
}

TEST(ReplayTest, ASavedTraceGivesTheSamePlans) {
  const unsigned seed = test_seed();
  Result<ModelConfig> config = load_model_config(source_dir() + "/tests/configs/v4-flash.json");
  ASSERT_TRUE(config.ok());
  const ModelPlan plan = plan_model(std::move(config).value(), EngineSetup()).value();
  const SimulatedModel model = {plan.cache_layout, 65536};
  std::uint64_t preemptions = 0, hits = 0;
  int forks = 0, pauses = 0, idle_plans = 0;
  for (unsigned i = 0; i < 500; ++i) {
    SimulationOptions options;
    options.engine.speculation.speculative = Speculative::kOff;
    options.engine.scheduler.async_scheduling = AsyncScheduling::kOff;
    options.engine.scheduler.max_num_batched_tokens = i % 2 ? 128 : 512;
    options.engine.scheduler.max_num_seqs = 2 + static_cast<int>(i % 7);
    options.engine.scheduler.scheduling_policy = i % 3 == 0   ? SchedulingPolicy::kFair
                                                 : i % 3 == 1 ? SchedulingPolicy::kFcfs
                                                              : SchedulingPolicy::kPriority;
    options.engine.cache.kv_cache_memory = 250'000'000 + 40'000'000 * (i % 5);
    options.cost = {.step = 1, .row = 0.01};
    options.by_steps = true;
    options.audit_at_end = true;
    Recording recording(model, options, seed + i);
    const Plans expected = recording.run();
    ASSERT_NO_FATAL_FAILURE(expect_streamed(recording.records())) << "SLUICE_TEST_SEED=" << seed + i;
    const Result<Trace> trace = parse_trace(recording.trace(), "trace", kBlockTokens);
    ASSERT_TRUE(trace.ok()) << trace.status().message();
    Plans replayed;
    options.on_plan = [&replayed](const StepPlan& plan) { replayed.push_back(words_of(plan)); };
    const Result<SimulationResult> result = simulate(*trace, model, options);
    ASSERT_TRUE(result.ok()) << result.status().message();
    SCOPED_TRACE(fmt::format("SLUICE_TEST_SEED={}", seed + i));
    for (std::size_t step = 0; step < std::min(replayed.size(), expected.size()); ++step) {
      ASSERT_EQ(replayed[step], expected[step]) << "step " << step;
    }
    ASSERT_GE(replayed.size(), expected.size());
    preemptions += recording.stats().preemptions_recompute;
    hits += recording.stats().cache.resumed_tokens;
    forks += recording.forks();
    pauses += recording.pauses();
    idle_plans += recording.idle_plans();
    if (recording.open_end()) continue;
    EXPECT_EQ(replayed.size(), expected.size());
    EXPECT_EQ(recording.stats().cache.resumed_tokens, result->stats.cache.resumed_tokens);
  }
  EXPECT_GT(preemptions, 5U);
  EXPECT_GT(hits, 1000U);
  EXPECT_GT(forks, 100);
  EXPECT_GT(pauses, 1000);
  EXPECT_GT(idle_plans, 10);
}

}  // namespace
}  // namespace sluice::replay_test
