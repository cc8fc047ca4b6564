// The sampling law from outside: what an engine answers is what the definition says of logits, parameters, seed and
// position. The reference knows the model's logits and sampler.h, nothing of steps, batches or caches.
#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <string>

#include "base/test_seed_testing.h"
#include "engine/engine_testing.h"
#include "engine/step/sampler_testing.h"

namespace sluice::engine_sampling_test {
namespace {

constexpr int kVocab = 64;

// A model whose logits at a position depend on that position and its token only.
std::vector<float> logits_behind(TokenId token, Position position) {
  std::mt19937 random(static_cast<unsigned>(position * kVocab + token));
  std::vector<float> logits(kVocab);
  for (float& logit : logits) logit = static_cast<float>(random() % 4096) / 1024.0F;
  return logits;
}

FakeModel::Settings settings() {
  FakeModel::Settings settings;
  settings.vocab = kVocab;
  settings.on_logits = [](TokenId token, Position position, float* logits) {
    const std::vector<float> values = logits_behind(token, position);
    std::copy(values.begin(), values.end(), logits);
  };
  return settings;
}

std::vector<TokenId> by_definition(std::vector<TokenId> tokens, int max_tokens, const SamplingParams& sampling) {
  std::vector<TokenId> answer;
  for (int i = 0; i < max_tokens; ++i) {
    const auto position = static_cast<Position>(tokens.size());  // the new token's
    answer.push_back(sampled_by_definition(logits_behind(tokens.back(), position - 1), sampling, position));
    tokens.push_back(answer.back());
  }
  return answer;
}

struct Case {
  const char* name;
  void (*change)(EngineSetup&);
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

class EngineSamplingTest : public ::testing::TestWithParam<Case> {};

TEST_P(EngineSamplingTest, FollowsTheDefinition) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  constexpr SamplingParams kParams[] = {{.temperature = 0},
                                        {.temperature = 1},
                                        {.temperature = 0.7F, .top_p = 0.9F},
                                        {.temperature = 3, .top_k = 20, .min_p = 0.1F}};
  constexpr int kLengths[] = {1, 7, 128, 300};
  constexpr int kChoices = 3, kTokens = 20;
  EngineSetup options = small_options();
  GetParam().change(options);
  std::deque<Answer> answers;
  for (std::size_t i = 0; i < std::size(kParams) * std::size(kLengths); ++i) answers.emplace_back(kChoices);
  auto engine = make_engine(options, settings());
  const auto visit = [&](const auto& with) {
    for (std::size_t i = 0; i < answers.size(); ++i) {
      SamplingParams sampling = kParams[i % std::size(kParams)];
      sampling.seed = std::uint64_t{seed} * 1000 + i;
      with(answers[i], random_tokens(kLengths[i / std::size(kParams)], seed + static_cast<unsigned>(i)), sampling);
    }
  };
  visit([&](Answer& answer, const std::vector<TokenId>& prompt, const SamplingParams& sampling) {
    ASSERT_TRUE(engine->submit(request(answer, prompt, kTokens, sampling, kChoices)).ok());
  });
  visit([&](Answer& answer, const std::vector<TokenId>& prompt, SamplingParams sampling) {
    const std::uint64_t own = sampling.seed;
    for (int choice = 0; choice < kChoices; ++choice) {
      answer.wait(choice);
      sampling.seed = choice_seed(own, choice);
      EXPECT_EQ(answer.tokens(choice), by_definition(prompt, kTokens, sampling))
          << prompt.size() << " tokens, temperature " << sampling.temperature << ", choice " << choice;
    }
  });
}

constexpr Case kCases[] = {
    {"as_it_is", [](EngineSetup&) {}},
    {"two_threads_small_steps", [](EngineSetup& o) { o.machine.threads = 2, o.scheduler.max_num_batched_tokens = 5; }},
    {"preempted", [](EngineSetup& o) { o.testing.force_preempt_every = 3; }},
    {"swapped_without_caching",
     [](EngineSetup& o) {
       o.testing.force_preempt_every = 2, o.cache.swap_space = 1 << 20, o.cache.enable_prefix_caching = false;
     }},
};

INSTANTIATE_TEST_SUITE_P(Engines, EngineSamplingTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace sluice::engine_sampling_test
