// The soak: 20,000 requests of random shape, random cancellations in every state, under pools far too small for what
// runs, in several phases of policy, swapping and caching. Every choice must end once, within the scheduler's bounds
// where it has one, with the tokens of the request alone. The auditor looks at every step, and afterwards all memory is
// back.
//
// With the null model of the engine's tests, or with the checkpoint in SLUICE_SOAK_MODEL (`./run soak`).
// SLUICE_SOAK_REQUESTS changes the number, SLUICE_TEST_SEED the requests, SLUICE_SOAK_DEVICE where they are computed
// (on a GPU only a checkpoint can be: the null model computes on the host).
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "base/log.h"
#include "base/storage/temp_folder_testing.h"
#include "base/test_seed_testing.h"
#include "engine/engine_impl.h"
#include "engine/engine_options.h"
#include "engine/fake_model_testing.h"
#include "engine/option_words.h"
#include "engine/runner/device_choice.h"
#include "engine/runner/runner.h"
#include "kernels/device/isa.h"
#include "sched/scheduler.h"
#include "soak_ledger.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;

constexpr int kMaxModelLen = 1536, kClients = 4;
constexpr std::int64_t kPoolBytes = 48 << 20;       // the null model's, all touched soon
constexpr std::int64_t kModelPoolBytes = 96 << 20;  // a real model's, touched as the cache fills
constexpr std::int64_t kMostGrowth = 32 << 20;      // the growth of all other memory
// If memory or the budget is short, a wait depends on what runs and waits: all end, but this test knows no number of
// steps.
constexpr const char* kNoBound = "not bounded";
constexpr int kStarvedTimes = 4;  // how many times the need of what runs exceeds the pool

// A model that reports each step.
class WatchedModel final : public Model {
 public:
  WatchedModel(std::unique_ptr<Model> model, std::function<void()> on_step)
      : model_(std::move(model)), on_step_(std::move(on_step)) {}
  const ModelConfig& config() const override { return model_->config(); }
  const NumericsProfile& profile() const override { return model_->profile(); }
  const CacheLayout& cache_layout() const override { return model_->cache_layout(); }
  Status prepare(Device& device, int rows, Position positions) override {
    return model_->prepare(device, rows, positions);
  }
  void forward(const Exec& exec, const StepTables& step, const CacheView& cache, float* logits,
               const Observer* observer) override {
    on_step_();
    model_->forward(exec, step, cache, logits, observer);
  }
  bool drafts() const override { return model_->drafts(); }
  void draft(const Exec& exec, const StepTables& step, const CacheView& cache, int depth, float* logits,
             const Observer* observer) override {
    model_->draft(exec, step, cache, depth, logits, observer);
  }

 private:
  std::unique_ptr<Model> model_;
  std::function<void()> on_step_;
};

struct Phase {
  const char* name;
  int parts;  // its share of the requests, in twentieths
  bool starved;
  void (*change)(EngineSetup&);
  SoakPromises promises = {};
};

void PrintTo(const Phase& phase, std::ostream* out) {
  *out << phase.name;
}

std::string given(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string model_folder() {
  return given("SLUICE_SOAK_MODEL");
}

std::int64_t resident_bytes() {
  malloc_trim(0);
  std::ifstream statm("/proc/self/statm");
  std::int64_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident * 4096;
}

class SoakTest : public ::testing::TestWithParam<Phase> {
 protected:
  SoakTest() {
    set_log_level(LogLevel::kError);
    options_.model.folder = model_folder();
    options_.machine.threads = 2;
    if (!given("SLUICE_SOAK_DEVICE").empty()) options_.machine.device = given("SLUICE_SOAK_DEVICE");
    if (const std::string async = given("SLUICE_SOAK_ASYNC"); !async.empty()) {
      options_.scheduler.async_scheduling = option_of<AsyncScheduling>(async).value();
    }
    options_.model.max_model_len = kMaxModelLen;
    options_.scheduler.max_num_seqs = 64;
    options_.scheduler.max_num_batched_tokens = 256;
    options_.audit = true;
    options_.cache.kv_cache_memory = model_folder().empty() ? kPoolBytes : kModelPoolBytes;
  }

  std::unique_ptr<Runner> make_runner(const EngineSetup& options, std::function<void()> on_step) {
    const KernelTable* kernels = nullptr;
    std::unique_ptr<Model> model;
    DeviceChoice device = choose_device(options.machine, options.numerics).value();
    if (model_folder().empty()) {
      model = std::make_unique<FakeModel>();
    } else {
      kernels = device.kernels != nullptr ? device.kernels
                                          : select_kernels(options.machine.isa, options.machine.kernels).value();
      ThreadPool pool(resolve_threads(options));
      LoadReport report;
      const Exec exec{.pool = &pool, .kernels = kernels, .ops = device.ops, .device = &device.device()};
      model = load_model(exec, options.model.folder, options, [](std::size_t, std::size_t) {}, &report).value();
    }
    return Runner::create(std::make_unique<WatchedModel>(std::move(model), std::move(on_step)), kernels, options,
                          std::move(device))
        .value();
  }

  // A pool of a quarter of what the running sequences need on average, but at least of the largest request.
  int pages_when_starved(int vocab) const {
    SoakRequests sample(1, vocab, kMaxModelLen);
    std::int64_t blocks = 0;
    constexpr int kSample = 1000;
    for (int i = 0; i < kSample; ++i) {
      const SoakRequest r = sample.next();
      if (!r.too_large) blocks += blocks_for(static_cast<std::int64_t>(r.prompt.size()) + r.max_tokens);
    }
    const auto needed = static_cast<int>(blocks * options_.scheduler.max_num_seqs / kSample);
    return std::max(needed / kStarvedTimes, blocks_for(kMaxModelLen) + 1);
  }

  void submit_all(Engine& engine, SoakLedger& ledger, int requests) {
    std::atomic<int> left{requests};
    std::vector<std::thread> clients;
    for (std::uint64_t c = 0; c < kClients; ++c) {
      clients.emplace_back([&, c] {
        SoakRequests shapes(seed_ * kClients + c, engine.vocab_size(), kMaxModelLen);
        while (left.fetch_sub(1) > 0) ledger.submit(engine, shapes.next(), options_.scheduler.max_num_seqs);
      });
    }
    for (auto& client : clients) client.join();
    ASSERT_TRUE(ledger.wait_for_all(300s)) << "a request did not end";
  }

  void check_memory(Engine& engine) {
    ASSERT_TRUE(engine.reset_prefix_cache(60));
    const EngineStats stats = engine.stats();
    EXPECT_EQ(stats.running + stats.waiting, 0);
    EXPECT_EQ(stats.cache_bytes_used, 0);
    EXPECT_EQ(stats.swap_bytes_used, 0);
    EXPECT_EQ(stats.cache.latent_pages_used + stats.cache.window_pages_used, 0);
    EXPECT_EQ(stats.cache.latent_pages_cached + stats.cache.window_pages_cached, 0);
  }

  void check_numbers(const EngineStats& stats, const SoakNumbers& n) {
    EXPECT_EQ(n.bad_outputs, 0U) << "outputs after the end, or of no choice";
    EXPECT_EQ(n.ended[0] + n.ended[1] + n.ended[2] + n.ended[3], n.choices);
    EXPECT_EQ(n.ended[static_cast<std::size_t>(FinishReason::kError)], 0U);
    EXPECT_EQ(stats.finished_requests + stats.cancelled_requests, n.requests - n.refused);
    EXPECT_EQ(stats.generated_tokens, n.tokens);
    EXPECT_EQ(n.late, 0U) << "waits beyond the bound";
    EXPECT_EQ(n.late_gaps, 0U) << "decodes that waited beyond the bound";
    EXPECT_GE(stats.cache.matched_tokens, stats.cache.resumed_tokens);
    EXPECT_GE(stats.cache.prompt_tokens, stats.cache.matched_tokens);
  }

  void compare_with_alone(const SoakLedger& ledger);

  EngineSetup options_;
  const std::uint64_t seed_ = test_seed();
};

// Runs again the requests that the books kept, each choice by itself and from nothing.
void SoakTest::compare_with_alone(const SoakLedger& ledger) {
  EngineSetup options = options_;
  options.cache.enable_prefix_caching = false;
  options.testing.hidden_latent_pages = options.testing.force_preempt_every = 0;
  auto engine = start_engine(make_runner(options, [] {}), options, {}).value();
  int compared = 0;
  for (const auto& entry : ledger.kept()) {
    for (std::size_t c = 0; c < entry->choices.size(); ++c) {
      SoakRequest single = entry->request;
      single.n = 1;
      single.sampling.seed = choice_seed(single.sampling.seed, static_cast<int>(c));
      single.abort = SoakRequest::Abort::kNever;
      SoakLedger books({}, 1);
      books.submit(*engine, single, 1);
      ASSERT_TRUE(books.wait_for_all(60s));
      ASSERT_FALSE(books.kept().empty());
      const SoakLedger::Choice& alone = books.kept().front()->choices.front();
      const SoakLedger::Choice& soaked = entry->choices[c];
      if (soaked.reason == FinishReason::kCancelled) {
        ASSERT_LE(soaked.tokens.size(), alone.tokens.size());
        EXPECT_TRUE(std::equal(soaked.tokens.begin(), soaked.tokens.end(), alone.tokens.begin())) << entry->id;
      } else {
        EXPECT_EQ(soaked.tokens, alone.tokens) << "request " << entry->id << " choice " << c;
        EXPECT_EQ(soaked.reason, alone.reason);
      }
      ++compared;
    }
  }
  EXPECT_GT(compared, 0);
  fmt::print("  {} choices compared with themselves alone\n", compared);
}

TEST_P(SoakTest, EveryRequestEndsAndAllMemoryComesBack) {
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed_);
  const Phase& phase = GetParam();
  const TempFolder folder;
  phase.change(options_);
  if (options_.cache.swap_dir == "disk") options_.cache.swap_dir = folder.path();
  const std::string asked = given("SLUICE_SOAK_REQUESTS");
  const int requests = (asked.empty() ? 20000 : std::atoi(asked.c_str())) * phase.parts / 20;
  // With asynchronous steps a token is heard of a step after it is computed, but at once if it was drafted: then the
  // next one comes a step later.
  SoakPromises promises = phase.promises;
  const bool later = !given("SLUICE_SOAK_DEVICE").empty() || !given("SLUICE_SOAK_ASYNC").empty();
  if (promises.token_gap > 0 && later) ++promises.token_gap;
  SoakLedger ledger(promises, std::max(1, requests / 40));
  std::atomic<Engine*> running{nullptr};
  auto runner = make_runner(options_, [&] { ledger.step(running); });
  const int pages = runner->cache().pools().latents().total() - 1;
  const int starved = phase.starved ? pages_when_starved(static_cast<int>(runner->limits().vocab_size)) : pages;
  if (phase.starved) {
    options_.testing.hidden_latent_pages = std::max(0, pages - starved);
    runner = make_runner(options_, [&] { ledger.step(running); });
  }
  const Device& device = *runner->exec().device;
  auto engine = start_engine(std::move(runner), options_, {}).value();
  running = engine.get();

  const auto start = std::chrono::steady_clock::now();
  submit_all(*engine, ledger, requests / 10);  // until everything has its size
  const std::int64_t resident = resident_bytes(), free_on_device = static_cast<std::int64_t>(device.free_bytes());
  submit_all(*engine, ledger, requests - requests / 10);
  const std::int64_t grown = resident_bytes() - resident,
                     grown_on_device = free_on_device - static_cast<std::int64_t>(device.free_bytes());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const EngineStats stats = engine->stats();
  const SoakNumbers n = ledger.numbers();
  check_memory(*engine);
  check_numbers(stats, n);
  EXPECT_LE(grown, kMostGrowth + (model_folder().empty() ? 0 : kModelPoolBytes)) << "resident memory grows";
  EXPECT_LE(grown_on_device, kMostGrowth) << "memory of the device grows";
  fmt::print(
      "{}: SLUICE_TEST_SEED={}, {} requests, {} refused; {} choices: {} stopped, {} at their length, {} cancelled ({} "
      "before a token); {} tokens, {} steps, {:.1f} s\n"
      "  {} of {} pages; preempted {} times to compute again, {} times to swap ({} came back); {} tokens of {} "
      "resumed, {} waits for "
      "a "
      "common prefix, {} blocks evicted; {} tokens drafted, {} of them right\n"
      "  longest wait {} steps ({}), longest gap {} steps ({}); resident memory {:+.1f} MiB, the device's {:+.1f} "
      "MiB\n",
      phase.name, seed_, n.requests, n.refused, n.choices, n.ended[0], n.ended[1], n.ended[2],
      n.cancelled_before_a_token, n.tokens, n.steps, seconds, starved, pages, stats.preemptions_recompute,
      stats.preemptions_swap, stats.swaps_restored, stats.cache.resumed_tokens, stats.cache.prompt_tokens,
      stats.cache.shared_waits, stats.cache.evicted_blocks, stats.drafts.drafted_tokens, stats.drafts.accepted_tokens,
      n.longest_wait,
      phase.promises.rows_per_step > 0 ? fmt::format("{:.0f}% of its bound", 100 * n.nearest_to_bound) : kNoBound,
      n.longest_gap, phase.promises.token_gap > 0 ? fmt::format("bound {}", phase.promises.token_gap) : kNoBound,
      static_cast<double>(grown) / 1048576, static_cast<double>(grown_on_device) / 1048576);
  constexpr int kRoomForDrafts = 64;  // rows of a step: more than sequences
  const bool knows_tokens = !resolve_async_scheduling(options_, &device != &cpu_device());  // when it plans
  if (knows_tokens && options_.scheduler.max_num_batched_tokens > kRoomForDrafts && requests >= 100) {
    EXPECT_GT(stats.drafts.drafted_tokens, stats.drafts.accepted_tokens);
    // The number of drafts depends on how long steps take, as drafts have to pay.
    constexpr std::uint64_t kEnoughDrafts = 1000;
    if (stats.drafts.drafted_tokens >= kEnoughDrafts) EXPECT_GT(stats.drafts.accepted_tokens, 0U);
  }
  constexpr int kEnoughToSwap = 500;
  if (options_.cache.swap_space > 0 && requests >= kEnoughToSwap) {
    EXPECT_GT(stats.swaps_restored, 0U);
  }
  // 200 requests of a starved phase may all find room by chance, 500 were preempted 4 to 15 times.
  constexpr int kEnoughToPreempt = 1000;
  if (phase.starved && (options_.testing.force_preempt_every > 0 || requests >= kEnoughToPreempt)) {
    EXPECT_GT(stats.preemptions_recompute + stats.preemptions_swap, 0U);
  }
  running = nullptr;
  engine.reset();
  compare_with_alone(ledger);
}

// h, the rows that the oldest prompt gets of each step: more than 3/8 of what 63 decodes, and drafts, leave of 256.
constexpr int kRowsOfTheOldest = (256 - 63) * 3 / 4 * 3 / 8;

const Phase kPhases[] = {
    {"roomy_fair",
     5,
     false,
     [](EngineSetup&) {},
     {.token_gap = 1, .rows_per_step = kRowsOfTheOldest, .most_share_waits = Scheduler::kMaxShareWaits}},
    {"roomy_turns_uncached",
     2,
     false,
     [](EngineSetup& o) {
       o.cache.enable_prefix_caching = false;
       o.scheduler.max_num_batched_tokens = 3;
     },
     {.token_gap = 22}},
    {"roomy_unmixed",
     1,
     false,
     [](EngineSetup& o) {
       o.scheduler.enable_mixed_prefill_decode = false;
       o.scheduler.long_prefill_token_threshold = 100;
     },
     {.token_gap = 2}},
    {"starved_fair", 4, true, [](EngineSetup&) {}},
    {"starved_fcfs_swap", 4, true,
     [](EngineSetup& o) {
       o.scheduler.scheduling_policy = SchedulingPolicy::kFcfs;
       o.cache.swap_space = 256 << 20;
       o.testing.force_preempt_every = 40;
     }},
    {"starved_priority_disk", 4, true,
     [](EngineSetup& o) {
       o.scheduler.scheduling_policy = SchedulingPolicy::kPriority;
       o.cache.swap_space = 4 << 20;
       o.cache.swap_dir = "disk";
       o.testing.force_preempt_every = 25;
     }},
};

INSTANTIATE_TEST_SUITE_P(Phases, SoakTest, ::testing::ValuesIn(kPhases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace sluice
