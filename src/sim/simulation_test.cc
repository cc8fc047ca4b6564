#include "sim/simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/test_paths_testing.h"
#include "cache/cache_pools.h"
#include "config/model_config.h"
#include "engine/option_words.h"
#include "engine/runner/runner.h"
#include "model/model_plan.h"
#include "sim/null_model.h"
#include "sim/workload.h"

namespace sluice::simulation_test {
namespace {

ModelPlan flash_plan() {
  Result<ModelConfig> config = load_model_config(source_dir() + "/tests/configs/v4-flash.json");
  EXPECT_TRUE(config.ok()) << config.status().message();
  Result<ModelPlan> plan = plan_model(std::move(config).value(), EngineSetup());
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return std::move(plan).value();
}

// The geometry of V4-Flash, with memory for some hundred blocks of 128 tokens.
class SimulationTest : public testing::Test {
 protected:
  SimulationTest() {
    ModelPlan plan = flash_plan();
    model_ = {std::move(plan.cache_layout), 65536};
    options_.engine.scheduler.max_num_batched_tokens = 128;
    options_.engine.scheduler.max_num_seqs = 16;
    options_.engine.cache.kv_cache_memory = 2'000'000'000;
    options_.cost = {.step = 1, .row = 0.01};
    options_.audit_at_end = true;
  }

  SimulationResult run(const Trace& trace) {
    Result<SimulationResult> result = simulate(trace, model_, options_);
    EXPECT_TRUE(result.ok()) << result.status().message();
    return std::move(result).value();
  }

  static Trace workload(const std::string& name, int requests, double rate) {
    WorkloadOptions options;
    options.name = name;
    options.requests = requests;
    options.rate = rate;
    return make_workload(options).value();
  }

  SimulatedModel model_;
  SimulationOptions options_;
};

TraceRequest request(double arrival_ms, int input, int output, std::vector<std::int64_t> ids = {}) {
  TraceRequest r;
  r.arrival_ms = arrival_ms;
  r.input_length = input;
  r.output_length = output;
  r.hash_ids = std::move(ids);
  return r;
}

TEST_F(SimulationTest, ATraceComputedByHand) {
  Trace trace;
  trace.requests = {request(0, 100, 3), request(500, 50, 1)};
  const SimulationResult result = run(trace);
  // 0 s: 100 rows, 2 s long. 2 s: 1 + 50 rows, 1.51 s. 3.51 s: 1 row, 1.01 s.
  const RequestRecord &a = result.requests[0], &b = result.requests[1];
  EXPECT_DOUBLE_EQ(a.first_token_seconds(), 2);
  EXPECT_DOUBLE_EQ(a.queue_seconds(), 0);
  EXPECT_DOUBLE_EQ(a.longest_gap, 1.51);
  EXPECT_DOUBLE_EQ(a.end, 4.52);
  EXPECT_DOUBLE_EQ(b.first_token_seconds(), 3.01);
  EXPECT_DOUBLE_EQ(b.queue_seconds(), 1.5);
  EXPECT_DOUBLE_EQ(b.end, 3.51);
  EXPECT_EQ(result.token_gaps.count(), 2U);
  EXPECT_EQ(result.steps, 3U);
  EXPECT_EQ(result.rows, 152U);
  EXPECT_DOUBLE_EQ(result.longest_step, 2);
  EXPECT_DOUBLE_EQ(result.seconds, 4.52);
}

TEST_F(SimulationTest, DraftsThatAreRightSaveSteps) {
  Trace trace;
  trace.requests = {request(0, 100, 41)};
  options_.engine.speculation.num_speculative_tokens = 4;
  options_.engine.speculation.speculative_adaptive = false;
  // The prompt takes 2 s and gives a token; then five rows give five.
  options_.acceptance = 1;
  EXPECT_DOUBLE_EQ(run(trace).requests[0].end, 2 + 8 * 1.05);
  options_.acceptance = 0;
  EXPECT_NEAR(run(trace).requests[0].end, 2 + 40 * 1.01, 1e-9);
  // Drafts that are never right: a token a step, and the rows of the drafts to pay for; none beyond the end.
  options_.acceptance = 1e-12;
  EXPECT_NEAR(run(trace).requests[0].end, 2 + 36 * 1.05 + 1.04 + 1.03 + 1.02 + 1.01, 1e-9);
  options_.acceptance = 0.5;
  const double half = run(trace).requests[0].end;
  EXPECT_GT(half, 2 + 12 * 1.05);  // 1.94 tokens a step are to be expected
  EXPECT_LT(half, 2 + 32 * 1.05);
  options_.engine.scheduler.scheduling_policy = SchedulingPolicy::kFcfs;
  EXPECT_DOUBLE_EQ(run(trace).requests[0].end, half) << "which are right belongs to the request";
}

TEST_F(SimulationTest, AConcurrencyIgnoresTheTimes) {
  options_.concurrency = 1;
  Trace trace;
  trace.requests = {request(0, 100, 1), request(50'000, 100, 1)};
  const SimulationResult result = run(trace);
  EXPECT_DOUBLE_EQ(result.requests[1].arrival, 2);
  EXPECT_DOUBLE_EQ(result.seconds, 4);
}

TEST_F(SimulationTest, AFollowUpFindsPromptAndAnswer) {
  Trace trace;
  trace.hash_block_tokens = 128;
  trace.requests = {request(0, 200, 60, {1, 2, 3}), request(1000, 400, 1, {1, 2, 3})};
  trace.requests[1].after = 0;
  const SimulationResult result = run(trace);
  EXPECT_EQ(result.requests[0].cached_tokens, 0);
  EXPECT_EQ(result.requests[1].cached_tokens, 256);  // no row was computed for the answer's last token: 259 tokens
  EXPECT_DOUBLE_EQ(result.requests[1].arrival, result.requests[0].end + 1);
  options_.engine.cache.enable_prefix_caching = false;
  EXPECT_EQ(run(trace).requests[1].cached_tokens, 0);
}

TEST_F(SimulationTest, RefusesWhatCanNeverRun) {
  Trace trace;
  trace.requests = {request(0, 100'000, 1), request(0, 10, 1)};
  trace.requests.push_back(request(1000, 10, 1));
  trace.requests[2].after = 0;
  const SimulationResult result = run(trace);
  EXPECT_TRUE(result.requests[0].refused);
  EXPECT_FALSE(result.requests[1].refused);
  EXPECT_GT(result.requests[2].end, 1);
}

TEST_F(SimulationTest, EveryRequestEndsAndEveryPageComesBack) {
  options_.cost = {.step = 1e-3, .row = 1e-5};
  for (const char* name : {"default", "chat"}) {
    for (const auto policy : {SchedulingPolicy::kFair, SchedulingPolicy::kFcfs, SchedulingPolicy::kPriority}) {
      SCOPED_TRACE(fmt::format("{} {}", name, word_of(policy)));
      options_.engine.scheduler.scheduling_policy = policy;
      const Trace trace = workload(name, 2000, 20);
      const SimulationResult result = run(trace);
      for (std::size_t i = 0; i < trace.requests.size(); ++i) {
        const RequestRecord& r = result.requests[i];
        ASSERT_FALSE(r.refused);
        ASSERT_EQ(r.output_tokens, trace.requests[i].output_length);
        ASSERT_LE(r.arrival, r.admitted);
        ASSERT_LT(r.admitted, r.first_token);
        ASSERT_LE(r.first_token, r.end);
        ASSERT_LT(r.cached_tokens, r.input_tokens);
      }
      EXPECT_EQ(result.stats.cache.latent_pages_used, 0);
      EXPECT_EQ(result.stats.cache.window_pages_used, 0);
      EXPECT_EQ(result.stats.running, 0);
    }
  }
}

TEST_F(SimulationTest, TheSameRunTwice) {
  options_.cost = {.step = 1e-3, .row = 1e-5};
  const Trace trace = workload("chat", 2000, 20);
  const SimulationResult a = run(trace), b = run(trace);
  EXPECT_EQ(a.seconds, b.seconds);
  EXPECT_EQ(a.steps, b.steps);
  EXPECT_EQ(a.rows, b.rows);
  EXPECT_GT(a.stats.cache.resumed_tokens, 0U);
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    ASSERT_EQ(a.requests[i].end, b.requests[i].end);
    ASSERT_EQ(a.requests[i].first_token, b.requests[i].first_token);
    ASSERT_EQ(a.requests[i].cached_tokens, b.requests[i].cached_tokens);
  }
}

TEST_F(SimulationTest, ShortMemoryPreemptsAndAllEnd) {
  options_.cost = {.step = 1e-3, .row = 1e-5};
  options_.engine.cache.kv_cache_memory = 250'000'000;
  WorkloadOptions workload;
  workload.requests = 300;
  workload.rate = 1000;
  workload.mean_input = 1000;
  workload.mean_output = 1500;
  const SimulationResult result = run(make_workload(workload).value());
  EXPECT_GT(result.stats.preemptions_recompute, 0U);
  for (const RequestRecord& r : result.requests) ASSERT_TRUE(r.refused || r.end > 0);
}

TEST(NullModelTest, GivesTheScheduleTheRealModelsPlacesAndPages) {
  const ModelPlan real = flash_plan();
  for (const bool caching : {false, true}) {
    for (const std::int64_t budget : {300'000'000LL, 4'000'000'000LL, 60'000'000'000LL}) {
      EngineSetup options;
      options.cache.kv_cache_memory = budget;
      options.scheduler.max_num_seqs = 48;
      options.scheduler.max_num_batched_tokens = 512;
      options.cache.enable_prefix_caching = caching;
      MemoryRequest request;
      request.budget_bytes = static_cast<std::size_t>(budget);
      request.max_seqs = 48;
      request.max_batched_tokens = options.scheduler.max_num_batched_tokens;
      request.max_model_len = 65536;
      request.prefix_caching = caching;
      request.draft_tokens = options.speculation.num_speculative_tokens;
      const Result<MemoryPlan> plan = plan_memory(real.cache_layout, request);
      ASSERT_TRUE(plan.ok()) << plan.status().message();
      const Result<EngineSetup> null_options = null_model_options(real.cache_layout, 65536, options);
      ASSERT_TRUE(null_options.ok()) << null_options.status().message();
      const Result<std::unique_ptr<Runner>> runner =
          Runner::create(make_null_model(real.cache_layout, 65536), nullptr, *null_options);
      ASSERT_TRUE(runner.ok()) << runner.status().message();
      const MemoryPlan& got = (*runner)->cache().pools().plan();
      EXPECT_EQ(got.sequences, plan->sequences);
      EXPECT_NEAR(got.latent_pages, plan->latent_pages, 1);
      EXPECT_NEAR(got.window_pages, plan->window_pages, 1);
    }
  }
}

}  // namespace
}  // namespace sluice::simulation_test
