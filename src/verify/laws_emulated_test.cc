// The laws over a device whose memory the host cannot touch and whose work is done later.
#include <gtest/gtest.h>

#include "base/test_paths_testing.h"
#include "base/test_seed_testing.h"
#include "verify/verify.h"

namespace sluice::laws_emulated_test {
namespace {

class LawsEmulatedTest : public ::testing::TestWithParam<const char*> {};

TEST_P(LawsEmulatedTest, TheyHold) {
  VerifyOptions options;
  options.engine.model.folder = test_data_dir() + "/oracles/" + GetParam();
  options.engine.machine.device = "emulated";
  options.engine.machine.threads = 2;
  options.engine.cache.kv_cache_memory = 24 << 20;
  options.engine.cache.swap_space = 16 << 20;
  options.engine.scheduler.max_num_seqs = 6;
  options.engine.scheduler.max_num_batched_tokens = 200;
  options.engine.audit = true;  // pages have digests
  options.schedules = 3;
  options.seed = test_seed();
  const auto report = verify(options);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_GT(report->laws.comparisons, 50);
  EXPECT_TRUE(report->sound()) << "SLUICE_TEST_SEED=" << options.seed;
}

INSTANTIATE_TEST_SUITE_P(Kinds, LawsEmulatedTest, ::testing::Values("v4-flash-like", "v32-like", "qwen2-swa-like"));

}  // namespace
}  // namespace sluice::laws_emulated_test
