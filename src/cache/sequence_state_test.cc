#include "cache/sequence_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/toy_world_testing.h"

namespace sluice::sequence_state_test {
namespace {

class SequenceStateTest : public ::testing::Test {
 protected:
  ToyWorld world_{ToyShape()};
  SequenceState& s_ = world_[0];
};

TEST_F(SequenceStateTest, HoldsABlocksLatentsAndTheWindow) {
  const auto tokens = toy_tokens(1, 500);
  world_.open(0);
  world_.expect_sound();
  ASSERT_TRUE(s_.reserve(300));
  EXPECT_EQ(s_.latent_pages().size(), 3U);
  EXPECT_EQ(s_.window_pages().size(), 3U);
  world_.expect_sound();
  s_.discard();
  ASSERT_TRUE(world_.compute(0, tokens, 300, nullptr));
  EXPECT_EQ(s_.position(), 300);
  EXPECT_EQ(s_.first_window_block(), 1);  // position 300 sees 173 and up
  EXPECT_EQ(s_.window_pages().size(), 2U);
  ASSERT_TRUE(world_.compute(0, tokens, 84, nullptr));  // to 384: the next row sees 257 and up
  EXPECT_EQ(s_.window_pages().size(), 1U);
  world_.end(0);
  EXPECT_EQ(world_.pools().bytes_used(), 0U);
}

// Read and write a byte at a device address, as an op would.
std::byte read(DeferredDevice& device, const std::byte* at) {
  std::byte found{};
  device.download({&found, at, 1});
  device.wait();
  return found;
}

TEST_F(SequenceStateTest, TheOpenStateSwapsAtCommitOnly) {
  DeferredDevice& device = world_.device();
  world_.open(0);
  ASSERT_TRUE(s_.reserve(1));
  const BatchSpan span = s_.span();
  const CacheView& view = world_.pools().view();
  EXPECT_EQ(span.rows, 1);
  EXPECT_EQ(read(device, view.state(span.state_in)), std::byte{0x33});
  device.fill(view.state(span.state_after(0)), std::byte{1}, 1);
  s_.discard();
  ASSERT_TRUE(s_.reserve(1));
  EXPECT_EQ(read(device, view.state(s_.span().state_in)), std::byte{0x33});
  device.fill(view.state(s_.span().state_after(0)), std::byte{2}, 1);
  s_.commit(s_.reserved_rows());
  ASSERT_TRUE(s_.reserve(1));
  EXPECT_EQ(read(device, view.state(s_.span().state_in)), std::byte{2});
  EXPECT_NE(s_.span().state_in, s_.span().state_after(0));
  s_.close();
  world_.open(0);  // a slot used before starts anew
  ASSERT_TRUE(s_.reserve(1));
  EXPECT_EQ(read(device, view.state(s_.span().state_in)), std::byte{0x33});
}

// Whatever number of drafts stays, the sequence is the one that never had others; pages beyond it are given back.
TEST_F(SequenceStateTest, OfDraftsAnyNumberStays) {
  constexpr int kDrafts = 8;
  ToyWorld world(ToyShape(), {.drafts = kDrafts});
  const auto tokens = toy_tokens(1, 300);
  const BlockChain chain = world.prompt_chain(tokens);
  SequenceState& s = world[0];
  for (int right = 0; right <= kDrafts; ++right) {
    for (const int first : {120, 124, 127}) {  // the last one that stays ends its block, or one that does not
      world.cache().reset();
      world.open(0);
      ASSERT_TRUE(world.compute(0, tokens, first, &chain));
      ASSERT_TRUE(world.compute_drafts(0, tokens, 1, kDrafts, right, &chain));
      const int kept = first + 1 + right;
      EXPECT_EQ(s.position(), kept);
      EXPECT_EQ(s.latent_pages().size(), static_cast<std::size_t>(blocks_for(kept)));
      EXPECT_EQ(s.window_pages().size(), static_cast<std::size_t>(blocks_for(kept)));
      EXPECT_EQ(static_cast<bool>(world.pools().latents().find(chain[0])), kept >= kBlockTokens);
      ASSERT_TRUE(world.compute(0, tokens, 300 - kept, &chain));
      world.end(0);
      const PrefixHit hit = world.start(0, chain, 300);
      EXPECT_EQ(hit.resume, 256);
      ASSERT_TRUE(world.compute(0, tokens, 300 - hit.resume, &chain));
      world.end(0);
    }
  }
}

TEST_F(SequenceStateTest, OnlyDraftsAreRejected) {
  ToyWorld world(ToyShape(), {.drafts = 2});
  world.open(0);
  EXPECT_DEATH(static_cast<void>(world[0].reserve(4, 3)), "an open state for each draft");
  ASSERT_TRUE(world[0].reserve(4, 2));
  EXPECT_DEATH(world[0].commit(1), "only drafts are rejected");
}

// Changes are enqueued before the later steps that read them; only bytes for the host are waited for.
TEST_F(SequenceStateTest, NothingButSavingWaitsForTheDevice) {
  const auto tokens = toy_tokens(1, 700);
  const BlockChain chain = world_.prompt_chain(tokens);
  world_.serve(tokens, chain);
  const int waits = world_.device().waits();
  world_.start(0, chain, 650);
  ASSERT_EQ(s_.position(), 640);
  world_.fork(0, 1);
  ASSERT_TRUE(s_.reserve(5));
  s_.commit(s_.reserved_rows());
  world_.fork(0, 2);
  ASSERT_TRUE(world_[2].reserve(1));  // copies the pages of the block that both are in
  world_[2].discard();
  EXPECT_EQ(s_.truncate(644), 640);
  std::vector<std::byte> image(s_.saved_bytes());
  EXPECT_EQ(world_.device().waits(), waits);
  s_.save(image);
  EXPECT_EQ(world_.device().waits(), waits + 1);
  s_.close();
  world_.open(0);
  ASSERT_TRUE(s_.restore(image, 640));
  EXPECT_EQ(world_.device().waits(), waits + 1);
}

TEST_F(SequenceStateTest, TheHostCannotReadWhatASpanPointsTo) {
  world_.open(0);
  ASSERT_TRUE(s_.reserve(1));
  const volatile std::byte* state = world_.pools().view().state(s_.span().state_in);
  EXPECT_DEATH(static_cast<void>(*state == std::byte{0}), "");
  const volatile std::byte* row = world_.pools().view()[PlaneId(0)].row(s_.window_pages()[0].value, 0).data;
  EXPECT_DEATH(static_cast<void>(*row == std::byte{0}), "");
}

TEST_F(SequenceStateTest, DiscardGivesBackWhatTheReservationTook) {
  world_.open(0);
  ASSERT_TRUE(world_.compute(0, toy_tokens(1, 500), 130, nullptr));
  const auto latents = s_.latent_pages();
  const auto windows = s_.window_pages();
  ASSERT_TRUE(s_.reserve(500));
  s_.discard();
  EXPECT_EQ(s_.latent_pages(), latents);
  EXPECT_EQ(s_.window_pages(), windows);
  world_.expect_sound();
}

TEST(SequenceStateMemoryTest, AShortPoolChangesNothing) {
  for (const bool latents_short : {true, false}) {
    ToyWorld world(ToyShape(), {.latent_pages = latents_short ? 3 : 10, .window_pages = latents_short ? 10 : 3});
    world.open(0);
    EXPECT_FALSE(world[0].reserve(385));
    EXPECT_EQ(world.pools().latents().used() + world.pools().windows().used(), 0);
    EXPECT_TRUE(world[0].reserve(384));
  }
}

TEST(SequenceStateMemoryTest, PagesAreGivenBackTailFirst) {
  ToyWorld world{ToyShape()};
  const auto tokens = toy_tokens(1, 512);
  const BlockChain chain = world.prompt_chain(tokens);
  world.serve(tokens, chain);
  EXPECT_EQ(world.pools().latents().cached(), 4);
  for (int i = 0; i < 36; ++i) world.pools().latents().allocate();
  for (int b = 3; b >= 0; --b) {
    EXPECT_TRUE(world.pools().latents().find(chain[b]));
    world.pools().latents().allocate();
    EXPECT_FALSE(world.pools().latents().find(chain[b]));
  }
}

TEST(SequenceStateMemoryTest, RowsBelowTheSharedLatentsWriteNoneAndCopyNone) {
  ToyWorld world{ToyShape()};
  const auto tokens = toy_tokens(1, 700);
  const BlockChain chain = world.prompt_chain(tokens);
  world.serve(tokens, chain);
  const PrefixHit hit = world.start(0, chain, 600);  // there is no window to resume from
  ASSERT_EQ(hit.resume, 0);
  ASSERT_EQ(hit.shared, 512);
  const auto pages = world[0].latent_pages();
  for (const int end : {50, 128, 200, 512}) {
    ASSERT_TRUE(world[0].reserve(5));
    EXPECT_EQ(world[0].span().latents_from, 512);
    world[0].discard();
    ASSERT_TRUE(world.compute(0, tokens, end - world[0].position(), &chain));
    EXPECT_EQ(world[0].latent_pages(), pages);
    EXPECT_EQ(world[0].latents_end(), 512);
  }
  EXPECT_EQ(world.pools().latents().used(), 4);
  ASSERT_TRUE(world.compute(0, tokens, 188, &chain));
  EXPECT_EQ(world[0].latents_end(), 700);
}

TEST(SequenceStateForkTest, APageIsCopiedWhenItIsWrittenFirst) {
  ToyWorld world{ToyShape()};
  const auto tokens = toy_tokens(1, 500);
  world.open(0);
  ASSERT_TRUE(world.compute(0, tokens, 300, nullptr));
  world.fork(0, 1);
  world.fork(0, 2);
  world.expect_sound();
  EXPECT_EQ(world.pools().latents().used(), 3);
  EXPECT_EQ(world.pools().windows().used(), 2);
  EXPECT_EQ(world[0].exclusive_latent_pages(), 0);
  ASSERT_TRUE(world.compute(1, tokens, 1, nullptr));
  EXPECT_EQ(world.pools().latents().used(), 4);  // the incomplete block's
  EXPECT_EQ(world.pools().windows().used(), 3);
  ASSERT_TRUE(world.compute(1, tokens, 1, nullptr));  // no more copies
  ASSERT_TRUE(world.compute(2, tokens, 1, nullptr));
  EXPECT_EQ(world.pools().latents().used(), 5);
  ASSERT_TRUE(world.compute(0, tokens, 1, nullptr));  // the last owner needs none
  EXPECT_EQ(world.pools().latents().used(), 5);
  EXPECT_EQ(world.pools().windows().used(), 4);
  for (std::size_t i : {0U, 1U, 2U}) EXPECT_EQ(world[i].exclusive_latent_pages(), 1);
}

TEST(SequenceStateForkTest, AtABlocksEndNothingIsCopied) {
  ToyWorld world{ToyShape()};
  const auto tokens = toy_tokens(1, 500);
  world.open(0);
  ASSERT_TRUE(world.compute(0, tokens, 256, nullptr));
  world.fork(0, 1);
  ASSERT_TRUE(world.compute(1, tokens, 1, nullptr));
  ASSERT_TRUE(world.compute(0, tokens, 1, nullptr));
  EXPECT_EQ(world.pools().latents().used(), 4);
}

TEST(SequenceStateForkTest, WithoutRoomForTheCopyNothingChanges) {
  ToyWorld world(ToyShape(), {.latent_pages = 1, .window_pages = 4});
  const auto tokens = toy_tokens(1, 100);
  world.open(0);
  ASSERT_TRUE(world.compute(0, tokens, 50, nullptr));
  world.fork(0, 1);
  EXPECT_FALSE(world[1].reserve(1));
  EXPECT_EQ(world[0].latent_pages(), world[1].latent_pages());
  EXPECT_EQ(world[0].window_pages(), world[1].window_pages());
  world.expect_sound();
  world.end(0);
  EXPECT_TRUE(world.compute(1, tokens, 1, nullptr));  // now the page is its own
}

TEST(SequenceStateTruncateTest, GoesBackToTheLastBoundaryOrOneThatIsStillCached) {
  ToyWorld world{ToyShape()};
  const auto tokens = toy_tokens(1, 700);
  const BlockChain chain = world.prompt_chain(tokens, "", {256});
  world.open(0);
  ASSERT_TRUE(world.compute(0, tokens, 600, &chain));
  world.fork(0, 1);
  world.fork(0, 2);
  EXPECT_EQ(world[0].truncate(700, &chain), 600);  // it is not that far
  EXPECT_EQ(world[0].truncate(599, &chain), 512);
  EXPECT_EQ(world[0].truncate(511, &chain), 256);  // a message starts there
  EXPECT_EQ(world[0].truncate(255, &chain), 0);
  EXPECT_EQ(world[1].truncate(511), 0);  // without the names of its blocks it has only what it holds
  EXPECT_EQ(world[2].truncate(0, &chain), 0);
  for (const std::size_t i : {0U, 1U, 2U}) EXPECT_TRUE(world.compute(i, tokens, 700, &chain));
}

TEST(SequenceStateTruncateTest, WithoutWindowsEveryPositionIsAPointToGoBackTo) {
  ToyWorld world(toy_shapes()[6]);
  ASSERT_EQ(world.model().shape().name, "gqa");
  const auto tokens = toy_tokens(1, 700);
  const BlockChain chain = world.prompt_chain(tokens);
  world.open(0);
  ASSERT_TRUE(world.compute(0, tokens, 600, &chain));
  for (const int p : {599, 513, 512, 300}) {
    EXPECT_EQ(world[0].truncate(p, &chain), p);
    world.expect_sound();
  }
  EXPECT_EQ(world[0].latents_end(), 384);
  // Block 2 is inserted and complete; the sequence, now within it, writes to a copy.
  const auto other = diverging(tokens, 300, 2);
  const BlockChain other_chain = world.prompt_chain(other);
  EXPECT_TRUE(world.compute(0, other, 1, &other_chain));
  EXPECT_EQ(world[0].latents_end(), 301);
  EXPECT_TRUE(world.compute(0, other, 399, &other_chain));
  EXPECT_EQ(world.cache().lookup(chain, 700).resume, 512);
  world.open(1);
  world[1].resume(chain, world.cache().lookup(chain, 700));
  EXPECT_TRUE(world.compute(1, tokens, 188, &chain));
  world.end(1);
  // A block that is not complete, and its own, is written on.
  world.open(1);
  ASSERT_TRUE(world.compute(1, tokens, 350, &chain));
  EXPECT_EQ(world[1].truncate(300), 300);
  EXPECT_EQ(world[1].latents_end(), 350);
  EXPECT_TRUE(world.compute(1, other, 1, &other_chain));
  EXPECT_EQ(world[1].latents_end(), 301);
  EXPECT_TRUE(world.compute(1, other, 399, &other_chain));
}

TEST(SequenceStateRestoreTest, ClaimsWhatIsCachedAndCopiesTheRest) {
  ToyWorld world(ToyShape(), {.latent_pages = 8, .window_pages = 8, .sequences = 2});
  const auto tokens = toy_tokens(1, 700);
  const BlockChain chain = world.prompt_chain(tokens);
  world.open(0);
  ASSERT_TRUE(world.compute(0, tokens, 600, &chain));
  world.fork(0, 1);  // holds four inserted blocks and one that is not complete
  std::vector<std::byte> image(world[0].saved_bytes());
  world[0].save(image);
  world.end(0);
  EXPECT_EQ(world.pools().latents().free(), 3);
  world.open(0);
  ASSERT_TRUE(world[0].restore(image, 600, &world.cache(), &chain));  // five pages, of which it finds four
  world.expect_sound();
  for (const std::size_t b : {0U, 1U, 2U, 3U}) EXPECT_EQ(world[0].latent_pages()[b], world[1].latent_pages()[b]);
  EXPECT_NE(world[0].latent_pages()[4], world[1].latent_pages()[4]);
  EXPECT_EQ(world[0].window_pages()[0], world[1].window_pages()[0]);
  EXPECT_TRUE(world.compute(0, tokens, 100, &chain));
  EXPECT_TRUE(world.compute(1, tokens, 100, &chain));
}

TEST(SequenceStateRestoreTest, DoesNotEvictTheBlocksThatItFinds) {
  ToyWorld world(ToyShape(), {.latent_pages = 5, .window_pages = 8, .sequences = 1});
  const auto tokens = toy_tokens(1, 600);
  const BlockChain chain = world.prompt_chain(tokens);
  world.open(0);
  ASSERT_TRUE(world.compute(0, tokens, 600, &chain));
  std::vector<std::byte> image(world[0].saved_bytes());
  world[0].save(image);
  world.end(0);
  world.open(0);
  ASSERT_TRUE(world[0].restore(image, 600, &world.cache(), &chain));
  EXPECT_EQ(world.pools().latents().inserted_count(), 4U);
  EXPECT_EQ(world.pools().latents().evicted_count(), 0U);
}

TEST(SequenceStateRestoreTest, ClaimsWhatItFindsBeforeItTakesOthersPages) {
  ToyWorld world(ToyShape(), {.latent_pages = 6, .window_pages = 8, .sequences = 1});
  Pool<LatentPage>& pool = world.pools().latents();
  const auto tokens = toy_tokens(1, 600);
  const BlockChain chain = world.prompt_chain(tokens), others = world.chain(toy_tokens(2, 600));
  world.open(0);
  ASSERT_TRUE(world.compute(0, tokens, 600, &chain));
  std::vector<std::byte> image(world[0].saved_bytes());
  world[0].save(image);
  world.end(0);
  for (const int b : {3, 2}) {  // used again, so that blocks 0 and 1 are the oldest
    pool.claim(pool.find(chain[b]));
    pool.release(pool.find(chain[b]));
  }
  std::vector<LatentPage> taken;
  for (int i = 0; i < 4; ++i) taken.push_back(pool.allocate());
  for (int i = 0; i < 3; ++i) world.cache().insert(taken[static_cast<std::size_t>(i)], others, i);
  for (const LatentPage page : taken) pool.release(page);
  ASSERT_EQ(world.cache().lookup(chain, 600).shared, 0);
  ASSERT_EQ(pool.vacant(), 1);
  ASSERT_EQ(pool.evicted_count(), 2U);

  world.open(0);
  ASSERT_TRUE(world[0].restore(image, 600, &world.cache(), &chain));  // two found, one vacant, two of the others'
  EXPECT_EQ(pool.evicted_count(), 4U);
  world.expect_sound();
}

TEST(SequenceStateRestoreTest, WhatItBringsBackIsFoundAgain) {
  ToyWorld world{ToyShape()};
  const auto tokens = toy_tokens(1, 600);
  const BlockChain chain = world.prompt_chain(tokens);
  world.open(0);
  ASSERT_TRUE(world.compute(0, tokens, 550, &chain));
  std::vector<std::byte> image(world[0].saved_bytes());
  world[0].save(image);
  world.end(0);
  world.cache().reset();
  world.open(0);
  ASSERT_TRUE(world[0].restore(image, 550, &world.cache(), &chain));
  EXPECT_EQ(world.cache().lookup(chain, 600).resume, 512);
  world.start(1, chain, 600);
  EXPECT_TRUE(world.compute(1, tokens, 88, &chain));
}

TEST(SequenceStateRestoreTest, AShortPoolChangesNothing) {
  ToyWorld world{ToyShape()};
  const auto tokens = toy_tokens(1, 600);
  world.open(0);
  ASSERT_TRUE(world.compute(0, tokens, 600, nullptr));
  std::vector<std::byte> image(world[0].saved_bytes());
  world[0].save(image);
  for (const ToyWorld::Size& size : {ToyWorld::Size{4, 40, 1}, ToyWorld::Size{40, 1, 1}}) {
    ToyWorld small(ToyShape(), size);
    small.open(0);
    EXPECT_FALSE(small[0].restore(image, 600));
    EXPECT_EQ(small[0].position(), 0);
    EXPECT_EQ(small.pools().latents().used() + small.pools().windows().used(), 0);
    small.expect_sound();
  }
}

}  // namespace
}  // namespace sluice::sequence_state_test
