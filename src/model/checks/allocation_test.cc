// Once warm, a step takes no memory: this program's malloc() and its kin count what is asked of them. One thread, since
// every thread of a pool warms its own scratch.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <random>

#include "base/test_paths_testing.h"
#include "base/test_seed_testing.h"
#include "kernels/device/isa.h"
#include "model/checks/cache_testing.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define SLUICE_COUNTS_ALLOCATIONS 0
#else
#define SLUICE_COUNTS_ALLOCATIONS 1
#endif

namespace sluice::allocation_test {
namespace {

std::atomic<bool> counting{false};
std::atomic<int> allocations{0};

[[maybe_unused]] void count() {
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

#if SLUICE_COUNTS_ALLOCATIONS
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* old, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* malloc(std::size_t bytes) noexcept {
  count();
  return __libc_malloc(bytes);
}
void* calloc(std::size_t elements, std::size_t bytes) noexcept {
  count();
  return __libc_calloc(elements, bytes);
}
void* realloc(void* old, std::size_t bytes) noexcept {
  count();
  return __libc_realloc(old, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  count();
  return __libc_memalign(alignment, bytes);
}
}
#endif

namespace {

constexpr int kSequences = 4, kTokens = 420;

// Four sequences from their first token on, in steps of any rows of each.
class Steps {
 public:
  Steps(Model& model, const Exec& exec, std::uint32_t seed)
      : model_(model),
        exec_(exec),
        builder_(model.cache_layout().table_shape()),
        pages_(model.cache_layout(), 4 * kSequences, seed),
        initial_(model.cache_layout().initial_state()),
        logits_(kSequences * static_cast<std::size_t>(model.config().vocab_size)) {
    std::mt19937 random(seed);
    states_.resize(2 * kSequences * initial_.size());
    view_ = pages_.view();
    view_.open_base = states_.data(), view_.open_stride = initial_.size();
    for (Sequence& sequence : sequences_) {
      for (int block = 0; block * kBlockTokens < kTokens; ++block) {
        sequence.latents.push_back(pages_.take_latent());
        sequence.windows.push_back(pages_.take_window());
      }
      for (int i = 0; i < kTokens; ++i) {
        sequence.ids.push_back(static_cast<TokenId>(random() % static_cast<unsigned>(model.config().vocab_size)));
      }
    }
  }

  void restart() {
    for (int s = 0; s < kSequences; ++s) {
      sequences_[s].at = 0, sequences_[s].copy = 0;
      std::copy(initial_.begin(), initial_.end(), view_.state(2 * s));
    }
  }
  // The next rows[s] rows of every sequence, each of which wants the logits of its last; how many allocations it took.
  int step(const std::array<int, kSequences>& rows) {
    allocations = 0;
    counting = true;
    builder_.begin();
    for (int s = 0; s < kSequences; ++s) {
      Sequence& sequence = sequences_[s];
      if (rows[static_cast<std::size_t>(s)] == 0) continue;
      const BatchSpan span{.rows = rows[static_cast<std::size_t>(s)],
                           .first_position = sequence.at,
                           .latents_from = 0,
                           .latent_pages = sequence.latents,
                           .window_pages = sequence.windows,
                           .state_in = 2 * s + sequence.copy,
                           .first_state = 2 * s};
      const int last = span.rows - 1;
      builder_.add(
          span,
          std::span(sequence.ids).subspan(static_cast<std::size_t>(sequence.at), static_cast<std::size_t>(span.rows)),
          {&last, 1});
      sequence.at += span.rows, sequence.copy = 1 - sequence.copy;
    }
    model_.forward(exec_, builder_.finish(), view_, logits_.data(), nullptr);
    counting = false;
    return allocations;
  }

 private:
  struct Sequence {
    std::vector<LatentPage> latents;
    std::vector<WindowPage> windows;
    std::vector<TokenId> ids;
    Position at = 0;
    int copy = 0;
  };
  Model& model_;
  const Exec& exec_;
  StepBuilder builder_;
  TestPages pages_;
  CacheView view_;
  std::vector<std::byte> states_, initial_;
  std::vector<float> logits_;
  Sequence sequences_[kSequences];
};

struct Kind {
  const char* name;
  std::array<int, kSequences> rows;
};
constexpr Kind kSteps[] = {
    {"prefill", {300, 0, 0, 0}},        {"prefill of two", {60, 140, 0, 0}}, {"mixed", {1, 1, 130, 0}},
    {"decode", {1, 1, 1, 0}},           {"mixed again", {1, 1, 1, 190}},     {"decode of four", {1, 1, 1, 1}},
    {"decode once more", {1, 1, 1, 1}},
};

class AllocationTest : public ::testing::TestWithParam<const char*> {};

TEST_P(AllocationTest, AWarmStepTakesNoMemory) {
  if (!SLUICE_COUNTS_ALLOCATIONS) GTEST_SKIP() << "the sanitizers' allocator counts for itself";
  const KernelTable& kernels = *present_kernels().front();
  if (&kernels == &scalar_kernels()) GTEST_SKIP() << "the scalar kernels allocate as they like";
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  ThreadPool pool(1);
  const Exec exec{&pool, &kernels};
  EngineSetup options;
  options.model.folder = test_data_dir() + "/oracles/" + GetParam();
  const auto model = load_model(exec, options.model.folder, options, {}, nullptr).value();
  prepare_for(*model, 512);
  Steps steps(*model, exec, seed);
  for (const bool warm : {false, true}) {
    steps.restart();
    int taken = 0;
    for (const Kind& kind : kSteps) {
      const int of_step = steps.step(kind.rows);
      if (warm) {
        EXPECT_EQ(of_step, 0) << kind.name;
      }
      taken += of_step;
    }
    if (!warm) {
      EXPECT_GT(taken, 0) << "nothing is counted";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, AllocationTest,
                         ::testing::Values("v4-flash-like", "v4-pro-like", "v2-lite-like", "v3-like", "v32-like",
                                           "llama-like", "qwen2-swa-like", "qwen3moe-like"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace sluice::allocation_test
