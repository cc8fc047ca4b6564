#include "engine/runner/runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include "base/rendezvous_testing.h"
#include "base/test_paths_testing.h"
#include "base/threads/cpu_topology.h"
#include "engine/fake_model_testing.h"

namespace sluice::runner_test {
namespace {

using ::testing::HasSubstr;

EngineSetup small_options() {
  EngineSetup options;
  options.machine.threads = 1;
  options.scheduler.max_num_seqs = 4;
  options.scheduler.max_num_batched_tokens = 256;
  options.cache.kv_cache_memory = 4 << 20;
  return options;
}

std::unique_ptr<Runner> make_runner(const EngineSetup& options = small_options()) {
  auto runner = Runner::create(std::make_unique<FakeModel>(), nullptr, options);
  EXPECT_TRUE(runner.ok()) << runner.status().message();
  return std::move(runner).value();
}

std::vector<TokenId> tokens(int n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> ids(static_cast<std::size_t>(n));
  for (auto& id : ids) id = static_cast<TokenId>(random() % 64);
  return ids;
}

// Runs `ids` in spans of `chunk` rows and returns every row's logits.
std::vector<float> run_chunked(Runner& runner, const std::vector<TokenId>& ids, std::size_t chunk) {
  const StateSlot slot = runner.sequences().open().value();
  std::vector<float> all;
  std::vector<int> rows(chunk);
  std::iota(rows.begin(), rows.end(), 0);
  for (std::size_t i = 0; i < ids.size(); i += chunk) {
    const std::size_t n = std::min(chunk, ids.size() - i);
    const StepSpan span{.sequence = slot, .ids = {&ids[i], n}, .logit_rows = {rows.data(), n}};
    EXPECT_TRUE(runner.run_step({&span, 1}).ok());
    EXPECT_TRUE(runner.sequences().audit().ok()) << runner.sequences().audit().message();
    all.insert(all.end(), runner.logits().all().begin(), runner.logits().all().end());
  }
  runner.sequences().close(slot);
  return all;
}

TEST(RunnerTest, ChunkedIsTheSameAsInOnePiece) {
  auto runner = make_runner();
  const auto ids = tokens(700, 1);
  const auto whole = run_chunked(*runner, ids, ids.size());
  EXPECT_EQ(whole.size(), 700U * 64U);
  for (const std::size_t chunk : {1U, 3U, 127U, 128U, 129U, 300U})
    EXPECT_EQ(run_chunked(*runner, ids, chunk), whole) << chunk;
  EXPECT_EQ(runner->cache().pools().bytes_used(), 0U);
}

TEST(RunnerTest, AForgottenSpanLeavesNoTrace) {
  auto runner = make_runner();
  const auto ids = tokens(300, 2), wrong = tokens(200, 3);
  const auto whole = run_chunked(*runner, ids, ids.size());
  const StateSlot slot = runner->sequences().open().value();
  std::vector<float> all;
  for (std::size_t i = 0; i < ids.size(); i += 10) {
    const StepSpan rejected{.sequence = slot, .ids = wrong, .logit_rows = {}, .keep = false};
    ASSERT_TRUE(runner->run_step({&rejected, 1}).ok());
    ASSERT_TRUE(runner->sequences().audit().ok()) << runner->sequences().audit().message();
    EXPECT_EQ(runner->sequences().position(slot), static_cast<Position>(i));
    std::vector<int> rows(10);
    std::iota(rows.begin(), rows.end(), 0);
    const StepSpan span{.sequence = slot, .ids = {&ids[i], 10}, .logit_rows = rows};
    ASSERT_TRUE(runner->run_step({&span, 1}).ok());
    all.insert(all.end(), runner->logits().all().begin(), runner->logits().all().end());
  }
  EXPECT_EQ(all, whole);
}

TEST(RunnerTest, RefusesWhatItCannotRunAndStaysAsItWas) {
  auto runner = make_runner();
  const StateSlot a = runner->sequences().open().value();
  const std::vector<TokenId> ids = {1, 2, 3}, bad = {1, 64};
  const std::vector<int> rows = {0, 2}, disorder = {2, 1};
  const auto message = [&](std::vector<StepSpan> spans) { return runner->run_step(spans).message(); };
  EXPECT_THAT(message({}), HasSubstr("at least one span"));
  EXPECT_THAT(message({{.sequence = StateSlot(3), .ids = ids, .logit_rows = {}}}), HasSubstr("not open"));
  EXPECT_THAT(message({{.sequence = StateSlot(), .ids = ids, .logit_rows = {}}}), HasSubstr("not open"));
  EXPECT_THAT(message({{.sequence = a, .ids = {}, .logit_rows = {}}}), HasSubstr("empty span"));
  EXPECT_THAT(message({{.sequence = a, .ids = bad, .logit_rows = {}}}),
              HasSubstr("expected an id in [0, 64), found 64"));
  EXPECT_THAT(message({{.sequence = a, .ids = ids, .logit_rows = disorder}}), HasSubstr("found 1 after 2"));
  EXPECT_THAT(message({{.sequence = a, .ids = ids, .logit_rows = {}}, {.sequence = a, .ids = ids, .logit_rows = {}}}),
              HasSubstr("two spans"));
  const auto long_ids = tokens(4097, 4);
  EXPECT_THAT(message({{.sequence = a, .ids = long_ids, .logit_rows = {}}}), HasSubstr("4096"));
  EXPECT_EQ(runner->sequences().position(a), 0);
  EXPECT_TRUE(runner->sequences().audit().ok());
  EXPECT_EQ(message({{.sequence = a, .ids = ids, .logit_rows = rows}}), "");
  EXPECT_EQ(runner->logits().all().size(), 2U * 64U);
}

TEST(RunnerTest, AShortageOfPagesChangesNothing) {
  EngineSetup options = small_options();
  options.cache.kv_cache_memory = 64 << 10;
  options.scheduler.max_num_seqs = 2;
  auto runner = make_runner(options);
  const StateSlot a = runner->sequences().open().value(), b = runner->sequences().open().value();
  const auto ids = tokens(4096, 5);
  const StepSpan spans[] = {{.sequence = a, .ids = {ids.data(), 5}, .logit_rows = {}},
                            {.sequence = b, .ids = ids, .logit_rows = {}}};
  const Status status = runner->run_step(spans);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("4096 rows for sequence 1 at position 0"));
  EXPECT_EQ(runner->sequences().position(a), 0);
  EXPECT_TRUE(runner->sequences().audit().ok()) << runner->sequences().audit().message();
  EXPECT_TRUE(runner->run_step({spans, 1}).ok());
}

TEST(RunnerTest, AsManyThreadsComputeAsWereAskedFor) {
  Rendezvous* rendezvous = nullptr;
  FakeModel::Settings settings;
  std::atomic<int> met{0};
  settings.on_logits = [&](TokenId, Position, float*) { met += rendezvous->come(); };
  const auto compute = [&](Runner& runner, int threads) {  // as many rows, each of which waits for the others
    ASSERT_EQ(runner.threads().count(), threads);
    met = 0;
    Rendezvous place(threads);
    rendezvous = &place;
    const StateSlot slot = runner.sequences().open().value();
    std::vector<int> rows(static_cast<std::size_t>(threads));
    std::iota(rows.begin(), rows.end(), 0);
    const std::vector<TokenId> ids(rows.size(), 1);
    const StepSpan span{.sequence = slot, .ids = ids, .logit_rows = rows};
    EXPECT_TRUE(runner.run_step({&span, 1}).ok());
    ASSERT_EQ(met, threads) << "that were there at the same time";
    runner.sequences().close(slot);
  };
  for (const int threads : {1, 2, 3}) {
    EngineSetup options = small_options();
    options.machine.threads = threads;
    auto runner = Runner::create(std::make_unique<FakeModel>(settings), nullptr, options).value();
    ASSERT_NO_FATAL_FAILURE(compute(*runner, threads));
    for (const int others : {4, 1, 2}) {
      runner->threads().set(others);
      ASSERT_NO_FATAL_FAILURE(compute(*runner, others));
    }
  }
}

int processors_of_caller() {
  cpu_set_t set;
  CPU_ZERO(&set);
  ::pthread_getaffinity_np(::pthread_self(), sizeof(set), &set);
  return CPU_COUNT(&set);
}

// The number of processors that each thread of the pool, except the caller, may run on.
std::vector<int> processors_of_threads(Runner& runner) {
  const int threads = runner.threads().count();
  std::vector<int> counts(static_cast<std::size_t>(threads));
  Rendezvous place(threads);
  runner.exec().pool->run(threads, [&](int, int thread) {
    EXPECT_TRUE(place.come());
    counts[static_cast<std::size_t>(thread)] = processors_of_caller();
  });
  return {counts.begin() + 1, counts.end()};
}

// A thread begins where the one may run that starts it: a runner whose caller is pinned has to remember the others.
TEST(RunnerTest, NewThreadsOfAPinnedCallerMayRunEverywhere) {
  const auto processors = static_cast<int>(usable_cpus().size());
  if (processors < 2) GTEST_SKIP() << "one processor";
  std::thread([processors] {  // a thread whose processors may change
    EngineSetup options = small_options();
    options.machine.threads = processors;
    auto runner = Runner::create(std::make_unique<FakeModel>(), nullptr, options).value();
    for (int again = 0; again < 2; ++again) {
      runner->threads().pin();
      EXPECT_THAT(processors_of_threads(*runner), testing::Each(1));
      runner->threads().pin_caller();
    }
    runner->threads().set(processors);
    EXPECT_THAT(processors_of_threads(*runner), testing::Each(processors));
    runner->threads().pin_caller();  // as threads are pinned, which these are not
    EXPECT_EQ(processors_of_caller(), processors);
  })
      .join();
}

TEST(RunnerTest, OpensOneSequenceMoreThanRun) {
  auto runner = make_runner();
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(runner->sequences().open().ok());
  EXPECT_EQ(runner->sequences().open().status().code(), StatusCode::kResourceExhausted);
}

// The chains of two profiles begin apart, so none of their pages are ever shared.
TEST(RunnerTest, EveryProfileHasARootOfItsOwn) {
  const auto root = [](auto change, const char* salt = "") {
    EngineSetup options = small_options();
    options.model.folder = test_data_dir() + "/oracles/v2-lite-like";
    change(options);
    auto runner = Runner::load(options);
    EXPECT_TRUE(runner.ok()) << runner.status().message();
    return (*runner)->cache().root(salt).bytes;
  };
  const auto expanded = [](auto& o) { o.numerics.mla_prefill = MlaPrefill::kExpanded; };
  const std::vector roots{
      root([](auto&) {}),
      root([](auto&) {}, "salt"),
      root([](auto& o) { o.numerics.profile = "plain"; }),
      root([](auto& o) { o.numerics.profile = "amx"; }),
      root([](auto& o) { o.numerics.kv_cache_dtype = "fp8"; }),
      root(expanded),
      root(expanded, "salt"),
      root([](auto& o) { o.numerics.mla_prefill = MlaPrefill::kExpanded, o.numerics.attn_prefill_chunk_size = 512; }),
      root([](auto& o) { o.numerics.mla_prefill = MlaPrefill::kExpanded, o.testing.mla_expand_from = 64; }),
  };
  for (std::size_t i = 0; i < roots.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(roots[i], roots[j]) << i << " and " << j;
  }
  EXPECT_EQ(root(expanded), roots[5]);
  EXPECT_EQ(root([](auto& o) { o.machine.threads = 2, o.machine.isa = "scalar"; }), roots[0])
      << "neither is part of a profile";
}

TEST(RunnerTest, OptionsAreChecked) {
  const auto message = [](auto change) {
    EngineSetup options = small_options();
    change(options);
    return Runner::create(std::make_unique<FakeModel>(), nullptr, options).status().message();
  };
  EXPECT_THAT(message([](auto& o) { o.machine.threads = -1; }), HasSubstr("--threads: expected 0 to 1024, found -1"));
  EXPECT_THAT(message([](auto& o) { o.scheduler.max_num_seqs = 0; }), HasSubstr("--max-num-seqs"));
  EXPECT_THAT(message([](auto& o) { o.scheduler.max_num_batched_tokens = -1; }), HasSubstr("--max-num-batched-tokens"));
  EXPECT_THAT(message([](auto& o) { o.model.max_model_len = 4097; }), HasSubstr("--max-model-len: expected 1 to 4096"));
  EXPECT_THAT(message([](auto& o) { o.model.max_model_len = -1; }), HasSubstr("--max-model-len"));
  EXPECT_THAT(message([](auto& o) { o.cache.kv_cache_memory = -1; }), HasSubstr("--kv-cache-memory"));
  EXPECT_THAT(message([](auto& o) { o.cache.kv_cache_memory = 1000; }),
              HasSubstr("--kv-cache-memory: expected at least"));
}

TEST(RunnerTest, AStepThatIsRefusedHasNoLogits) {
  const auto runner = make_runner();
  const StateSlot slot = runner->sequences().open().value();
  const std::vector<TokenId> known = tokens(4, 1), unknown = {1 << 20};
  const int row = 0;
  const StepSpan good{.sequence = slot, .ids = known, .logit_rows = {&row, 1}};
  ASSERT_TRUE(runner->run_step({&good, 1}).ok());
  EXPECT_EQ(runner->logits().all().size(), runner->limits().vocab_size);
  const StepSpan bad{.sequence = slot, .ids = unknown, .logit_rows = {&row, 1}};
  ASSERT_FALSE(runner->run_step({&bad, 1}).ok());
  EXPECT_TRUE(runner->logits().all().empty());
}

}  // namespace
}  // namespace sluice::runner_test
