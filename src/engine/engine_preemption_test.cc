// Preemption: whatever is dropped, swapped or lost on the way, the answers are those of each request alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <future>

#include "base/storage/temp_folder_testing.h"
#include "engine/engine_testing.h"
#include "engine/option_words.h"

namespace sluice::engine_preemption_test {
namespace {

SamplingParams sampling_of(int i) {
  return {.temperature = i % 2 == 0 ? 0.0F : 0.9F, .seed = static_cast<std::uint64_t>(i)};
}

struct Work {
  std::vector<TokenId> prompt;
  int max_tokens;
};

// Requests of many shapes, some with common prefixes.
std::vector<Work> mixed_work() {
  std::vector<Work> work;
  for (int i = 0; i < 10; ++i) {
    auto prompt = random_tokens(i % 3 == 0 ? 256 : 1, 1);
    work.push_back({joined(prompt, random_tokens(5 + i * 29, 100 + static_cast<unsigned>(i))), 150 - 10 * i});
  }
  return work;
}

const std::vector<std::vector<TokenId>>& expected_of_mixed_work() {
  static const auto expected = [] {
    std::vector<std::vector<TokenId>> all;
    const auto work = mixed_work();
    for (std::size_t i = 0; i < work.size(); ++i) {
      all.push_back(alone(work[i].prompt, work[i].max_tokens, sampling_of(static_cast<int>(i))));
    }
    return all;
  }();
  return expected;
}

// Runs them all at once; the tokens are checked, the numbers returned. The engine's thread waits in an output of
// another request until all have arrived.
EngineStats run_mixed_work(Engine& engine) {
  std::promise<void> waits, arrived;
  Request first;
  first.prompt = {1};
  first.max_tokens = 1;
  first.on_output = [&](const Output&) {
    waits.set_value();
    arrived.get_future().wait();
  };
  EXPECT_TRUE(engine.submit(std::move(first)).ok());
  waits.get_future().wait();
  const auto work = mixed_work();
  std::vector<Answer> answers(work.size());
  for (std::size_t i = 0; i < work.size(); ++i) {
    Request r = request(answers[i], work[i].prompt, work[i].max_tokens, sampling_of(static_cast<int>(i)));
    r.priority = static_cast<int>(i * 7 % 3);
    const auto submitted = engine.submit(std::move(r));
    EXPECT_TRUE(submitted.ok()) << submitted.status().message();
  }
  arrived.set_value();
  for (std::size_t i = 0; i < work.size(); ++i) {
    EXPECT_EQ(answers[i].wait().reason, FinishReason::kLength);
    EXPECT_EQ(answers[i].tokens(), expected_of_mixed_work()[i]) << "request " << i;
  }
  const EngineStats stats = engine.stats();
  EXPECT_EQ(stats.cache_bytes_used, 0);
  EXPECT_EQ(stats.swap_bytes_used, 0);
  EXPECT_EQ(stats.running + stats.waiting, 0);
  return stats;
}

// Places for eight sequences, and pages for seven blocks: one of the largest requests and little more.
EngineSetup short_of_memory(bool caching = true) {
  EngineSetup options = small_options();
  options.cache.enable_prefix_caching = caching;
  options.scheduler.max_num_seqs = 8;
  options.scheduler.max_num_batched_tokens = 128;
  options.model.max_model_len = 640;
  options.cache.kv_cache_memory = 40 << 10;
  const auto runner = Runner::create(std::make_unique<FakeModel>(), nullptr, options).value();
  EXPECT_EQ(runner->cache().pools().plan().sequences, 8);
  options.testing.hidden_latent_pages = runner->cache().pools().latents().total() - 1 - 7;
  return options;
}

TEST(EnginePreemptionTest, APoolTooSmallForAll) {
  for (const auto policy : {SchedulingPolicy::kFair, SchedulingPolicy::kFcfs, SchedulingPolicy::kPriority}) {
    for (const bool caching : {true, false}) {
      EngineSetup options = short_of_memory(caching);
      options.scheduler.scheduling_policy = policy;
      auto engine = make_engine(options);
      const EngineStats stats = run_mixed_work(*engine);
      EXPECT_GT(stats.preemptions_recompute, 0U) << word_of(policy);
      EXPECT_EQ(stats.preemptions_swap, 0U);
    }
  }
}

TEST(EnginePreemptionTest, SwapsToMemoryOrDisk) {
  const TempFolder folder;
  for (const std::string& place : {std::string(), folder.path()}) {
    for (const bool caching : {true, false}) {
      EngineSetup options = small_options();
      options.testing.force_preempt_every = 3;
      options.cache.swap_space = 1 << 20;
      options.cache.swap_dir = place;
      options.cache.enable_prefix_caching = caching;
      auto engine = make_engine(options);
      const EngineStats stats = run_mixed_work(*engine);
      EXPECT_GT(stats.preemptions_swap, 10U);
      EXPECT_EQ(stats.swaps_restored, stats.preemptions_swap) << "a state that was swapped is not computed again";
      EXPECT_EQ(stats.swap_bytes_total, 1 << 20);
    }
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// A page of the fake model is copied sooner than a row of it is computed, as the start has measured.
TEST(EnginePreemptionTest, SwapsForPagesWhereThatIsSoonerThanComputingAgain) {
  EngineSetup options = short_of_memory();
  options.cache.swap_space = 1 << 20;
  auto engine = make_engine(options);
  const EngineStats stats = run_mixed_work(*engine);
  EXPECT_GT(stats.preemptions_swap, 0U);
}

TEST(EnginePreemptionTest, SwapSpaceForOneStateOnly) {
  EngineSetup options = small_options();
  options.testing.force_preempt_every = 1;
  options.cache.swap_space = 3000;  // a state of a block is 1,304 bytes, one of 300 tokens more than this
  auto engine = make_engine(options);
  const EngineStats stats = run_mixed_work(*engine);
  EXPECT_GT(stats.preemptions_swap, 0U);
  EXPECT_EQ(stats.swaps_restored, stats.preemptions_swap);
  EXPECT_GT(stats.preemptions_recompute, stats.preemptions_swap);
}

TEST(EnginePreemptionTest, EverySoManyStepsWithEverythingOn) {
  const TempFolder folder;
  for (int every = 1; every <= 7; ++every) {
    EngineSetup options = short_of_memory();
    options.scheduler.scheduling_policy = every % 2 == 0 ? SchedulingPolicy::kPriority : SchedulingPolicy::kFair;
    options.scheduler.long_prefill_token_threshold = every == 3 ? 50 : 0;
    options.scheduler.enable_mixed_prefill_decode = every != 5;
    options.testing.force_preempt_every = every;
    options.cache.swap_space = 1 << 20;
    options.cache.swap_dir = every % 3 == 0 ? folder.path() : "";
    options.machine.threads = 1 + every % 2;
    auto engine = make_engine(options);
    const EngineStats stats = run_mixed_work(*engine);
    EXPECT_GT(stats.preemptions_swap, 0U) << every;
    EXPECT_GT(stats.swaps_restored, 0U) << every;
    EXPECT_GT(stats.preemptions_recompute, 0U) << every;
  }
}

// The directory is there when the engine starts and gone when a state is to be written.
TEST(EnginePreemptionTest, ADirectoryThatGoesAway) {
  auto folder = std::make_unique<TempFolder>();
  EngineSetup options = small_options();
  options.testing.force_preempt_every = 2;
  options.cache.swap_space = 1 << 20;
  options.cache.swap_dir = folder->path();
  auto engine = make_engine(options);
  folder.reset();
  const EngineStats stats = run_mixed_work(*engine);
  EXPECT_EQ(stats.preemptions_swap, 0U);
  EXPECT_GT(stats.preemptions_recompute, 10U);
}

// No file may be longer than this while it lives: writes fail as on a full disk.
class ShortFiles {
 public:
  explicit ShortFiles(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &now);
  }
  ~ShortFiles() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  ShortFiles(const ShortFiles&) = delete;
  ShortFiles& operator=(const ShortFiles&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST(EnginePreemptionTest, ADiskThatIsFull) {
  const TempFolder folder;
  EngineSetup options = small_options();
  options.testing.force_preempt_every = 2;
  options.cache.swap_space = 1 << 20;
  options.cache.swap_dir = folder.path();
  auto engine = make_engine(options);
  EngineStats stats;
  {
    const ShortFiles limit(1600);  // states of more than a block do not fit
    stats = run_mixed_work(*engine);
  }
  EXPECT_GT(stats.preemptions_swap, 0U);
  EXPECT_GT(stats.preemptions_recompute, stats.preemptions_swap);
}

// The image is gone, or cut short, when it is to be read: nothing but time is lost.
TEST(EnginePreemptionTest, ASwappedStateThatCannotBeReadBack) {
  const TempFolder folder;
  EngineSetup options = small_options();
  options.testing.force_preempt_every = 2;
  options.cache.swap_space = 1 << 20;
  options.cache.swap_dir = folder.path();
  Stage stage(options);
  const auto a = random_tokens(200, 1), b = random_tokens(90, 2);
  stage.add("a", a, 20);
  stage.add("b", b, 20);
  for (int i = 0; i < 1000 && !stage.stepper().idle(); ++i) {
    stage.step();
    // Every image is one of the files that this process has open there.
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code error;
      const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
      if (target.starts_with(folder.path())) std::filesystem::resize_file(entry.path(), 10, error);
    }
  }
  EXPECT_GT(stage.stats().preemptions_swap, 0U);
  EXPECT_EQ(stage.stats().swaps_restored, 0U);
  EXPECT_EQ(stage.stats().swap_bytes_used, 0);
  EXPECT_EQ(stage.answer("a"), greedy_alone(a, 20));
  EXPECT_EQ(stage.answer("b"), greedy_alone(b, 20));
}

TEST(EnginePreemptionTest, ABetterPriorityTakesThePlace) {
  EngineSetup options = small_options();
  options.scheduler.max_num_seqs = 1;
  options.scheduler.scheduling_policy = SchedulingPolicy::kPriority;
  const auto low_prompt = random_tokens(150, 1), high_prompt = random_tokens(150, 2);
  Answer low, high;
  GatedEngine engine(options);
  Request r = request(low, low_prompt, 100);
  r.priority = 1;
  ASSERT_TRUE(engine->submit(std::move(r)).ok());
  engine.gate().wait_for_step();
  engine.gate().pass(10);
  ASSERT_TRUE(engine->submit(request(high, high_prompt, 50)).ok());
  engine.gate().open();
  high.wait();
  low.wait();
  EXPECT_EQ(high.tokens(), alone(high_prompt, 50, {.temperature = 0}));
  EXPECT_EQ(low.tokens(), alone(low_prompt, 100, {.temperature = 0}));
  EXPECT_EQ(engine->stats().preemptions_recompute, 1U);
}

}  // namespace
}  // namespace sluice::engine_preemption_test
