// The algebra of sequences, for every kind of layout: each way to come to a position is the direct one. ToyWorld
// compares every output with that of the tokens alone in one piece.
#include <gtest/gtest.h>

#include <random>

#include "base/test_seed_testing.h"
#include "cache/toy_world_testing.h"

namespace sluice::sequence_law_test {
namespace {

class SequenceLawTest : public ::testing::TestWithParam<ToyShape> {
 protected:
  SequenceLawTest() : trace_(__FILE__, __LINE__, "SLUICE_TEST_SEED=" + std::to_string(seed_)) {}
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  // To `end`, in pieces.
  void advance(ToyWorld& world, std::size_t i, std::span<const TokenId> tokens, int end, const BlockChain* chain) {
    while (world[i].position() < end) {
      const int rest = end - world[i].position();
      ASSERT_TRUE(world.compute(i, tokens, std::min(rest, 1 + below(below(2) == 0 ? 5 : 300)), chain));
    }
  }

  const unsigned seed_ = test_seed();
  ::testing::ScopedTrace trace_;
  std::mt19937 random_{seed_};
  const std::vector<TokenId> tokens_ = toy_tokens(1, 700);
};

TEST_P(SequenceLawTest, PiecesAreOnePiece) {
  for (int i = 0; i < 8; ++i) {
    ToyWorld world{GetParam()};
    world.open(0);
    advance(world, 0, tokens_, 700, nullptr);
  }
}

TEST_P(SequenceLawTest, WhatIsDiscardedLeavesNoTrace) {
  ToyWorld world{GetParam()};
  world.open(0);
  while (world[0].position() < 600) {
    const int at = world[0].position();
    ASSERT_TRUE(world.compute_in_vain(0, diverging(tokens_, at, 5), std::min(700 - at, 1 + below(200))));
    ASSERT_TRUE(world.compute(0, tokens_, 1 + below(100), nullptr));
  }
}

TEST_P(SequenceLawTest, TruncatedComputedAgainAndExtendedIsDirect) {
  for (const bool cached : {false, true}) {
    ToyWorld world{GetParam()};
    const BlockChain chain = world.prompt_chain(tokens_, "", {300});
    const BlockChain* names = cached ? &chain : nullptr;
    world.open(0);
    for (int i = 0; i < 12; ++i) {
      const int end = 1 + below(700), p = below(700);
      advance(world, 0, tokens_, end, names);
      const int before = world[0].position(), r = world[0].truncate(p, names);
      world.expect_sound();
      EXPECT_LE(r, std::min(p, before));
      if (p >= before / 128 * 128) {  // its last boundary is always there
        EXPECT_GE(r, std::min(p, before) / 128 * 128);
      }
      EXPECT_EQ(r, world[0].position());
    }
    advance(world, 0, tokens_, 700, names);
  }
}

TEST_P(SequenceLawTest, TruncatedAndGoneAnotherWayIsAnotherSequence) {
  for (int i = 0; i < 8; ++i) {
    ToyWorld world{GetParam()};
    const BlockChain chain = world.prompt_chain(tokens_);
    world.open(0);
    advance(world, 0, tokens_, 1 + below(700), &chain);
    const int r = world[0].truncate(below(world[0].position() + 1), &chain);
    const auto other = diverging(tokens_, r, 2);
    const BlockChain other_chain = world.prompt_chain(other);
    advance(world, 0, other, 700, &other_chain);
    world.end(0);
    world.start(0, chain, 700);  // the blocks published by the first are still the same
    advance(world, 0, tokens_, 700, &chain);
  }
}

TEST_P(SequenceLawTest, RestoredAsIfNeverInterrupted) {
  for (const bool cached : {false, true}) {
    ToyWorld world(GetParam(), {.latent_pages = 6, .window_pages = 8, .sequences = 1});
    const BlockChain chain = world.prompt_chain(tokens_);
    const auto other = toy_tokens(2, 500);
    world.open(0);
    while (world[0].position() < 600) {
      advance(world, 0, tokens_, std::min(700, world[0].position() + 1 + below(150)), cached ? &chain : nullptr);
      const Position position = world[0].position();
      std::vector<std::byte> image(world[0].saved_bytes());
      world[0].save(image);
      world.end(0);
      if (below(2) == 0) {  // another one writes over its pages
        world.open(0);
        advance(world, 0, other, 500, nullptr);
        world.end(0);
      }
      world.open(0);
      ASSERT_TRUE(world[0].restore(image, position, cached ? &world.cache() : nullptr, cached ? &chain : nullptr));
      world.expect_sound();
    }
    advance(world, 0, tokens_, 700, cached ? &chain : nullptr);
  }
}

TEST_P(SequenceLawTest, ForksGoTheirOwnWays) {
  for (const bool cached : {false, true}) {
    for (int i = 0; i < 4; ++i) {
      ToyWorld world{GetParam()};
      const int at = 1 + below(600);
      const auto other = diverging(tokens_, at, 2), third = diverging(tokens_, at + 20, 3);
      const BlockChain chain = world.prompt_chain(tokens_), other_chain = world.prompt_chain(other),
                       third_chain = world.prompt_chain(third);
      world.open(0);
      advance(world, 0, tokens_, at, cached ? &chain : nullptr);
      world.fork(0, 1);
      advance(world, 0, tokens_, at + 20, cached ? &chain : nullptr);
      world.fork(0, 2);
      for (int end = at + 21; end <= 700; end += 40) {  // in turns
        advance(world, 1, other, end, cached ? &other_chain : nullptr);
        advance(world, 0, tokens_, end, cached ? &chain : nullptr);
        advance(world, 2, third, end, cached ? &third_chain : nullptr);
      }
    }
  }
}

TEST_P(SequenceLawTest, ResumedFromTheCacheIsCold) {
  const bool any_boundary = PageGeometry::of(ToyModel(GetParam()).layout()).resume_pages == 0;
  const bool no_latents = GetParam().latents.empty();
  const RetentionRules rules{.every_64th = false, .before_prompt_end = false, .at_prompt_end = false};
  for (int shared = 0; shared <= 5; ++shared) {
    for (int blocks = 0; blocks <= shared; ++blocks) {
      ToyWorld world(GetParam(), {}, {.retention = rules});
      const auto computed = std::span(tokens_).first(static_cast<std::size_t>(shared * 128 + 1));
      world.serve(computed, world.prompt_chain(computed, "", {blocks * 128}));  // keeps one window
      const BlockChain chain = world.prompt_chain(tokens_);
      const PrefixHit hit = world.start(0, chain, 700);
      const int resume = any_boundary ? shared : blocks;
      EXPECT_EQ(hit.resume, resume * 128);
      EXPECT_EQ(hit.shared, (no_latents ? resume : shared) * 128);
      world.expect_sound();
      advance(world, 0, tokens_, 700, &chain);
    }
  }
}

TEST_P(SequenceLawTest, AForkOrATruncationBelowTheSharedLatentsIsSound) {
  for (int i = 0; i < 6; ++i) {
    ToyWorld world{GetParam()};
    const BlockChain chain = world.prompt_chain(tokens_);
    world.serve(tokens_, chain);
    const BlockChain names = world.chain(std::span(tokens_).first(600));
    world.start(0, names, 600);  // resumes at 0 where there are windows, and shares 512
    advance(world, 0, tokens_, std::max(world[0].position(), 1 + below(600)), &chain);
    world.fork(0, 1);  // its tokens may differ from here on, also below the latents that the first one shares
    world.expect_sound();
    const auto forked = diverging(tokens_, world[1].position(), 3);
    const int p = below(600);  // at times beyond its position, but below the latents that it shares
    world[0].truncate(p);
    world.expect_sound();
    std::vector<std::byte> image(world[0].saved_bytes());
    world[0].save(image);
    const Position position = world[0].position();
    world.end(0);
    world.open(0);
    ASSERT_TRUE(world[0].restore(image, position));
    world.expect_sound();
    const auto other = diverging(tokens_, p, 2);
    const BlockChain other_chain = world.prompt_chain(other), forked_chain = world.prompt_chain(forked);
    advance(world, 0, other, 700, &other_chain);
    advance(world, 1, forked, 700, &forked_chain);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, SequenceLawTest, ::testing::ValuesIn(toy_shapes()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace sluice::sequence_law_test
