// The laws over a device whose memory the host cannot touch and whose work is done later, or over several such ranks.
#include <gtest/gtest.h>

#include "base/sanitizer_testing.h"
#include "base/test_paths_testing.h"
#include "base/test_seed_testing.h"
#include "verify/verify.h"

namespace sluice::laws_emulated_test {
namespace {

VerifyOptions options_of(const char* model, const char* device) {
  VerifyOptions options;
  options.engine.model.folder = test_data_dir() + "/oracles/" + model;
  options.engine.machine.device = device;
  options.engine.machine.threads = 2;
  options.engine.cache.kv_cache_memory = 24 << 20;
  options.engine.cache.swap_space = 16 << 20;
  options.engine.scheduler.max_num_seqs = 6;
  options.engine.scheduler.max_num_batched_tokens = 200;
  options.engine.audit = true;  // pages have digests
  options.schedules = 3;
  options.longest_border = kSanitized ? 130 : 300;
  if (kSanitized) options.min_rows = 800;
  options.seed = test_seed();
  const bool has_ranks = options.engine.machine.device != "cpu";
  if (has_ranks) options.engine.machine.tensor_parallel_size = 1 << options.seed % (kSanitized ? 2 : 3);  // 1, 2 or 4
  return options;
}

class LawsEmulatedTest : public ::testing::TestWithParam<const char*> {};

TEST_P(LawsEmulatedTest, TheyHold) {
  const VerifyOptions options = options_of(GetParam(), "emulated");
  const auto report = verify(options);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_GT(report->laws.comparisons, 50);
  EXPECT_TRUE(report->sound()) << "SLUICE_TEST_SEED=" << options.seed;
}

TEST_P(LawsEmulatedTest, SequencesMoveToTheCpuAndBack) {
  VerifyOptions options = options_of(GetParam(), "emulated");
  options.half = VerifyHalf::kMoves;
  const bool has_key_heads = std::string(GetParam()) == "qwen2-swa-like";
  if (has_key_heads) options.engine.machine.tensor_parallel_size = 1;
  auto report = verify(options);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_GT(report->laws.comparisons, 2 * options.min_rows);
  EXPECT_GT(report->laws.swaps_restored, 5);
  EXPECT_TRUE(report->sound()) << report->laws.difference->text << "SLUICE_TEST_SEED=" << options.seed;
  // A write that the device skips is missing on the CPU too.
  options.engine.testing.inject_fault = "skipped-write";
  report = verify(options);
  ASSERT_TRUE(report.ok()) << report.status().message() << "SLUICE_TEST_SEED=" << options.seed;
  EXPECT_FALSE(report->sound()) << "SLUICE_TEST_SEED=" << options.seed;
}

TEST(VerifyMoves, WantsADevice) {
  VerifyOptions options = options_of("v32-like", "cpu");
  options.half = VerifyHalf::kMoves;
  EXPECT_EQ(verify(options).status().message(),
            "--half moves: moves sequences between a device and the CPU: expected another --device");
}

TEST(VerifyMoves, WantsCachesThatAreAlike) {
  VerifyOptions options = options_of("qwen2-swa-like", "emulated");
  options.half = VerifyHalf::kMoves, options.engine.machine.tensor_parallel_size = 2;
  EXPECT_EQ(verify(options).status().message(),
            "--half moves: each of several ranks caches keys of its own heads, which a CPU cannot take over: expected "
            "--tensor-parallel-size 1");
}

INSTANTIATE_TEST_SUITE_P(Kinds, LawsEmulatedTest, ::testing::Values("v4-flash-like", "v32-like", "qwen2-swa-like"));

}  // namespace
}  // namespace sluice::laws_emulated_test
