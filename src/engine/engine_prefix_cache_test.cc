// The prefix cache as requests see it: what is computed again, and that answers do not change. Rows computed are
// EngineStats::prompt_tokens.
#include <gtest/gtest.h>

#include "engine/engine_testing.h"

namespace sluice::engine_prefix_cache_test {
namespace {

constexpr SamplingParams kGreedy{.temperature = 0};

// Submits, waits, checks the tokens, and returns how many rows of the prompt were computed.
class CachedEngine {
 public:
  explicit CachedEngine(const EngineSetup& options = small_options()) : engine_(make_engine(options)) {}

  int rows(const std::vector<TokenId>& prompt, int max_tokens = 3, const std::string& salt = "",
           std::vector<std::int32_t> message_starts = {}) {
    Answer answer;
    const auto before = engine_->stats().prompt_tokens;
    Request r = request(answer, prompt, max_tokens);
    r.cache_salt = salt;
    r.message_starts = std::move(message_starts);
    EXPECT_TRUE(engine_->submit(std::move(r)).ok());
    last_ = answer.wait();
    tokens_ = answer.tokens();
    EXPECT_EQ(tokens_, alone(prompt, max_tokens, kGreedy));
    const int computed = static_cast<int>(engine_->stats().prompt_tokens - before);
    EXPECT_EQ(last_.cached_tokens, static_cast<int>(prompt.size()) - computed);
    return computed;
  }
  const std::vector<TokenId>& tokens() const { return tokens_; }
  Engine* operator->() { return engine_.get(); }

 private:
  std::unique_ptr<Engine> engine_;
  Output last_;
  std::vector<TokenId> tokens_;
};

TEST(EnginePrefixCacheTest, TheSecondTimeOnlyTheRestIsComputed) {
  CachedEngine engine;
  const auto prompt = random_tokens(300, 1);
  EXPECT_EQ(engine.rows(prompt), 300);
  EXPECT_EQ(engine.rows(prompt), 44);
  EXPECT_EQ(engine.rows(prompt), 44);
  const CacheStats cache = engine->stats().cache;
  EXPECT_EQ(cache.admissions, 3U);
  EXPECT_EQ(cache.prompt_tokens, 900U);
  EXPECT_EQ(cache.matched_tokens, 512U);
  EXPECT_EQ(cache.resumed_tokens, 512U);
  EXPECT_EQ(cache.lost_to_retention_tokens, 0U);
  EXPECT_EQ(cache.inserted_blocks, 2U);
  EXPECT_EQ(cache.shared_waits, 0U);
}

TEST(EnginePrefixCacheTest, ALongerPromptGoesOnBehindAShorterOne) {
  CachedEngine engine;
  const auto prompt = random_tokens(256, 1);
  EXPECT_EQ(engine.rows(prompt), 256);
  EXPECT_EQ(engine.rows(joined(prompt, random_tokens(150, 2))), 150);
  EXPECT_EQ(engine.rows(joined(prompt, random_tokens(10, 3))), 10);
}

TEST(EnginePrefixCacheTest, AnExactMultipleComputesItsLastBlockOnly) {
  CachedEngine engine;
  for (const int blocks : {1, 2, 5}) {
    const auto prompt = random_tokens(blocks * 128, 7 + static_cast<unsigned>(blocks));
    EXPECT_EQ(engine.rows(prompt), blocks * 128);
    EXPECT_EQ(engine.rows(prompt), 128);
    const auto longer = joined(prompt, {1});
    EXPECT_EQ(engine.rows(longer), 1);
    EXPECT_EQ(engine.rows(longer), 1);
  }
}

TEST(EnginePrefixCacheTest, LessThanABlockNeverHits) {
  CachedEngine engine;
  for (const int length : {1, 127, 1, 127}) {
    EXPECT_EQ(engine.rows(random_tokens(length, 1)), length);
  }
  EXPECT_EQ(engine.rows({5}), 1);
  EXPECT_EQ(engine->stats().cache.inserted_blocks, 1U) << "of 127 tokens and three of an answer, two computed";
}

TEST(EnginePrefixCacheTest, GeneratedTokensServeTheNextTurn) {
  CachedEngine engine;
  auto turn = random_tokens(100, 1);
  EXPECT_EQ(engine.rows(turn, 200), 100);
  turn = joined(joined(turn, engine.tokens()), random_tokens(20, 2));  // 320
  EXPECT_EQ(engine.rows(turn, 100), 64) << "two blocks of prompt and answer are there";
  turn = joined(joined(turn, engine.tokens()), random_tokens(30, 3));  // 450
  EXPECT_EQ(engine.rows(turn, 1), 450 - 384);
}

TEST(EnginePrefixCacheTest, TheLastTokenOfAnAnswerIsNotCached) {
  CachedEngine engine;
  const auto prompt = random_tokens(120, 1);
  engine.rows(prompt, 8);  // 128 tokens known, 127 computed
  EXPECT_EQ(engine->stats().cache.inserted_blocks, 0U);
  EXPECT_EQ(engine.rows(joined(joined(prompt, engine.tokens()), {1, 2}), 1), 130);
}

TEST(EnginePrefixCacheTest, SaltsAreApart) {
  CachedEngine engine;
  const auto prompt = random_tokens(300, 1);
  for (const char* salt : {"", "a", "b"}) EXPECT_EQ(engine.rows(prompt, 3, salt), 300) << salt;
  for (const char* salt : {"", "a", "b"}) EXPECT_EQ(engine.rows(prompt, 3, salt), 44) << salt;
}

TEST(EnginePrefixCacheTest, MessagesBeginWhereOthersResume) {
  for (const bool marked : {false, true}) {
    CachedEngine engine;
    const auto system = random_tokens(260, 1);
    const auto with = [&](unsigned seed) { return joined(system, random_tokens(300, seed)); };
    const std::vector<std::int32_t> starts = marked ? std::vector<std::int32_t>{0, 260} : std::vector<std::int32_t>{};
    EXPECT_EQ(engine.rows(with(2), 3, "", starts), 560);
    // Without marks, the place to resume is gone; it was wanted, so it is kept from then on.
    EXPECT_EQ(engine.rows(with(3), 3, "", starts), marked ? 304 : 560);
    EXPECT_EQ(engine->stats().cache.lost_to_retention_tokens, marked ? 0U : 256U);
    EXPECT_EQ(engine.rows(with(4), 3, "", starts), 304);
  }
}

TEST(EnginePrefixCacheTest, ResetForgets) {
  CachedEngine engine;
  const auto prompt = random_tokens(300, 1);
  EXPECT_EQ(engine.rows(prompt), 300);
  EXPECT_GT(engine->stats().cache.latent_pages_cached, 0);
  EXPECT_TRUE(engine->reset_prefix_cache(60));
  EXPECT_EQ(engine->stats().cache.latent_pages_cached, 0);
  EXPECT_EQ(engine->stats().cache.window_pages_cached, 0);
  EXPECT_EQ(engine.rows(prompt), 300);
  EXPECT_EQ(engine.rows(prompt), 44);
}

TEST(EnginePrefixCacheTest, ResetWhileRequestsRun) {
  const auto prompt = random_tokens(300, 1);
  Answer first, second;
  GatedEngine engine;
  ASSERT_TRUE(engine->submit(request(first, prompt, 50)).ok());
  ASSERT_TRUE(engine->submit(request(second, prompt, 50)).ok());  // waits for the first one's blocks
  for (int i = 0; i < 30; ++i) {
    engine.gate().pass();
    EXPECT_FALSE(engine->reset_prefix_cache(0)) << "it is done before the next step";
  }
  engine.gate().open();
  for (Answer* answer : {&first, &second}) {
    answer->wait();
    EXPECT_EQ(answer->tokens(), alone(prompt, 50, kGreedy));
  }
}

TEST(EnginePrefixCacheTest, Disabled) {
  EngineSetup options = small_options();
  options.cache.enable_prefix_caching = false;
  CachedEngine engine(options);
  const auto prompt = random_tokens(300, 1);
  EXPECT_EQ(engine.rows(prompt, 150), 300);
  EXPECT_EQ(engine.rows(prompt, 150), 300);
  const CacheStats cache = engine->stats().cache;
  EXPECT_EQ(cache.inserted_blocks + cache.inserted_windows, 0U);
  EXPECT_EQ(cache.matched_tokens, 0U);
  EXPECT_EQ(cache.latent_pages_cached + cache.window_pages_cached, 0);
  EXPECT_TRUE(engine->reset_prefix_cache(60));
}

TEST(EnginePrefixCacheTest, WhatIsEvictedIsComputedAgain) {
  EngineSetup options = small_options();
  options.scheduler.max_num_seqs = 1;
  options.model.max_model_len = 1024;
  options.cache.kv_cache_memory = 20 << 10;
  CachedEngine engine(options);
  const auto prompt = random_tokens(600, 1);
  EXPECT_EQ(engine.rows(prompt), 600);
  for (unsigned i = 2; i < 12; ++i) engine.rows(random_tokens(600, i));
  const CacheStats cache = engine->stats().cache;
  EXPECT_GT(cache.evicted_blocks, 0U);
  EXPECT_GT(cache.evicted_windows, 0U);
  EXPECT_EQ(engine.rows(prompt), 600);
}

// Three requests with a common prefix arrive before a step is planned: one computes it, the others wait, and then begin
// after it.
TEST(EnginePrefixCacheTest, ACommonPrefixIsComputedOnce) {
  const auto prefix = random_tokens(260, 1);
  std::vector<std::vector<TokenId>> prompts;
  for (unsigned i = 0; i < 3; ++i) prompts.push_back(joined(prefix, random_tokens(40, 20 + i)));
  std::vector<Answer> answers(3);
  Answer blocker;
  GatedEngine engine;
  ASSERT_TRUE(engine->submit(request(blocker, {1}, 2)).ok());
  engine.gate().wait_for_step();
  for (std::size_t i = 0; i < 3; ++i) ASSERT_TRUE(engine->submit(request(answers[i], prompts[i], 20)).ok());
  engine.gate().open();
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(answers[i].wait().cached_tokens, i == 0 ? 0 : 256);
    EXPECT_EQ(answers[i].tokens(), alone(prompts[i], 20, kGreedy));
  }
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.prompt_tokens, 1U + 300 + 2 * 44);
  // A device that computes later does not hold up the engine: it may plan before all of them are here.
  if (std::string_view(test_device()) == "cpu") {
    EXPECT_EQ(stats.cache.shared_waits, 2U);
  }
}

// The one that computes the common prefix goes: another one takes over.
TEST(EnginePrefixCacheTest, WhoWaitsForAPrefixGoesOnWhenItsMakerIsCancelled) {
  const auto prompt = random_tokens(400, 1);
  Answer first, second, third;
  GatedEngine engine;
  const RequestId id = engine->submit(request(first, prompt, 20)).value();
  engine.gate().wait_for_step();
  ASSERT_TRUE(engine->submit(request(second, prompt, 20)).ok());
  ASSERT_TRUE(engine->submit(request(third, prompt, 20)).ok());
  engine.gate().pass(2);  // 128 rows of the first are computed, 64 more wait
  engine->cancel(id);
  engine.gate().open();
  EXPECT_EQ(first.wait().reason, FinishReason::kCancelled);
  EXPECT_EQ(second.wait().cached_tokens, 128);
  EXPECT_EQ(third.wait().cached_tokens, 384);
  for (Answer* answer : {&second, &third}) EXPECT_EQ(answer->tokens(), alone(prompt, 20, kGreedy));
  EXPECT_EQ(engine->stats().prompt_tokens, 192U + 272 + 16);
}

}  // namespace
}  // namespace sluice::engine_prefix_cache_test
