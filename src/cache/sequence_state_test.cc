#include "cache/sequence_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <set>

#include "base/test_seed_testing.h"
#include "cache/audit.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

RowFormat bytes_format(int bytes) {
  return {.codec = RowCodec::kF32, .dims = bytes / 4, .rope_dims = 0, .data_bytes = bytes, .scale_bytes = 0};
}

CacheLayout make_layout(int window_tokens) {
  CacheLayout l;
  l.add({.kind = StreamKind::kLatent, .name = "latent", .tokens_per_row = 4, .format = bytes_format(8), .initial = {}});
  l.add({.kind = StreamKind::kWindow,
         .name = "window",
         .window_tokens = window_tokens,
         .format = bytes_format(8),
         .initial = {}});
  l.add({.kind = StreamKind::kOpen, .name = "open", .format = {}, .initial = {std::byte{7}, std::byte{9}}});
  return l;
}

class SequenceStateTest : public ::testing::Test {
 protected:
  void make_pools(int window_tokens, int latent_pages, int window_pages) {
    layout_ = make_layout(window_tokens);
    MemoryPlan plan{.sequences = 3, .latent_pages = latent_pages, .window_pages = window_pages};
    plan.open_bytes = 4 * 2 * layout_.open_bytes();
    pools_ = std::move(CachePools::create(layout_, plan)).value();
  }
  void open(std::size_t i) { states_[i].open(pools_.get(), pools_->slots().allocate()); }
  void advance(std::size_t i, int rows) {
    ASSERT_TRUE(states_[i].reserve(rows));
    states_[i].commit();
  }
  void expect_sound() { EXPECT_TRUE(audit(*pools_, states_).ok()) << audit(*pools_, states_).message(); }

  CacheLayout layout_;
  std::unique_ptr<CachePools> pools_;
  std::vector<SequenceState> states_ = std::vector<SequenceState>(4);
};

TEST_F(SequenceStateTest, HoldsABlocksLatentsAndTheWindow) {
  make_pools(128, 10, 10);
  open(0);
  expect_sound();
  ASSERT_TRUE(states_[0].reserve(300));
  EXPECT_EQ(states_[0].latent_pages().size(), 3U);
  EXPECT_EQ(states_[0].window_pages().size(), 3U);
  expect_sound();
  states_[0].commit();
  EXPECT_EQ(states_[0].position(), 300);
  EXPECT_EQ(states_[0].first_window_block(), 1);  // position 300 sees 173 and up
  EXPECT_EQ(states_[0].window_pages().size(), 2U);
  expect_sound();
  advance(0, 84);  // to 384: the next row sees 257 and up
  EXPECT_EQ(states_[0].window_pages().size(), 1U);
  expect_sound();
  states_[0].close();
  EXPECT_EQ(pools_->bytes_used(), 0U);
  expect_sound();
}

TEST_F(SequenceStateTest, TheOpenStateSwapsAtCommitOnly) {
  make_pools(128, 10, 10);
  open(0);
  ASSERT_TRUE(states_[0].reserve(1));
  BatchSpan span = states_[0].span(5);
  EXPECT_EQ(span.row_begin, 5);
  EXPECT_EQ(span.rows, 1);
  EXPECT_EQ(span.open_in[0], std::byte{7});
  EXPECT_EQ(span.open_in[1], std::byte{9});
  span.open_out[0] = std::byte{1};
  states_[0].discard();
  ASSERT_TRUE(states_[0].reserve(1));
  EXPECT_EQ(states_[0].span(0).open_in[0], std::byte{7});
  states_[0].span(0).open_out[0] = std::byte{2};
  states_[0].commit();
  ASSERT_TRUE(states_[0].reserve(1));
  EXPECT_EQ(states_[0].span(0).open_in[0], std::byte{2});
  EXPECT_NE(states_[0].span(0).open_in, states_[0].span(0).open_out);
  states_[0].discard();
  states_[0].close();
  open(0);  // a slot used before starts anew
  ASSERT_TRUE(states_[0].reserve(1));
  EXPECT_EQ(states_[0].span(0).open_in[0], std::byte{7});
}

TEST_F(SequenceStateTest, DiscardGivesBackWhatTheReservationTook) {
  make_pools(128, 10, 10);
  open(0);
  advance(0, 130);
  const auto latents = states_[0].latent_pages();
  const auto windows = states_[0].window_pages();
  ASSERT_TRUE(states_[0].reserve(500));
  states_[0].discard();
  EXPECT_EQ(states_[0].latent_pages(), latents);
  EXPECT_EQ(states_[0].window_pages(), windows);
  expect_sound();
}

TEST_F(SequenceStateTest, AShortPoolChangesNothing) {
  make_pools(128, 3, 10);
  open(0);
  EXPECT_FALSE(states_[0].reserve(385));
  EXPECT_EQ(pools_->latents().used() + pools_->windows().used(), 0);
  EXPECT_TRUE(states_[0].reserve(384));
  make_pools(128, 10, 2);
  states_ = std::vector<SequenceState>(4);
  open(0);
  EXPECT_FALSE(states_[0].reserve(257));
  EXPECT_EQ(pools_->latents().used() + pools_->windows().used(), 0);
  EXPECT_TRUE(states_[0].reserve(256));
}

TEST_F(SequenceStateTest, TheAuditSeesALeakAndAForeignOwner) {
  make_pools(128, 10, 10);
  open(0);
  advance(0, 10);
  pools_->latents().share(LatentPage(0));
  EXPECT_THAT(audit(*pools_, states_).message(), HasSubstr("latent page 0 has 1 owners but its count says 2"));
  pools_->latents().release(LatentPage(0));
  expect_sound();
  static_cast<void>(pools_->windows().allocate());
  EXPECT_THAT(audit(*pools_, states_).message(), HasSubstr("window page 1 has 0 owners"));
}

TEST_F(SequenceStateTest, RandomLivesConserveEveryPage) {
  const unsigned seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  for (const int window_tokens : {1, 2, 128, 129, 130, 400}) {
    states_ = std::vector<SequenceState>(4);
    make_pools(window_tokens, 30, 20);
    for (int i = 0; i < 500; ++i) {
      const std::size_t s = random() % states_.size();
      if (!states_[s].is_open()) {
        open(s);
      } else if (random() % 10 == 0) {
        states_[s].close();
      } else if (states_[s].reserved_rows() > 0) {
        random() % 4 == 0 ? states_[s].discard() : states_[s].commit();
      } else {
        static_cast<void>(states_[s].reserve(1 + static_cast<int>(random() % (random() % 2 ? 3 : 300))));
      }
      ASSERT_TRUE(audit(*pools_, states_).ok()) << audit(*pools_, states_).message();
    }
    for (auto& state : states_) state.close();
    ASSERT_EQ(pools_->bytes_used(), 0U);
  }
}

}  // namespace
}  // namespace sluice
