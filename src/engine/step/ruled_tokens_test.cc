// Rules on tokens against a reference that looks at all tokens anew each time, and over a whole engine.
#include "engine/step/ruled_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "base/sanitizer_testing.h"
#include "base/test_seed_testing.h"
#include "engine/engine_testing.h"

namespace sluice::ruled_tokens_test {
namespace {

constexpr int kVocab = 70;

// The logit by the definition in TokenRules.
float logit_of(const TokenRules& rules, std::span<const TokenId> prompt, std::span<const TokenId> answer, float l,
               TokenId id) {
  const auto c = static_cast<float>(std::ranges::count(answer, id));
  const bool seen = c > 0 || std::ranges::count(prompt, id) > 0;
  float bias = 0;
  for (const auto& [of, value] : rules.logit_bias) bias = of == id ? value : bias;
  if (c > 0) bias -= rules.frequency_penalty * c;
  if (c > 0) bias -= rules.presence_penalty;
  const float rep = l > 0 ? l / rules.repetition_penalty : l * rules.repetition_penalty;
  const float change = seen && rules.repetition_penalty != 1 ? rep - l : 0.0F;
  return std::isinf(l) ? l : l + (change + bias);  // also where -inf would make no number
}

bool allows(const TokenRules& rules, std::span<const TokenId> answer, const std::vector<TokenId>& ends, TokenId id) {
  if (!rules.allowed_token_ids.empty() && std::ranges::count(rules.allowed_token_ids, id) == 0) return false;
  if (static_cast<int>(answer.size()) < rules.min_tokens && std::ranges::count(ends, id) > 0) return false;
  for (const std::vector<TokenId>& word : rules.bad_words) {
    std::vector<TokenId> then(answer.begin(), answer.end());
    then.push_back(id);
    if (then.size() >= word.size() && std::equal(word.rbegin(), word.rend(), then.rbegin())) return false;
  }
  return true;
}

TokenRules random_rules(std::mt19937& random) {
  const auto id = [&] { return static_cast<TokenId>(random() % kVocab); };
  const auto one_in = [&](unsigned n) { return random() % n == 0; };
  const auto between = [&](float low, float high) { return std::uniform_real_distribution<float>(low, high)(random); };
  TokenRules rules;
  if (one_in(2)) rules.presence_penalty = between(-2, 2);
  if (one_in(2)) rules.frequency_penalty = between(-2, 2);
  if (one_in(2)) rules.repetition_penalty = between(0.5F, 3);
  for (TokenId i = 0; one_in(2) && i < kVocab; i += 1 + id() % 20) rules.logit_bias.emplace_back(i, between(-9, 9));
  if (one_in(2)) rules.min_tokens = id() / 4;
  for (int i = 0; i < 3 && one_in(2); ++i) {
    std::vector<TokenId> word;
    for (auto n = 1 + random() % 3; n > 0; --n) word.push_back(id() % 6);
    rules.bad_words.push_back(word);
  }
  for (int i = 0; i < 9 && one_in(3); ++i) rules.allowed_token_ids = {id(), id(), 3, 4, 5};
  return rules;
}

TEST(RuledTokensTest, AreWhatTheRulesSayOfAllTokensBefore) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  const std::vector<TokenId> ends{1, 2};
  for (int round = 0; round < random_cases(300); ++round) {
    const TokenRules rules = random_rules(random);
    ASSERT_TRUE(validate(rules, kVocab).ok());
    RuledTokens ruled(std::make_shared<TokenRules>(rules), ends, kVocab);
    std::vector<TokenId> tokens;
    const int prompt = 1 + static_cast<int>(random() % 20);
    for (int i = 0; i < prompt; ++i) tokens.push_back(static_cast<TokenId>(random() % kVocab));
    for (int step = 0; step < 12; ++step) {
      std::vector<float> logits(kVocab);
      for (float& l : logits) l = std::normal_distribution<float>(0, 5)(random);
      logits[random() % kVocab] = -INFINITY;
      std::vector<std::uint32_t> words(3);
      if (random() % 3 == 0) {  // drafts that are not kept, or only the first
        const std::size_t known = tokens.size(), keep = known + random() % 2;
        for (int i = 0; i < 3; ++i) tokens.push_back(static_cast<TokenId>(random() % 8));
        RuledTokens::allow_all(words, kVocab);
        (void)ruled.apply(tokens, prompt, logits, words);
        ruled.forget(tokens, prompt, keep);
        tokens.resize(keep);
      }
      RuledTokens::allow_all(words, kVocab);
      EXPECT_EQ(words[2], 63U);
      const Status status = ruled.apply(tokens, prompt, logits, words);
      const std::span<const TokenId> all(tokens);
      const auto answer = all.subspan(static_cast<std::size_t>(prompt));
      int allowed = 0;
      for (TokenId id = 0; id < kVocab; ++id) {
        const auto i = static_cast<std::size_t>(id);
        const bool may = allows(rules, answer, ends, id);
        allowed += may;
        EXPECT_EQ((words[i / 32] >> (i % 32) & 1) != 0, may) << id;
        const float made = logits[i] + (ruled.bias() != nullptr ? ruled.bias()[i] : 0);
        EXPECT_EQ(made, logit_of(rules, all.first(static_cast<std::size_t>(prompt)), answer, logits[i], id)) << id;
      }
      EXPECT_EQ(status.ok(), allowed > 0);
      // Sometimes several tokens come before it is asked again.
      for (auto n = 1 + random() % 2; n > 0; --n) tokens.push_back(static_cast<TokenId>(random() % 8));
    }
  }
}

TEST(RuledTokensTest, BadRulesAreRefused) {
  const auto message = [](const TokenRules& rules) { return std::string(validate(rules, kVocab).message()); };
  EXPECT_EQ(message({.presence_penalty = 2.5F}), "presence_penalty: expected -2 to 2, found 2.5");
  EXPECT_EQ(message({.frequency_penalty = NAN}), "frequency_penalty: expected -2 to 2, found nan");
  EXPECT_EQ(message({.repetition_penalty = 0}), "repetition_penalty: expected 0.01 to 100, found 0");
  EXPECT_EQ(message({.logit_bias = {{kVocab, 1.0F}}}), "logit_bias: expected token ids below 70, found 70");
  EXPECT_EQ(message({.logit_bias = {{1, 101.0F}}}), "logit_bias: expected -100 to 100, found 101");
  EXPECT_EQ(message({.min_tokens = -1}), "min_tokens: expected at least 0, found -1");
  EXPECT_EQ(message({.bad_words = {{}}}), "bad_words: expected at least one token each, found none");
  EXPECT_EQ(message({.bad_words = {{-1}}}), "bad_words: expected token ids below 70, found -1");
  EXPECT_EQ(message({.allowed_token_ids = {70}}), "allowed_token_ids: expected token ids below 70, found 70");
  EXPECT_EQ(message({}), "");
  EXPECT_FALSE(TokenRules().any());
}

Request request_of(Answer& answer, const TokenRules& rules, int n = 1) {
  Request request;
  request.prompt = {5, 6, 7};
  request.max_tokens = 20;
  request.n = n;
  request.sampling.seed = 3;
  request.rules = std::make_shared<TokenRules>(rules);
  request.on_output = answer.sink();
  return request;
}

std::vector<TokenId> tokens_under(const TokenRules& rules, FinishReason reason = FinishReason::kLength) {
  const auto engine = make_engine();
  Answer answer;
  Request request = request_of(answer, rules);
  request.stop_token_ids = {1, 2};
  EXPECT_TRUE(engine->submit(std::move(request)).ok());
  EXPECT_EQ(answer.wait().reason, reason);
  return answer.tokens();
}

TEST(EngineRulesTest, EachHasItsEffect) {
  EXPECT_EQ(tokens_under({.allowed_token_ids = {9}}), std::vector<TokenId>(20, 9));
  EXPECT_EQ(tokens_under({.logit_bias = {{9, 100.0F}}}), std::vector<TokenId>(20, 9));
  const auto mixed = tokens_under({.frequency_penalty = 2, .logit_bias = {{8, 100.0F}, {9, 100.0F}}});
  EXPECT_EQ(std::ranges::count(mixed, 8), 10) << "each count makes a token rarer";
  TokenRules some{.logit_bias = {}};
  for (TokenId id = 8; id < 20; ++id) some.logit_bias.emplace_back(id, 100.0F);
  const auto without = tokens_under(some);
  some.presence_penalty = 2;
  EXPECT_NE(tokens_under(some), without);
  const auto worded = tokens_under({.bad_words = {{8, 9}, {9, 9}}, .allowed_token_ids = {8, 9}});
  for (std::size_t i = 1; i < worded.size(); ++i) EXPECT_NE(worded[i], 9);
  EXPECT_EQ(tokens_under({.logit_bias = {{2, 100.0F}}}, FinishReason::kStop), std::vector<TokenId>{2});
  EXPECT_EQ(tokens_under({.logit_bias = {{2, 100.0F}}, .min_tokens = 7}, FinishReason::kStop).size(), 8U);
  some.presence_penalty = 0;
  some.repetition_penalty = 2;
  EXPECT_NE(tokens_under(some), without);
}

TEST(EngineRulesTest, ADeviceRefusesWhatItsSamplerCannotDo) {
  EngineSetup options = small_options();
  options.machine.device = "emulated";
  const auto engine = make_engine(options);
  Answer answer;
  const auto submitted = engine->submit(request_of(answer, {.presence_penalty = 1}));
  ASSERT_FALSE(submitted.ok());
  EXPECT_NE(submitted.status().message().find("not supported on this device"), std::string::npos);
}

TEST(EngineRulesTest, RulesThatLeaveNothingEndTheAnswer) {
  const auto engine = make_engine();
  Answer answer;
  ASSERT_TRUE(engine->submit(request_of(answer, {.bad_words = {{8, 8}}, .allowed_token_ids = {8}})).ok());
  const Output last = answer.wait();
  EXPECT_EQ(last.reason, FinishReason::kError);
  EXPECT_NE(last.status.message().find("leave no token behind its first 1"), std::string::npos)
      << last.status.message();
  EXPECT_EQ(answer.tokens(), std::vector<TokenId>{8});
}

TEST(EngineRulesTest, PreemptionsAndCompanyChangeNothing) {
  const TokenRules rules{.presence_penalty = 1.5F,
                         .frequency_penalty = 1,
                         .repetition_penalty = 1.7F,
                         .logit_bias = {{9, 2.0F}, {11, 2.0F}, {12, 2.0F}}};
  std::vector<std::vector<TokenId>> found[2];
  for (const bool disturbed : {false, true}) {
    EngineSetup options = small_options();
    if (disturbed) options.testing.force_preempt_every = 2;
    const auto engine = make_engine(options);
    Answer many(3), one;
    ASSERT_TRUE(engine->submit(request_of(many, rules, 3)).ok());
    if (disturbed) {
      ASSERT_TRUE(engine->submit(request_of(one, {})).ok());
      one.wait();
    }
    many.wait();
    for (int choice = 0; choice < 3; ++choice) found[disturbed].push_back(many.tokens(choice));
  }
  EXPECT_EQ(found[0], found[1]);
  EXPECT_NE(found[0][0], tokens_under({}));
}

}  // namespace
}  // namespace sluice::ruled_tokens_test
