// Cancelling, of a request or of one choice, in every state that it can be in. The gate holds the engine's thread, so
// the state is known: what is cancelled while step k waits to be computed takes effect before step k + 1 is planned.
#include <gtest/gtest.h>

#include <string>

#include "engine/engine_testing.h"

namespace sluice::engine_cancel_test {
namespace {

constexpr SamplingParams kSampled{.temperature = 1, .seed = 5};
constexpr int kChoices = 3, kTokens = 40;

enum class State { kNew, kWaiting, kMidPrefill, kDecoding, kPreempted, kSwapped };

struct Case {
  const char* name;
  State state;
  int choice;  // -1: the request
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name << " choice " << c.choice;
}

std::vector<TokenId> alone_choice(const std::vector<TokenId>& prompt, int choice) {
  SamplingParams sampling = kSampled;
  sampling.seed = choice_seed(sampling.seed, choice);
  return alone(prompt, kTokens, sampling);
}

bool begins_with(const std::vector<TokenId>& whole, const std::vector<TokenId>& head) {
  return head.size() <= whole.size() && std::equal(head.begin(), head.end(), whole.begin());
}

EngineSetup options_for(State state) {
  EngineSetup options = small_options();
  options.cache.swap_space = 1 << 20;
  options.scheduler.max_num_batched_tokens = state == State::kMidPrefill ? 64 : 512;
  if (state == State::kWaiting) options.scheduler.max_num_seqs = 1;
  if (state == State::kPreempted) options.testing.force_preempt_every = 4;
  if (state == State::kSwapped) options.testing.force_preempt_every = 3;
  return options;
}

class EngineCancelTest : public ::testing::TestWithParam<Case> {
 protected:
  // The step that is planned and waits when the request is in the state. Forced preemptions pick the running sequences
  // in the order of their arrival, and swap every second time. With one every 3 steps, step 6 swaps the second
  // sequence: the first choice if the companion is the very first. With one every 4 steps, step 4 drops choice 0 of a
  // request that comes before its companion.
  static int step_of(State state) {
    switch (state) {
      case State::kNew:
      case State::kWaiting:
        return 1;
      case State::kMidPrefill:
        return 3;
      case State::kDecoding:
        return 8;
      case State::kPreempted:
        return 4;
      case State::kSwapped:
        return 6;
    }
    return 0;
  }
};

TEST_P(EngineCancelTest, EndsWhatItNamesAndNothingElse) {
  const auto [name, state, choice] = GetParam();
  const auto prompt = random_tokens(300, 1), other_prompt = random_tokens(20, 2);
  Answer answer(kChoices), companion;
  GatedEngine engine(options_for(state));
  const bool first = state != State::kWaiting && state != State::kSwapped;
  RequestId id = 0;
  const auto submit = [&] { id = engine->submit(request(answer, prompt, kTokens, kSampled, kChoices)).value(); };
  const auto submit_companion = [&] { ASSERT_TRUE(engine->submit(request(companion, other_prompt, 60)).ok()); };
  if (state == State::kNew) {  // both arrive, and the request goes, before anything is planned
    submit_companion();
    engine.gate().wait_for_step();
    submit();
  } else {
    first ? submit() : submit_companion();
    engine.gate().wait_for_step();
    first ? submit_companion() : submit();
    engine.gate().pass(step_of(state) - 1 + (state == State::kWaiting));
  }
  choice < 0 ? engine->cancel(id) : engine->cancel(id, choice);
  engine.gate().pass();  // these numbers are from before the cancellation, except for a request that is gone
  const EngineStats then = engine->stats();
  EXPECT_EQ(then.preemptions_recompute, state == State::kPreempted || state == State::kSwapped ? 1U : 0U);
  EXPECT_EQ(then.preemptions_swap, state == State::kSwapped ? 1U : 0U);
  EXPECT_EQ(then.swap_bytes_used > 0, state == State::kSwapped && choice >= 0);
  engine.gate().open();

  for (int c = 0; c < kChoices; ++c) {
    const Output last = answer.wait(c);
    EXPECT_EQ(last.choice, c);
    const auto whole = alone_choice(prompt, c);
    if (choice < 0 || choice == c) {
      EXPECT_EQ(last.reason, FinishReason::kCancelled) << c;
      EXPECT_FALSE(last.token.has_value());
      EXPECT_LT(answer.tokens(c).size(), whole.size());
      EXPECT_TRUE(begins_with(whole, answer.tokens(c))) << c;
      EXPECT_EQ(answer.tokens(c).empty(), state < State::kDecoding) << c;
    } else {
      EXPECT_EQ(last.reason, FinishReason::kLength) << c;
      EXPECT_EQ(answer.tokens(c), whole) << c;
    }
  }
  EXPECT_EQ(companion.wait().reason, FinishReason::kLength);
  EXPECT_EQ(companion.tokens(), alone(other_prompt, 60, {.temperature = 0}));
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.running + stats.waiting, 0);
  EXPECT_EQ(stats.cache_bytes_used, 0);
  EXPECT_EQ(stats.swap_bytes_used, 0);
  EXPECT_EQ(stats.finished_requests + stats.cancelled_requests, 2U);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const auto& [name, state] :
       {std::pair{"new", State::kNew}, std::pair{"waiting", State::kWaiting},
        std::pair{"mid_prefill", State::kMidPrefill}, std::pair{"decoding", State::kDecoding},
        std::pair{"preempted", State::kPreempted}, std::pair{"swapped", State::kSwapped}}) {
    for (int choice = -1; choice < kChoices; ++choice) all.push_back({name, state, choice});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(States, EngineCancelTest, ::testing::ValuesIn(cases()), [](const auto& info) {
  return std::string(info.param.name) +
         (info.param.choice < 0 ? "_request" : "_choice_" + std::to_string(info.param.choice));
});

}  // namespace
}  // namespace sluice::engine_cancel_test
