// A sequence that the prefix cache resumes computes what it would have computed from its first token, bit by bit, from
// every block boundary and with any number of latent pages shared beyond it.
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "base/test_seed_testing.h"
#include "engine/step/stepper_testing.h"

namespace sluice::runner_resume_test {
namespace {

constexpr int kBlocks = 5, kTokens = kBlocks * kBlockTokens + 60, kVocab = 64;

class RunnerResumeTest : public ::testing::TestWithParam<int> {  // tokens of the window
 protected:
  RunnerResumeTest() : ids_(random_tokens(kTokens, 1)), chain_(BlockHash{}) {
    FakeModel::Settings settings;
    settings.window_tokens = GetParam();
    EngineSetup options = small_options();
    options.scheduler.max_num_batched_tokens = kTokens;
    runner_ = Runner::create(std::make_unique<FakeModel>(settings), nullptr, options).value();
    chain_.extend(ids_);
    std::vector<int> all(kBlocks);
    std::iota(all.begin(), all.end(), 0);
    chain_.set_kept_blocks(all);
  }

  // Computes the rest of an open sequence in spans of `chunk` rows; the logits of every row.
  std::vector<float> rest(StateSlot slot, int chunk) {
    std::vector<float> logits;
    std::vector<int> rows(static_cast<std::size_t>(chunk));
    std::iota(rows.begin(), rows.end(), 0);
    while (runner_->sequences().position(slot) < kTokens) {
      const auto at = static_cast<std::size_t>(runner_->sequences().position(slot));
      const std::size_t count = std::min(static_cast<std::size_t>(chunk), ids_.size() - at);
      const StepSpan span{
          .sequence = slot, .ids = {&ids_[at], count}, .logit_rows = {rows.data(), count}, .chain = &chain_};
      EXPECT_TRUE(runner_->run_step({&span, 1}).ok());
      EXPECT_TRUE(runner_->sequences().audit().ok()) << runner_->sequences().audit().message();
      logits.insert(logits.end(), runner_->logits().all().begin(), runner_->logits().all().end());
    }
    return logits;
  }

  std::vector<TokenId> ids_;
  BlockChain chain_;
  std::unique_ptr<Runner> runner_;
};

TEST_P(RunnerResumeTest, FromEveryBoundaryWithEveryShare) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  StateSlot slot = runner_->sequences().open().value();
  const auto whole = rest(slot, kTokens);
  runner_->sequences().close(slot);
  ASSERT_EQ(runner_->cache().pools().latents().cached(), kBlocks);
  ASSERT_EQ(runner_->cache().pools().windows().cached(), kBlocks);
  for (int resume = 0; resume <= kBlocks; ++resume) {
    for (int shared = resume; shared <= kBlocks; ++shared) {
      slot = runner_->sequences().open().value();
      runner_->sequences().resume(slot, chain_, {.resume = resume * kBlockTokens, .shared = shared * kBlockTokens});
      ASSERT_TRUE(runner_->sequences().audit().ok()) << runner_->sequences().audit().message();
      ASSERT_EQ(runner_->sequences().position(slot), resume * kBlockTokens);
      const int chunk = 1 + static_cast<int>(random() % 300);
      const std::vector<float> expected(whole.begin() + std::ptrdiff_t{resume} * kBlockTokens * kVocab, whole.end());
      ASSERT_EQ(rest(slot, chunk), expected)
          << "from block " << resume << ", " << shared << " shared, chunks of " << chunk;
      runner_->sequences().close(slot);
      EXPECT_EQ(runner_->cache().pools().bytes_used(), 0U);
      EXPECT_EQ(runner_->cache().pools().latents().cached(), kBlocks);
      EXPECT_EQ(runner_->cache().pools().windows().cached(), kBlocks);
    }
  }
}

// The same through what a lookup finds: with the window pages of one boundary only, a hit ends there.
TEST_P(RunnerResumeTest, ALookupFindsTheLastPlaceToResume) {
  const int pages = runner_->cache().pools().geometry().resume_pages;
  for (int kept = 0; kept < kBlocks; ++kept) {
    runner_->cache().prefix_cache().reset();
    chain_.set_kept_blocks({kept});
    StateSlot slot = runner_->sequences().open().value();
    const auto whole = rest(slot, 100);
    runner_->sequences().close(slot);
    const PrefixHit hit = runner_->cache().prefix_cache().lookup(chain_, kTokens);
    EXPECT_EQ(hit.resume, (kept + 1) * kBlockTokens) << "with " << pages << " window pages behind each boundary";
    EXPECT_EQ(hit.shared, kBlocks * kBlockTokens);
    EXPECT_EQ(hit.claimed_free, kBlocks);
    slot = runner_->sequences().open().value();
    runner_->sequences().resume(slot, chain_, hit);
    EXPECT_EQ(rest(slot, 77), std::vector<float>(whole.begin() + std::ptrdiff_t{hit.resume} * kVocab, whole.end()));
    runner_->sequences().close(slot);
  }
}

INSTANTIATE_TEST_SUITE_P(Windows, RunnerResumeTest, ::testing::Values(1, 2, 100, 128, 129, 130, 200, 257, 300));

}  // namespace
}  // namespace sluice::runner_resume_test
