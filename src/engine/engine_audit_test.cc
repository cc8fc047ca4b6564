// --audit: a cache that is damaged while the engine runs ends the program, with the auditor's words; without it nobody
// looks.
#include <gtest/gtest.h>

#include "cache/damage_testing.h"
#include "engine/engine_testing.h"

namespace sluice::engine_audit_test {
namespace {

// An engine whose cache `damage` may break, on the engine's thread at the beginning of step `at_step`.
class DamagedEngine {
 public:
  DamagedEngine(bool audit, int at_step, const std::function<void(CachePools&)>& damage) {
    EngineSetup options = small_options();
    options.audit = audit;
    FakeModel::Settings settings;
    settings.on_step = [this, at_step, damage](const StepTables&) {
      if (++steps_ == at_step) damage(runner_->cache().pools());
    };
    auto runner = Runner::create(std::make_unique<FakeModel>(std::move(settings)), nullptr, options).value();
    runner_ = runner.get();
    engine_ = start_engine(std::move(runner), options, {}).value();
  }
  // To a prompt of 200 tokens, which takes four steps; its one full block is inserted by the second.
  std::vector<TokenId> answer() {
    Answer answer;
    EXPECT_TRUE(engine_->submit(request(answer, prompt_, 4)).ok());
    answer.wait();
    return answer.tokens();
  }
  std::vector<TokenId> expected() const { return alone(prompt_, 4, {.temperature = 0}); }

 private:
  const std::vector<TokenId> prompt_ = random_tokens(200, 1);
  Runner* runner_ = nullptr;
  int steps_ = 0;
  std::unique_ptr<Engine> engine_;  // last: its thread uses the rest
};

// Lets an unused page claim that it has an owner.
void miscount_a_vacant_page(CachePools& pools) {
  PagePoolDamage{&pools.latents().untyped()}.set_owners(pools.latents().total() - 1, 1);
}

// Overwrites the first latent row of every page that was inserted.
void overwrite_inserted_pages(CachePools& pools) {
  for (int page = 0; page < pools.latents().total(); ++page) {
    if (!pools.latents().inserted(LatentPage(page))) continue;
    for (int i = 0; i < static_cast<int>(pools.layout().planes.size()); ++i) {
      if (pools.layout()[PlaneId(i)].tokens_per_row == 4) flip_bit(pools.memory(), {PlaneId(i), page, 0, 1}, 0);
    }
  }
}

class EngineAuditDeathTest : public ::testing::Test {
 protected:
  EngineAuditDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(EngineAuditDeathTest, ADamagedPageIsFound) {
  EXPECT_DEATH(DamagedEngine(true, 3, miscount_a_vacant_page).answer(),
               "audit: latent page [0-9]+ has 0 owners but its count says 1");
}

TEST_F(EngineAuditDeathTest, InsertedBytesThatChangeAreFound) {
  EXPECT_DEATH(DamagedEngine(true, 4, overwrite_inserted_pages).answer(),
               "audit: latent page [0-9]+ no longer has the bytes that were inserted");
}

TEST_F(EngineAuditDeathTest, WithoutItNobodyLooks) {
  DamagedEngine engine(false, 3, miscount_a_vacant_page);
  EXPECT_EQ(engine.answer(), engine.expected());
}

}  // namespace
}  // namespace sluice::engine_audit_test
