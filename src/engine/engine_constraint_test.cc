// Answers that are bound: the engine asks the constraint before every draw and tells it every token.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "engine/engine_testing.h"

namespace sluice::engine_constraint_test {
namespace {

// Only tokens at most one larger than the last one, and never the same twice in a row; `refuses_at` fails there.
class Stairs final : public TokenConstraint {
 public:
  explicit Stairs(std::size_t refuses_at = 1000) : refuses_at_(refuses_at) {}

  Status allowed(std::span<std::uint32_t> words) override {
    if (tokens_.size() == throws_in_mask_at) throw std::runtime_error("no memory");
    if (tokens_.size() == refuses_at_) return invalid_argument("no further");
    std::ranges::fill(words, 0U);
    for (std::int32_t id = 3; id < static_cast<std::int32_t>(32 * words.size()); ++id) {
      if (fits(id)) words[static_cast<std::size_t>(id) / 32] |= 1U << (static_cast<unsigned>(id) % 32);
    }
    return {};
  }
  bool accept(std::int32_t token) override {
    if (!fits(token)) return false;
    if (tokens_.size() == throws_at) throw std::runtime_error("no memory");
    tokens_.push_back(token);
    return true;
  }
  void rollback(std::size_t tokens) override { tokens_.resize(tokens_.size() - tokens); }
  std::unique_ptr<TokenConstraint> copy() const override { return std::make_unique<Stairs>(*this); }

  std::size_t throws_at = 1000, throws_in_mask_at = 1000;

 private:
  bool fits(std::int32_t id) const {
    return id >= 3 && id <= 20 && (tokens_.empty() ? id < 6 : id <= tokens_.back() + 1 && id != tokens_.back());
  }

  std::size_t refuses_at_;
  std::vector<std::int32_t> tokens_;
};

Request request_of(Answer& answer, int n = 1) {
  Request request;
  request.prompt = {5, 6, 7};
  request.max_tokens = 20;
  request.n = n;
  request.sampling.seed = 3;
  request.constraint = std::make_shared<Stairs>();
  request.on_output = answer.sink();
  return request;
}

TEST(EngineConstraintTest, EveryTokenIsAllowed) {
  const auto engine = make_engine();
  Answer many(4), one;
  ASSERT_TRUE(engine->submit(request_of(many, 4)).ok());
  ASSERT_TRUE(engine->submit(request_of(one)).ok());
  for (int choice = 0; choice < 4; ++choice) {
    EXPECT_EQ(many.wait(choice).reason, FinishReason::kLength);
    const std::vector<std::int32_t> tokens = many.tokens(choice);
    ASSERT_EQ(tokens.size(), 20U);
    Stairs stairs;
    for (const std::int32_t token : tokens) EXPECT_TRUE(stairs.accept(token)) << token;
  }
  one.wait();
  EXPECT_EQ(one.tokens(), many.tokens(0)) << "other choices change nothing";
}

TEST(EngineConstraintTest, WhatOneThrowsEndsItsRequestAlone) {
  const auto engine = make_engine();
  Answer sound, in_mask, in_accept;
  Request first = request_of(in_mask), second = request_of(in_accept);
  Stairs stairs;
  stairs.throws_in_mask_at = 4;
  first.constraint = std::make_shared<Stairs>(stairs);
  stairs.throws_in_mask_at = 1000;
  stairs.throws_at = 6;
  second.constraint = std::make_shared<Stairs>(stairs);
  ASSERT_TRUE(engine->submit(std::move(first)).ok());
  ASSERT_TRUE(engine->submit(request_of(sound)).ok());
  ASSERT_TRUE(engine->submit(std::move(second)).ok());
  EXPECT_EQ(sound.wait().reason, FinishReason::kLength);
  for (Answer* failed : {&in_mask, &in_accept}) {
    const Output last = failed->wait();
    EXPECT_EQ(last.reason, FinishReason::kError);
    EXPECT_NE(last.status.message().find("no memory"), std::string::npos) << last.status.message();
  }
  EXPECT_EQ(in_mask.tokens().size(), 4U);
  EXPECT_EQ(in_accept.tokens().size(), 6U);
}

// Checks that the tokens are the same whatever is drafted, penalties included, and that right drafts save steps.
void check_drafts_change_nothing(bool ruled) {
  std::vector<std::uint32_t> logprobs;  // the first run's
  const auto run = [&](const std::vector<TokenId>& prediction, int preempt, std::uint64_t* steps) {
    EngineSetup options = small_options();
    options.scheduler.async_scheduling = AsyncScheduling::kOff;
    options.speculation = {
        .speculative = Speculative::kNgram, .num_speculative_tokens = 4, .speculative_adaptive = false};
    options.testing.force_preempt_every = preempt;
    const auto engine = make_engine(options);
    Answer answer(3);
    Request request = request_of(answer, 3);
    request.sampling.temperature = 1.5F;
    request.prediction = prediction;
    request.sampling.top_logprobs = 2;
    request.sampling.top_p = 0.9F;
    request.sampling.processed_logprobs = true;
    request.sampling.logprob_ids = {30, 4};
    if (ruled) {
      TokenRules rules{.presence_penalty = 1.5F, .frequency_penalty = 2, .repetition_penalty = 3};
      rules.bad_words = {{4, 5}, {9}};
      request.rules = std::make_shared<TokenRules>(rules);
    }
    EXPECT_TRUE(engine->submit(std::move(request)).ok());
    std::vector<std::vector<TokenId>> out;
    std::vector<std::uint32_t> bits;  // bits of their log-probabilities
    for (int choice = 0; choice < 3; ++choice) {
      EXPECT_EQ(answer.wait(choice).reason, FinishReason::kLength);
      out.push_back(answer.tokens(choice));
      for (const Output& output : answer.outputs(choice)) {
        double sum = 0;
        for (const TokenLogprob& token : output.top) {
          bits.push_back(std::bit_cast<std::uint32_t>(token.logprob));
          if (token.token == 30) {
            EXPECT_EQ(token.logprob, -std::numeric_limits<float>::infinity());
          }
          sum += std::exp(static_cast<double>(token.logprob));
        }
        EXPECT_LE(sum, 2.0001);
        EXPECT_GT(output.logprob, -20);
        bits.push_back(std::bit_cast<std::uint32_t>(output.logprob));
      }
    }
    if (logprobs.empty()) logprobs = bits;
    EXPECT_EQ(bits, logprobs) << "processed log-probabilities are those of the answer, however it is computed";
    *steps = engine->stats().steps;
    return out;
  };
  std::uint64_t plain = 0, drafted = 0, other = 0;
  const auto expected = run({}, 0, &plain);
  EXPECT_EQ(run(expected[0], 0, &drafted), expected) << ruled;
  EXPECT_EQ(run(expected[1], 3, &other), expected) << ruled;
  for (std::size_t wrong = 0; wrong < 20; wrong += 3) {
    std::vector<TokenId> prediction = expected[0];
    prediction[wrong] = 30;  // a token that the constraint never allows
    EXPECT_EQ(run(prediction, 0, &other), expected) << ruled << " " << wrong;
  }
  EXPECT_LT(drafted, 20U);
}

TEST(EngineConstraintTest, DraftsChangeNothing) {
  check_drafts_change_nothing(/*ruled=*/false);
}

TEST(EngineConstraintTest, DraftsUnderRulesChangeNothing) {
  check_drafts_change_nothing(/*ruled=*/true);
}

// One allowed token each for runs of seven.
class Runs final : public TokenConstraint {
 public:
  Status allowed(std::span<std::uint32_t> words) override {
    std::ranges::fill(words, 0U);
    words[0] = count_ % 8 == 0 ? 0xFF0U : 1U << (3 + count_ % 8);
    return {};
  }
  bool accept(std::int32_t token) override {
    if (count_ % 8 != 0 && token != static_cast<std::int32_t>(3 + count_ % 8)) return false;
    ++count_;
    return true;
  }
  void rollback(std::size_t tokens) override { count_ -= tokens; }
  int forced(std::span<std::int32_t> tokens) override {
    std::size_t n = 0;
    while (n < tokens.size() && (count_ + n) % 8 != 0) {
      tokens[n] = static_cast<std::int32_t>(3 + (count_ + n) % 8);
      ++n;
    }
    return static_cast<int>(n);
  }
  std::unique_ptr<TokenConstraint> copy() const override { return std::make_unique<Runs>(*this); }

 private:
  std::size_t count_ = 0;
};

TEST(EngineConstraintTest, AForcedRunIsOneSpan) {
  const auto run = [](Speculative speculative, std::uint64_t* steps) {
    EngineSetup options = small_options();
    options.scheduler.async_scheduling = AsyncScheduling::kOff;
    options.speculation = {.speculative = speculative, .num_speculative_tokens = 8, .speculative_adaptive = false};
    const auto engine = make_engine(options);
    Answer answer;
    Request request = request_of(answer);
    request.constraint = std::make_shared<Runs>();
    request.max_tokens = 32;
    EXPECT_TRUE(engine->submit(std::move(request)).ok());
    EXPECT_EQ(answer.wait().reason, FinishReason::kLength);
    *steps = engine->stats().steps;
    return answer.tokens();
  };
  std::uint64_t alone = 0, together = 0;
  const auto expected = run(Speculative::kOff, &alone);
  EXPECT_EQ(run(Speculative::kNgram, &together), expected);
  EXPECT_GE(alone, 32U);
  EXPECT_LE(together, 10U);
}

TEST(EngineConstraintTest, AConstraintThatFailsEndsItsAnswer) {
  const auto engine = make_engine();
  Answer failed, other;
  Request request = request_of(failed);
  request.constraint = std::make_shared<Stairs>(4);
  ASSERT_TRUE(engine->submit(std::move(request)).ok());
  ASSERT_TRUE(engine->submit(request_of(other)).ok());
  const Output last = failed.wait();
  EXPECT_EQ(last.reason, FinishReason::kError);
  EXPECT_EQ(last.status.message(), "no further");
  EXPECT_EQ(failed.tokens().size(), 4U);
  EXPECT_EQ(other.wait().reason, FinishReason::kLength);
}

}  // namespace
}  // namespace sluice::engine_constraint_test
