#include "cache/audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/damage_testing.h"
#include "cache/toy_world_testing.h"

namespace sluice::audit_test {
namespace {

using ::testing::HasSubstr;

// Sequence 0 has computed 300 tokens; two blocks are inserted.
class AuditTest : public ::testing::Test {
 protected:
  AuditTest() : AuditTest(Fault::kNone) {}
  explicit AuditTest(Fault fault) : world_(ToyShape(), {}, PrefixCacheOptions{.fault = fault}) {
    world_.open(0);
    EXPECT_TRUE(world_[0].reserve(300));
    static_cast<void>(world_.forward(0, tokens_));
    world_[0].commit(world_[0].reserved_rows(), &world_.cache(), &chain_);
  }
  ~AuditTest() override = default;

  std::string found() const { return std::string(world_.check().message()); }

  const std::vector<TokenId> tokens_ = toy_tokens(1, 500);
  const BlockChain chain_ = ToyWorld::chain(tokens_);
  ToyWorld world_;
};

TEST_F(AuditTest, ASoundWorldPasses) {
  EXPECT_EQ(found(), "");
}

TEST_F(AuditTest, NamesAReferenceTooMany) {
  world_.pools().latents().share(world_[0].latent_pages()[1]);
  EXPECT_THAT(found(), HasSubstr("audit: latent page 1 has 1 owners but its count says 2"));
}

TEST_F(AuditTest, NamesAPageThatNobodyOwns) {
  static_cast<void>(world_.pools().windows().allocate());  // the lowest vacant one
  EXPECT_THAT(found(), HasSubstr("audit: window page 0 has 0 owners but its count says 1"));
  world_.pools().windows().release(WindowPage(0));
  static_cast<void>(world_.pools().slots().allocate());
  EXPECT_THAT(found(), HasSubstr("audit: state page 1 has 0 owners but its count says 1"));
  world_.pools().slots().release(StateSlot(1));
}

TEST_F(AuditTest, NamesAReferenceTooFew) {
  world_.fork(0, 1);
  world_.pools().latents().release(world_[0].latent_pages()[2]);
  EXPECT_THAT(found(), HasSubstr("audit: latent page 2 has 2 owners but its count says 1"));
  world_.pools().latents().share(world_[0].latent_pages()[2]);
  EXPECT_EQ(found(), "");
}

TEST_F(AuditTest, NamesAPageThatIsUsedAndFree) {
  const LatentPage page = world_[0].latent_pages()[2];
  world_.pools().latents().release(page);
  EXPECT_THAT(found(), HasSubstr("audit: latent page 2 has 1 owners but its count says 0"));
  EXPECT_EQ(world_.pools().latents().allocate(), page);
}

TEST_F(AuditTest, NamesASequenceThatOwnsOtherPagesThanItsPositionNeeds) {
  // A list of pages one too long, as a reservation that was forgotten would leave it.
  auto& pages = const_cast<std::vector<LatentPage>&>(world_[0].latent_pages());
  pages.push_back(world_.pools().latents().allocate());
  EXPECT_THAT(found(), HasSubstr("in state slot 0 at position 300 (+0 rows): expected 3 latent and 2 window pages from "
                                 "block 1, found 4 and 2 from block 1"));
  pages.back() = LatentPage(4000);
  EXPECT_THAT(found(), HasSubstr("audit: latent page 4000 is outside its pool of 40"));
  pages.pop_back();
  world_.pools().latents().release(LatentPage(3));
}

TEST_F(AuditTest, NamesAPageInsertedBeforeItIsComputed) {
  EXPECT_TRUE(world_.pools().latents().insert(world_[0].latent_pages()[2], chain_[2]));
  EXPECT_THAT(found(), HasSubstr("audit: latent page 2, block 2 of the sequence in state slot 0, is inserted, but only "
                                 "300 of its tokens are computed"));
}

TEST_F(AuditTest, NamesAWindowInsertedBeforeItIsComputed) {
  EXPECT_TRUE(world_.pools().windows().insert(world_[0].window_pages()[1], chain_[2]));
  EXPECT_THAT(found(), HasSubstr("window page 2, block 2"));
}

TEST_F(AuditTest, NamesInsertedBytesThatChanged) {
  const PlaneId latent(2);
  ASSERT_EQ(world_.model().layout()[latent].kind, PlaneKind::kLatent);
  CacheMemory& memory = world_.pools().memory();
  flip_bit(memory, {latent, 1, 31, 1}, 0);
  EXPECT_THAT(found(), HasSubstr("audit: latent page 1 no longer has the bytes that were inserted"));
  flip_bit(memory, {latent, 1, 31, 1}, 0);
  EXPECT_EQ(found(), "");
  flip_bit(memory, {PlaneId(0), world_[0].window_pages()[0].value, 127, 1}, 7);
  EXPECT_THAT(found(), HasSubstr("audit: window page 1 no longer has the bytes that were inserted"));
}

TEST_F(AuditTest, ASampleMovesOnUntilItHasSeenEveryPage) {
  flip_bit(world_.pools().memory(), {PlaneId(2), 1, 0, 1}, 0);
  int seen = 0;
  for (std::uint64_t turn = 0; turn < 40; ++turn) {
    seen += !audit(world_.pools(), {&world_[0], 1}, &world_.cache(), 1, turn).ok();
  }
  EXPECT_EQ(seen, 1);  // one of two inserted pages is changed; later turns begin at the sound one
  EXPECT_TRUE(audit(world_.pools(), {&world_[0], 1}, &world_.cache(), 0).ok());
}

TEST_F(AuditTest, NamesAPoolThatIsBrokenInItself) {
  const PagePoolDamage damage{&world_.pools().windows().untyped()};
  damage.miscount(1);
  EXPECT_THAT(found(), HasSubstr("audit: window pool: 2 used + 38 vacant + 1 cached pages"));
  damage.miscount(-1);
}

class EarlyInsertionTest : public AuditTest {
 protected:
  EarlyInsertionTest() : AuditTest(Fault::kEarlyInsertion) {}
};

TEST_F(EarlyInsertionTest, IsNamed) {
  EXPECT_THAT(found(), HasSubstr("block 2 of the sequence in state slot 0, is inserted, but only 300"));
}

TEST_F(AuditTest, NamesALeakedReference) {
  world_[0].fault_leak = true;
  world_[0].close();
  EXPECT_THAT(found(), HasSubstr("audit: latent page 0 has 0 owners but its count says 1"));
}

TEST(AuditStaleHashTest, IsNamed) {
  ToyWorld world(ToyShape(), {.latent_pages = 2, .window_pages = 3}, PrefixCacheOptions{.fault = Fault::kStaleHash});
  const auto first = toy_tokens(1, 256), second = toy_tokens(2, 256);
  world.serve(first, world.prompt_chain(first));
  world.open(0);
  ASSERT_TRUE(world[0].reserve(100));
  EXPECT_THAT(std::string(world.check().message()), HasSubstr("is inserted, but only 0 of its tokens are computed"));
  world[0].discard();
}

}  // namespace
}  // namespace sluice::audit_test
