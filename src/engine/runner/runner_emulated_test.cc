// The runner over a device whose memory the host cannot touch and whose work is done later.
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <tuple>

#include "base/test_paths_testing.h"
#include "base/test_seed_testing.h"
#include "engine/runner/runner.h"

namespace sluice::runner_emulated_test {
namespace {

EngineSetup options_of(const std::string& model, const char* device, int ranks = 1) {
  EngineSetup options;
  options.machine.tensor_parallel_size = ranks;
  options.model.folder = test_data_dir() + "/oracles/" + model;
  options.machine.device = device;
  options.machine.threads = 2;
  options.cache.kv_cache_memory = 24 << 20;
  options.cache.swap_space = 16 << 20;
  options.scheduler.max_num_seqs = 6;
  options.scheduler.max_num_batched_tokens = 200;
  options.audit = true;  // pages have digests
  return options;
}

// Computes `ids` in pieces, swapped out and forked on the way; the logits of every row, as the last to compute it has
// them. Nothing waits but who asks for logits.
std::vector<float> compute(Runner& runner, const std::vector<TokenId>& ids, std::uint32_t seed) {
  std::mt19937 random(seed);
  const std::size_t vocab = runner.limits().vocab_size;
  std::vector<float> logits(ids.size() * vocab);
  BlockChain chain(runner.cache().root(""));
  chain.extend(ids);
  StateSlot slot = runner.sequences().open().value();
  for (std::size_t at = 0; at < ids.size();) {
    const std::size_t rows = std::min<std::size_t>(1 + random() % 90, ids.size() - at);
    const bool wanted = random() % 3 != 0;
    std::vector<int> all(rows);
    std::iota(all.begin(), all.end(), 0);
    const StepSpan span{.sequence = slot,
                        .ids = std::span(ids).subspan(at, rows),
                        .logit_rows = std::span(all).first(wanted ? rows : 0),
                        .chain = &chain};
    EXPECT_TRUE(runner.run_step({&span, 1}).ok());
    if (wanted) {
      std::copy(runner.logits().all().begin(), runner.logits().all().end(),
                logits.begin() + static_cast<std::ptrdiff_t>(at * vocab));
    }
    at += rows;
    if (random() % 4 == 0) {
      const auto handle = runner.sequences().swap_out(slot);
      EXPECT_TRUE(handle.ok());
      slot = runner.sequences().swap_in(*handle, static_cast<Position>(at), &chain).value();
    } else if (random() % 4 == 0) {
      const StateSlot child = runner.sequences().fork(slot).value();
      runner.sequences().close(slot);
      slot = child;
    }
    EXPECT_TRUE(runner.sequences().audit().ok()) << runner.sequences().audit().message();
  }
  runner.sequences().close(slot, &chain);
  return logits;
}

class RunnerEmulatedTest : public ::testing::TestWithParam<const char*> {};

TEST_P(RunnerEmulatedTest, LogitsAreTheCpusBitByBit) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  const auto emulated = Runner::load(options_of(GetParam(), "emulated")).value();
  const auto cpu = Runner::load(options_of(GetParam(), "cpu")).value();
  std::vector<TokenId> ids(420);
  for (TokenId& id : ids) id = static_cast<TokenId>(random() % emulated->limits().vocab_size);
  EXPECT_EQ(compute(*emulated, ids, seed), compute(*cpu, ids, seed));
}

// Each rank of a group computes, caches and swaps its own key heads; for some models these are a copy of another
// rank's.
TEST(RanksEmulatedTest, LogitsAreTheCpusBitByBit) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  for (const auto& [model, ranks, differs] :
       {std::tuple("llama-like", 2, true), {"qwen2-swa-like", 4, true}, {"v4-pro-like", 2, false}}) {
    SCOPED_TRACE(testing::Message() << model << " on " << ranks << " ranks");
    const auto group = Runner::load(options_of(model, "emulated", ranks)).value();
    const auto cpu = Runner::load(options_of(model, "cpu")).value();
    EXPECT_EQ(group->model().cache_layout().differs_by_rank, differs);
    std::vector<TokenId> ids(300);
    for (TokenId& id : ids) id = static_cast<TokenId>(random() % group->limits().vocab_size);
    EXPECT_EQ(compute(*group, ids, seed), compute(*cpu, ids, seed));
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, RunnerEmulatedTest, ::testing::Values("v4-flash-like", "v32-like", "qwen2-swa-like"));

}  // namespace
}  // namespace sluice::runner_emulated_test
