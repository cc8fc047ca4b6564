// Every flag of the scheduling, by the steps that it causes: what is set reaches the scheduler. No answer would tell.
//
// A step is written as the model sees it: "a0+64 b16+1" are rows 0 to 63 of request a and row 16 of b. The requests are
// all there before the first step that is listed.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <string>

#include "engine/engine_testing.h"
#include "engine/option_words.h"

namespace sluice::engine_plans_test {
namespace {

using ::testing::ElementsAreArray;
using Steps = std::vector<std::string>;

struct Asked {
  int prompt_tokens, max_tokens, priority = 0;
};

// Request a has 1 for all its tokens, b has 2: the model repeats what it sees.
class PlannedEngine {
 public:
  explicit PlannedEngine(const EngineSetup& options) : engine_(options, settings()) {}

  Steps run(const std::vector<Asked>& requests) {
    steps_.clear();  // drops the steps that measured the costs of swapping
    Answer starter;
    std::deque<Answer> answers(requests.size());
    EXPECT_TRUE(engine_->submit(request(starter, {0}, 1)).ok());
    engine_.gate().wait_for_step();
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const std::vector<TokenId> prompt(static_cast<std::size_t>(requests[i].prompt_tokens),
                                        static_cast<TokenId>(i + 1));
      Request r = request(answers[i], prompt, requests[i].max_tokens);
      r.priority = requests[i].priority;
      EXPECT_TRUE(engine_->submit(std::move(r)).ok());
    }
    engine_.gate().open();
    for (Answer& answer : answers) EXPECT_EQ(answer.wait().reason, FinishReason::kLength);
    EXPECT_EQ(steps_.at(0), ".0+1");
    return {steps_.begin() + 1, steps_.end()};
  }

 private:
  FakeModel::Settings settings() {
    FakeModel::Settings settings;
    settings.on_logits = [](TokenId token, Position, float* logits) { logits[token] = 100; };
    settings.on_step = [this](const StepTables& step) {
      std::string plan;
      for (const RowSpan& span : step.spans) {
        const TokenId token = step.ids[static_cast<std::size_t>(span.row_begin)];
        plan += fmt::format("{}{}{}+{}", plan.empty() ? "" : " ", token == 0 ? '.' : static_cast<char>('a' + token - 1),
                            span.first_position, span.rows);
      }
      steps_.push_back(plan);
    };
    return settings;
  }

  Steps steps_;         // written by the engine's thread while it computes
  GatedEngine engine_;  // last: its thread uses the rest
};

struct Case {
  const char* name;
  void (*change)(EngineSetup&);
  std::vector<Asked> requests;
  Steps without, with;  // the flag
  void (*base)(EngineSetup&) = [](EngineSetup&) {};
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

class EnginePlansTest : public ::testing::TestWithParam<Case> {};

TEST_P(EnginePlansTest, TheFlagChangesTheSteps) {
  const Case& c = GetParam();
  EngineSetup options = small_options();  // 64 rows a step, four sequences
  c.base(options);
  EXPECT_THAT(PlannedEngine(options).run(c.requests), ElementsAreArray(c.without)) << "without the flag";
  c.change(options);
  EXPECT_THAT(PlannedEngine(options).run(c.requests), ElementsAreArray(c.with)) << "with it";
}

std::vector<Case> cases() {
  const auto fcfs = [](EngineSetup& o) { o.scheduler.scheduling_policy = SchedulingPolicy::kFcfs; };
  const auto preempts = [](EngineSetup& o) { o.testing.force_preempt_every = 3; };
  return {
      {"max_num_batched_tokens",
       [](EngineSetup& o) { o.scheduler.max_num_batched_tokens = 30; },
       {{70, 2}},
       {"a0+64", "a64+6", "a70+1"},
       {"a0+30", "a30+30", "a60+10", "a70+1"}},
      {"max_num_seqs",
       [](EngineSetup& o) { o.scheduler.max_num_seqs = 1; },
       {{10, 2}, {10, 2}},
       {"a0+10 b0+10", "a10+1 b10+1"},
       {"a0+10", "a10+1", "b0+10", "b10+1"}},
      {"long_prefill_token_threshold",
       [](EngineSetup& o) { o.scheduler.long_prefill_token_threshold = 20; },
       {{50, 2}, {10, 1}},
       {"a0+50 b0+10", "a50+1"},
       {"a0+20 b0+10", "a20+20", "a40+10", "a50+1"},
       fcfs},
      {"no_enable_mixed_prefill_decode",
       [](EngineSetup& o) { o.scheduler.enable_mixed_prefill_decode = false; },
       {{4, 4}, {100, 2}},
       {"a0+4 b0+60", "a4+1 b60+40", "a5+1 b100+1", "a6+1"},
       {"a0+4 b0+60", "a4+1", "b60+40", "a5+1 b100+1", "a6+1"},
       fcfs},
      {"no_enable_chunked_prefill",
       [](EngineSetup& o) { o.scheduler.enable_chunked_prefill = false; },
       {{40, 1}, {40, 1}},
       {"a0+40 b0+24", "b24+16"},
       {"a0+40", "b0+40"},
       [](EngineSetup& o) { o.scheduler.scheduling_policy = SchedulingPolicy::kFcfs, o.model.max_model_len = 64; }},
      {"scheduling_policy_fcfs",  // instead of fair
       fcfs,
       {{100, 1}, {10, 1}},
       {"a0+54 b0+10", "a54+46"},
       {"a0+64", "a64+36 b0+10"}},
      {"scheduling_policy_priority",
       [](EngineSetup& o) { o.scheduler.scheduling_policy = SchedulingPolicy::kPriority; },
       {{100, 1, 1}, {10, 1, 0}},
       {"a0+64", "a64+36 b0+10"},
       {"b0+10 a0+54", "a54+46"},
       fcfs},
      {"no_enable_prefix_caching",  // pages that a preemption leaves are found again, or not
       [](EngineSetup& o) { o.cache.enable_prefix_caching = false; },
       {{130, 2}},
       {"a0+130", "a128+3"},
       {"a0+130", "a0+131"},
       [](EngineSetup& o) { o.testing.force_preempt_every = 3, o.scheduler.max_num_batched_tokens = 200; }},
      // A forced preemption that finds nothing running happens one step later.
      {"force_preempt_every",
       preempts,
       {{10, 5}},
       {"a0+10", "a10+1", "a11+1", "a12+1", "a13+1"},
       {"a0+10", "a0+11", "a0+12", "a12+1", "a0+14"}},
      {"swap_space",  // every second time
       [](EngineSetup& o) { o.cache.swap_space = 1 << 20; },
       {{10, 9}},
       {"a0+10", "a0+11", "a0+12", "a12+1", "a0+14", "a0+15", "a15+1", "a0+17", "a0+18"},
       {"a0+10", "a0+11", "a11+1", "a12+1", "a0+14", "a14+1", "a15+1", "a0+17", "a17+1"},
       preempts},
      {"hidden_latent_pages",
       [](EngineSetup& o) { o.testing.hidden_latent_pages = 1 << 20; },
       {{20, 1}, {20, 1}},
       {"a0+20 b0+20"},
       {"a0+20", "b0+20"}},
  };
}

INSTANTIATE_TEST_SUITE_P(Flags, EnginePlansTest, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return std::string(info.param.name); });

// A limit of the engine's own where the flag is 0.
TEST(EngineStepRowsTest, WithoutALimitAStepHas512Rows) {
  EngineSetup options = small_options();
  options.scheduler.max_num_batched_tokens = 0;
  EXPECT_THAT(PlannedEngine(options).run({{600, 1}}), ElementsAreArray({"a0+512", "a512+88"}));
}

// Steps that do not wait for the tokens before them are as many, and as long: an answer whose last token is on its way
// has no row any more.
TEST(EngineAsynchronousTest, NoRowIsComputedBehindTheLastToken) {
  for (const auto asynchronous : {AsyncScheduling::kOff, AsyncScheduling::kOn}) {
    EngineSetup options = small_options();
    options.speculation.speculative = Speculative::kOff;
    options.scheduler.async_scheduling = asynchronous;
    EXPECT_THAT(PlannedEngine(options).run({{70, 3}, {10, 1}}),
                ElementsAreArray({"a0+54 b0+10", "a54+16", "a70+1", "a71+1"}))
        << word_of(asynchronous);
  }
}

}  // namespace
}  // namespace sluice::engine_plans_test
