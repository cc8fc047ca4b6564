#include "cache/prefix_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/toy_world_testing.h"

namespace sluice::prefix_cache_test {
namespace {

// `n` tokens of story 1, then of another up to `total`.
std::vector<TokenId> branch(int n, int story, int total) {
  std::vector<TokenId> tokens = toy_tokens(1, n);
  const std::vector<TokenId> other = toy_tokens(story, total);
  tokens.insert(tokens.end(), other.begin() + n, other.end());
  return tokens;
}

PrefixCacheOptions only(void (*set)(RetentionRules*)) {
  RetentionRules rules{.every_64th = false,
                       .before_prompt_end = false,
                       .at_prompt_end = false,
                       .message_start = false,
                       .finished = false,
                       .preempted = false,
                       .demand = false};
  set(&rules);
  return {.retention = rules};
}

TEST(PrefixCacheTest, AColdPromptMissesAndTheSamePromptHits) {
  ToyWorld world{ToyShape()};
  const auto tokens = toy_tokens(1, 300);
  const BlockChain chain = world.prompt_chain(tokens);
  EXPECT_EQ(world.serve(tokens, chain).shared, 0);
  const PrefixHit hit = world.serve(tokens, chain);
  EXPECT_EQ(hit.resume, 256);
  EXPECT_EQ(hit.shared, 256);
  EXPECT_FALSE(hit.wait);
  EXPECT_EQ(world.cache().lookup(world.chain(toy_tokens(2, 300)), 300).shared, 0);  // no false positive
}

TEST(PrefixCacheTest, AnExactMultipleComputesItsLastBlockAgain) {
  ToyWorld world{ToyShape()};
  const auto tokens = toy_tokens(1, 384);
  const BlockChain chain = world.prompt_chain(tokens);
  world.serve(tokens, chain);
  const PrefixHit hit = world.serve(tokens, chain);
  EXPECT_EQ(hit.resume, 256);
  EXPECT_EQ(hit.shared, 384);  // for its window and its logits only: its latents are there
  const auto longer = toy_tokens(1, 385);
  EXPECT_EQ(world.serve(longer, world.prompt_chain(longer)).resume, 384);
}

TEST(PrefixCacheTest, WithoutDigestsABlockIsInsertedAndNoneIsRemembered) {
  ToyWorld world{ToyShape()};
  PrefixCache plain(&world.pools(), {});
  EXPECT_FALSE(plain.has_digests());
  const LatentPage page = world.pools().latents().allocate();
  EXPECT_EQ(plain.insert(page, world.chain(toy_tokens(1, 128)), 0), page);
  world.pools().latents().release(page);
}

TEST(PrefixCacheTest, ASingleTokenPromptNeverHits) {
  ToyWorld world{ToyShape()};
  const auto tokens = toy_tokens(1, 300);
  world.serve(tokens, world.prompt_chain(tokens));
  for (const int n : {1, 2, 127, 128}) {
    const auto prompt = toy_tokens(1, n);
    EXPECT_EQ(world.serve(prompt, world.prompt_chain(prompt)).resume, 0) << n;
  }
  const auto prompt = toy_tokens(1, 129);
  world.serve(prompt, world.prompt_chain(prompt));
  EXPECT_EQ(world.serve(prompt, world.prompt_chain(prompt)).resume, 128);
}

TEST(PrefixCacheTest, TheHitIsTheLongestBoundaryThatCanBeResumedFrom) {
  ToyWorld world{ToyShape()};
  const auto tokens = toy_tokens(1, 700);
  world.serve(tokens, world.prompt_chain(tokens, "", {300}));  // keeps the windows of blocks 1 and 4
  const auto other = branch(600, 2, 800);
  const PrefixHit hit = world.serve(other, world.prompt_chain(other));
  EXPECT_EQ(hit.resume, 256);
  EXPECT_EQ(hit.shared, 512);
}

TEST(PrefixCacheTest, WithoutAWindowTheLatentsAreSharedAllTheSame) {
  ToyWorld world{ToyShape()};
  const auto tokens = toy_tokens(1, 700);
  world.serve(tokens, world.prompt_chain(tokens));
  EXPECT_EQ(world.pools().latents().inserted_count(), 5U);
  const auto other = branch(600, 2, 800);
  const PrefixHit hit = world.serve(other, world.prompt_chain(other));
  EXPECT_EQ(hit.resume, 0);
  EXPECT_EQ(hit.shared, 512);
  EXPECT_EQ(world.pools().latents().inserted_count(), 7U);  // its blocks 4 and 5
}

TEST(PrefixCacheTest, APlaceThatWasWantedIsKeptTheNextTime) {
  ToyWorld world{ToyShape()};
  const auto tokens = toy_tokens(1, 700);
  world.serve(tokens, world.prompt_chain(tokens));
  const auto second = branch(600, 2, 800), third = branch(600, 3, 800);
  EXPECT_EQ(world.serve(second, world.prompt_chain(second)).resume, 0);
  EXPECT_EQ(world.serve(third, world.prompt_chain(third)).resume, 512);

  ToyWorld forgetful(ToyShape(), {}, only([](RetentionRules*) {}));
  forgetful.serve(tokens, forgetful.prompt_chain(tokens));
  EXPECT_EQ(forgetful.serve(second, forgetful.prompt_chain(second)).resume, 0);
  EXPECT_EQ(forgetful.serve(third, forgetful.prompt_chain(third)).resume, 0);
}

TEST(PrefixCacheTest, TheOldestOfTooManyDemandsIsForgotten) {
  constexpr int kDemands = 4096;
  ToyWorld world(ToyShape(), {.latent_pages = kDemands + 2, .window_pages = 4, .sequences = 1});
  std::vector<BlockChain> chains;
  for (int i = 0; i < kDemands + 1; ++i) {
    chains.push_back(world.chain(toy_tokens(i, 200)));
    world.cache().insert(world.pools().latents().allocate(), chains.back(), 0);
  }
  const auto kept = [&](int i) {
    const WindowPage page =
        world.cache().insert(world.pools().windows().allocate(), chains[static_cast<std::size_t>(i)], 0);
    const bool kept = world.pools().windows().kept(page);
    world.pools().windows().release(page);
    return kept;
  };
  EXPECT_FALSE(kept(0));
  for (int again = 0; again < 3; ++again) {  // the same demand does not count twice
    for (int i = 0; i < kDemands; ++i) world.cache().lookup(chains[static_cast<std::size_t>(i)], 200);
  }
  EXPECT_TRUE(kept(0));
  world.pools().windows().forget_cached();
  world.cache().lookup(chains[kDemands], 200);
  EXPECT_FALSE(kept(0));
  EXPECT_TRUE(kept(1));
  EXPECT_TRUE(kept(kDemands));
  world.cache().reset();
  EXPECT_FALSE(kept(2));
}

TEST(PrefixCacheTest, ARequestWaitsForBlocksThatARunningOneWillInsert) {
  ToyWorld world{ToyShape()};
  const auto tokens = toy_tokens(1, 700), other = branch(600, 2, 700);
  const BlockChain chain = world.prompt_chain(tokens), other_chain = world.prompt_chain(other);
  world.start(0, chain, 700);
  world.cache().expect(chain, 0, 5);
  EXPECT_TRUE(world.cache().lookup(other_chain, 700).wait);
  EXPECT_FALSE(world.cache().lookup(world.chain(toy_tokens(3, 700)), 700).wait);
  EXPECT_FALSE(world.cache().lookup(world.chain(toy_tokens(1, 128)), 128).wait);  // it computes its only block anyhow
  EXPECT_TRUE(world.cache().lookup(world.chain(toy_tokens(1, 129)), 129).wait);

  ASSERT_TRUE(world.compute(0, tokens, 300, &chain));
  world.cache().forget_expected(chain, 0, 2);
  PrefixHit hit = world.cache().lookup(other_chain, 700);
  EXPECT_EQ(hit.shared, 256);
  EXPECT_TRUE(hit.wait);

  ASSERT_TRUE(world.compute(0, tokens, 400, &chain));
  world.cache().forget_expected(chain, 2, 5);
  EXPECT_EQ(world.cache().expected_blocks(), 0U);
  hit = world.start(1, other_chain, 700);
  EXPECT_FALSE(hit.wait);
  EXPECT_EQ(hit.resume, 512);  // because it waited, the window there was kept
  EXPECT_TRUE(world.compute(1, other, 188, &other_chain));
}

TEST(PrefixCacheTest, BlocksAreExpectedUntilTheLastThatComputesThemStops) {
  ToyWorld world{ToyShape()};
  const BlockChain chain = world.chain(toy_tokens(1, 700));
  world.cache().expect(chain, 0, 5);
  world.cache().expect(chain, 0, 5);
  world.cache().forget_expected(chain, 0, 5);  // aborted
  EXPECT_TRUE(world.cache().lookup(chain, 700).wait);
  world.cache().forget_expected(chain, 0, 5);
  EXPECT_FALSE(world.cache().lookup(chain, 700).wait);
  EXPECT_DEATH(world.cache().forget_expected(chain, 0, 1), "only what was expected");
}

TEST(PrefixCacheTest, SaltsSeparateTenants) {
  ToyWorld world{ToyShape()};
  const auto tokens = toy_tokens(1, 700);
  world.serve(tokens, world.prompt_chain(tokens, "a"));
  world.cache().expect(world.chain(tokens, "a"), 0, 5);
  for (const char* salt : {"", "b", "A"}) {
    const PrefixHit hit = world.cache().lookup(world.chain(tokens, salt), 700);
    EXPECT_EQ(hit.shared, 0) << salt;
    EXPECT_FALSE(hit.wait) << salt;
  }
  EXPECT_EQ(world.cache().lookup(world.chain(tokens, "a"), 700).resume, 640);
}

TEST(PrefixCacheTest, TailsAreEvictedBeforeHeads) {
  ToyWorld world(ToyShape(), {.latent_pages = 6, .window_pages = 12, .sequences = 2});
  const auto tokens = toy_tokens(1, 700), other = toy_tokens(2, 300);
  const BlockChain chain = world.prompt_chain(tokens, "", {390});
  world.serve(tokens, chain);
  const auto used = world.prompt_chain(other);
  world.open(1);
  ASSERT_TRUE(world.compute(1, other, 300, &used));  // three pages: the vacant one, and the two last blocks'
  EXPECT_EQ(world.pools().latents().evicted_count(), 2U);
  const PrefixHit hit = world.cache().lookup(chain, 700);
  EXPECT_EQ(hit.shared, 384);
  EXPECT_EQ(hit.resume, 384);
  world.end(1);
}

TEST(PrefixCacheTest, WindowsAndLatentsAreEvictedApart) {
  ToyWorld world(ToyShape(), {.latent_pages = 40, .window_pages = 6, .sequences = 1});
  const auto tokens = toy_tokens(1, 700);
  const BlockChain chain = world.prompt_chain(tokens);
  world.serve(tokens, chain);
  std::vector<WindowPage> all;
  for (int i = 0; i < 6; ++i) all.push_back(world.pools().windows().allocate());
  PrefixHit hit = world.cache().lookup(chain, 700);
  EXPECT_EQ(hit.shared, 640);
  EXPECT_EQ(hit.resume, 0);
  for (const WindowPage page : all) world.pools().windows().release(page);
  world.serve(tokens, chain);
  world.cache().reset();
  EXPECT_EQ(world.cache().lookup(chain, 700).shared, 0);
}

TEST(PrefixCacheTest, WithoutItsHeadATailIsNotFound) {
  ToyWorld world(ToyShape(), {.latent_pages = 3, .window_pages = 9, .sequences = 1});
  const auto tokens = toy_tokens(1, 384);
  const BlockChain chain = world.prompt_chain(tokens);
  world.serve(tokens, chain);
  for (int b = 2; b >= 1; --b) {  // the later blocks are used again, so the first one is the oldest
    const LatentPage page = world.pools().latents().find(chain[b]);
    world.pools().latents().claim(page);
    world.pools().latents().release(page);
  }
  const LatentPage taken = world.pools().latents().allocate();
  EXPECT_TRUE(world.pools().latents().find(chain[1]));
  EXPECT_EQ(world.cache().lookup(chain, 384).shared, 0);
  world.pools().latents().release(taken);
  world.serve(tokens, chain);  // inserts block 0 again and takes over the others
  EXPECT_EQ(world.cache().lookup(chain, 384).shared, 384);
}

TEST(PrefixCacheTest, AReusedPageIsNotFoundUnderItsOldName) {
  ToyWorld world(ToyShape(), {.latent_pages = 6, .window_pages = 7, .sequences = 1});
  const auto first = toy_tokens(1, 700), second = toy_tokens(2, 700);
  const BlockChain first_chain = world.prompt_chain(first), second_chain = world.prompt_chain(second);
  for (int turn = 0; turn < 3; ++turn) {  // each takes all pages
    EXPECT_EQ(world.serve(first, first_chain).shared, 0);
    EXPECT_EQ(world.cache().lookup(second_chain, 700).shared, 0);
    EXPECT_EQ(world.serve(second, second_chain).shared, 0);
    EXPECT_EQ(world.cache().lookup(first_chain, 700).shared, 0);
  }
}

TEST(PrefixCacheTest, AStaleNameWouldBeSeen) {
  ToyWorld world(ToyShape(), {.latent_pages = 6, .window_pages = 7, .sequences = 1}, {.fault = Fault::kStaleHash});
  const auto first = toy_tokens(1, 700), second = toy_tokens(2, 700);
  world.serve(first, world.prompt_chain(first));
  world.open(0);
  ASSERT_TRUE(world[0].reserve(700));
  EXPECT_GT(world.cache().lookup(world.prompt_chain(first), 700).shared, 0);
  EXPECT_FALSE(world.check().ok());
  world[0].discard();
}

TEST(PrefixCacheTest, ABlockComputedTwiceKeepsItsFirstPage) {
  ToyWorld world{ToyShape()};
  const auto tokens = toy_tokens(1, 300);
  const BlockChain chain = world.prompt_chain(tokens);
  world.start(0, chain, 300);
  world.start(1, chain, 300);  // both before either has inserted
  ASSERT_TRUE(world.compute(0, tokens, 300, &chain));
  ASSERT_TRUE(world.compute(1, tokens, 300, &chain));
  for (const std::size_t b : {0U, 1U}) EXPECT_EQ(world[0].latent_pages()[b], world[1].latent_pages()[b]);
  EXPECT_NE(world[0].latent_pages()[2], world[1].latent_pages()[2]);  // not complete
  EXPECT_EQ(world[0].window_pages()[0], world[1].window_pages()[0]);
  EXPECT_NE(world[0].window_pages()[1], world[1].window_pages()[1]);
  EXPECT_EQ(world.pools().latents().used(), 4);
  EXPECT_EQ(world.pools().windows().used(), 3);
  EXPECT_EQ(world[0].exclusive_latent_pages(), 1);
}

TEST(PrefixCacheTest, AWindowIsNotLostWithTheFirstOfTwoThatComputedIt) {
  ToyWorld world(ToyShape(), {}, only([](RetentionRules*) {}));
  const auto tokens = toy_tokens(1, 300);
  const BlockChain chain = world.prompt_chain(tokens);
  world.open(0);
  world.open(1);
  ASSERT_TRUE(world.compute(0, tokens, 300, &chain));
  ASSERT_TRUE(world.compute(1, tokens, 300, &chain));
  world.end(0);          // aborted
  world.end(1, &chain);  // finished
  EXPECT_EQ(world.cache().lookup(chain, 300).resume, 256);
}

TEST(PrefixCacheTest, SharedPagesAreFreedOnce) {
  ToyWorld world{ToyShape()};
  const auto tokens = toy_tokens(1, 300);
  const BlockChain chain = world.prompt_chain(tokens);
  world.serve(tokens, chain);
  EXPECT_EQ(world.pools().latents().cached(), 2);
  EXPECT_EQ(world.start(0, chain, 300).claimed_free, 2);
  EXPECT_EQ(world.start(1, chain, 300).claimed_free, 0);  // the other one holds them
  EXPECT_EQ(world.pools().latents().used(), 2);
  world.end(0);
  EXPECT_EQ(world.pools().latents().used(), 2);
  world.end(1);
  EXPECT_EQ(world.pools().latents().used(), 0);
  EXPECT_EQ(world.pools().latents().free(), 40);
}

TEST(PrefixCacheTest, NothingIsFoundBeforeItIsComputed) {
  ToyWorld world{ToyShape()};
  const auto tokens = toy_tokens(1, 700);
  const BlockChain chain = world.prompt_chain(tokens);
  world.open(0);
  ASSERT_TRUE(world[0].reserve(700));
  EXPECT_EQ(world.cache().lookup(chain, 700).shared, 0);
  world[0].discard();
  EXPECT_EQ(world.cache().lookup(chain, 700).shared, 0);
  ASSERT_TRUE(world.compute(0, tokens, 255, &chain));
  EXPECT_EQ(world.cache().lookup(chain, 700).shared, 128);  // the second block lacks a token
  ASSERT_TRUE(world[0].reserve(400));
  world.end(0);  // aborted within a step
  EXPECT_EQ(world.cache().lookup(chain, 700).shared, 128);
}

TEST(PrefixCacheTest, GeneratedTokensAreFoundInTheNextTurn) {
  ToyWorld world{ToyShape()};
  const auto tokens = toy_tokens(1, 600);  // 200 of them the prompt
  BlockChain chain = world.prompt_chain(std::span(tokens).first(200));
  world.open(0);
  ASSERT_TRUE(world.compute(0, tokens, 200, &chain));
  for (std::size_t n = 201; n <= 600; ++n) {
    chain.extend(std::span(tokens).first(n));
    ASSERT_TRUE(world.compute(0, tokens, 1, &chain));
  }
  world.end(0, &chain);
  EXPECT_EQ(world.cache().lookup(chain, 200).resume, 128);  // the prompt again
  const auto next = branch(600, 2, 900);
  EXPECT_EQ(world.serve(next, world.prompt_chain(next)).resume, 512);  // the answer and a new question
}

TEST(PrefixCacheTest, APreemptedSequenceGoesOnFromItsLastBoundary) {
  ToyWorld world(ToyShape(), {}, only([](RetentionRules*) {}));
  const auto tokens = toy_tokens(1, 700);
  const BlockChain chain = world.prompt_chain(tokens);
  world.open(0);
  ASSERT_TRUE(world.compute(0, tokens, 600, &chain));
  world.end(0, &chain);
  EXPECT_EQ(world.start(0, chain, 601).resume, 512);
  EXPECT_TRUE(world.compute(0, tokens, 188, &chain));
}

TEST(PrefixCacheTest, ALadderLeadsThroughLongContexts) {
  ToyWorld world({.latents = {128}}, {.latent_pages = 200, .window_pages = 200, .sequences = 1},
                 only([](RetentionRules* rules) { rules->every_64th = true; }));
  const auto tokens = toy_tokens(1, 8400), other = branch(8350, 2, 8400);
  world.serve(tokens, world.prompt_chain(tokens));
  EXPECT_EQ(world.pools().windows().cached(), 1);
  const PrefixHit hit = world.serve(other, world.prompt_chain(other));
  EXPECT_EQ(hit.resume, 8192);
  EXPECT_EQ(hit.shared, 8320);
}

TEST(PrefixCacheTest, ASharedSystemPromptIsFoundByItsMessagesStart) {
  ToyWorld world(ToyShape(), {}, only([](RetentionRules* rules) { rules->message_start = true; }));
  const auto first = branch(400, 2, 900), second = branch(400, 3, 900);
  world.serve(first, world.prompt_chain(first, "", {400}));
  EXPECT_EQ(world.serve(second, world.prompt_chain(second, "", {400})).resume, 384);
}

TEST(PrefixCacheTest, ResetForgetsWhatNoSequenceHolds) {
  ToyWorld world{ToyShape()};
  const auto tokens = toy_tokens(1, 700);
  const BlockChain chain = world.prompt_chain(tokens);
  world.serve(tokens, chain);
  world.cache().reset();
  EXPECT_EQ(world.cache().lookup(chain, 700).shared, 0);
  EXPECT_EQ(world.pools().latents().cached() + world.pools().windows().cached(), 0);
  world.serve(tokens, chain);
  world.start(0, chain, 700);
  world.cache().reset();
  world.expect_sound();
  EXPECT_EQ(world.cache().lookup(chain, 700).resume, 640);
  EXPECT_TRUE(world.compute(0, tokens, 60, &chain));
}

TEST(PrefixCacheTest, SwitchedOffItFindsAndInsertsNothing) {
  ToyWorld world(ToyShape(), {}, {.enabled = false});
  const auto tokens = toy_tokens(1, 700);
  const BlockChain chain = world.prompt_chain(tokens);
  world.cache().expect(chain, 0, 5);
  for (int turn = 0; turn < 2; ++turn) {
    const PrefixHit hit = world.serve(tokens, chain);
    EXPECT_EQ(hit.shared, 0);
    EXPECT_FALSE(hit.wait);
  }
  EXPECT_EQ(world.pools().latents().inserted_count() + world.pools().windows().inserted_count(), 0U);
  EXPECT_EQ(world.pools().latents().vacant(), 40);
}

// The tests below hold for every kind of layout.
class PrefixCacheLayoutTest : public ::testing::TestWithParam<ToyShape> {};

TEST_P(PrefixCacheLayoutTest, ARepeatedPromptComputesItsLastBlockOnly) {
  for (const int n : {129, 256, 300, 896, 1000}) {
    ToyWorld world{GetParam()};
    const auto tokens = toy_tokens(1, n);
    const BlockChain chain = world.prompt_chain(tokens);
    world.serve(tokens, chain);
    const PrefixHit hit = world.serve(tokens, chain);
    EXPECT_EQ(hit.resume, (n - 1) / 128 * 128) << n;
    EXPECT_EQ(hit.shared, GetParam().latents.empty() ? hit.resume : n / 128 * 128) << n;
  }
}

TEST_P(PrefixCacheLayoutTest, TheLatentsOfACommonPrefixAreSharedWhereverItEnds) {
  const bool any_boundary = PageGeometry::of(ToyModel(GetParam()).layout()).resume_pages == 0;
  const auto tokens = toy_tokens(1, 900);
  for (const int common : {100, 128, 300, 640, 899}) {
    ToyWorld world{GetParam()};
    world.serve(tokens, world.prompt_chain(tokens));
    const auto other = branch(common, 2, 900);
    const PrefixHit hit = world.serve(other, world.prompt_chain(other));
    const int matched = common / 128 * 128;
    const bool kept = matched == 896;
    EXPECT_EQ(hit.resume, any_boundary ? matched : kept ? matched : 0) << common;
    EXPECT_EQ(hit.shared, GetParam().latents.empty() ? hit.resume : matched) << common;
  }
}

TEST_P(PrefixCacheLayoutTest, OneThatWaitsFindsWhatItWaitedFor) {
  ToyWorld world{GetParam()};
  const auto tokens = toy_tokens(1, 900), other = branch(700, 2, 900);
  const BlockChain chain = world.prompt_chain(tokens), other_chain = world.prompt_chain(other);
  world.start(0, chain, 900);
  world.cache().expect(chain, 0, 7);
  EXPECT_TRUE(world.cache().lookup(other_chain, 900).wait);
  ASSERT_TRUE(world.compute(0, tokens, 900, &chain));
  world.cache().forget_expected(chain, 0, 7);
  const PrefixHit hit = world.start(1, other_chain, 900);
  EXPECT_EQ(hit.resume, 640);
  EXPECT_FALSE(hit.wait);
  EXPECT_TRUE(world.compute(1, other, 260, &other_chain));
}

TEST_P(PrefixCacheLayoutTest, AFreshPromptNeitherHitsNorWaits) {
  ToyWorld world{GetParam()};
  const auto tokens = toy_tokens(1, 900);
  world.serve(tokens, world.prompt_chain(tokens));
  const PrefixHit hit = world.cache().lookup(world.chain(toy_tokens(2, 900)), 900);
  EXPECT_EQ(hit.resume + hit.shared + hit.claimed_free, 0);
  EXPECT_FALSE(hit.wait);
}

INSTANTIATE_TEST_SUITE_P(Shapes, PrefixCacheLayoutTest, ::testing::ValuesIn(toy_shapes()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace sluice::prefix_cache_test
