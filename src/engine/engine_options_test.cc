#include "engine/engine_options.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/storage/temp_folder_testing.h"
#include "engine/engine_testing.h"
#include "engine/option_words.h"

namespace sluice::engine_options_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

template <class Change>
std::string message(Change change) {
  EngineSetup options = small_options();
  change(options);
  const auto runner = Runner::create(std::make_unique<FakeModel>(), nullptr, options);
  EXPECT_FALSE(runner.ok());
  return runner.ok() ? "" : runner.status().message();
}

TEST(EngineOptionsTest, UncutPromptsNeedTheBudgetForTheLongest) {
  EXPECT_THAT(message([](auto& o) {
                o.scheduler.enable_chunked_prefill = false;
                o.scheduler.max_num_batched_tokens = 999;
                o.model.max_model_len = 1000;
              }),
              AllOf(HasSubstr("--no-enable-chunked-prefill"), HasSubstr("--max-num-batched-tokens"),
                    HasSubstr("--max-model-len"), HasSubstr("found 999 and 1000")));
  EXPECT_THAT(message([](auto& o) {  // the model's own limit counts when none is given
                o.scheduler.enable_chunked_prefill = false;
                o.scheduler.max_num_batched_tokens = 4095;
              }),
              HasSubstr("found 4095 and 4096"));
}

TEST(EngineOptionsTest, UncutPromptsNeedWindowPagesForTheLongest) {
  EXPECT_THAT(message([](auto& o) {
                o.scheduler.enable_chunked_prefill = false;
                o.scheduler.max_num_batched_tokens = 4096;
                o.cache.kv_cache_memory = 30 << 10;
              }),
              AllOf(HasSubstr("--no-enable-chunked-prefill"), HasSubstr("window pages"), HasSubstr("--kv-cache-memory"),
                    HasSubstr("--max-model-len 4096")));
}

TEST(EngineOptionsTest, SchedulingIsChecked) {
  EXPECT_THAT(message([](auto& o) { o.scheduler.long_prefill_token_threshold = -1; }),
              HasSubstr("--long-prefill-token-threshold: expected 0 to"));
  EXPECT_THAT(message([](auto& o) {
                o.scheduler.enable_chunked_prefill = false;
                o.scheduler.max_num_batched_tokens = 4096;
                o.scheduler.long_prefill_token_threshold = 64;
              }),
              AllOf(HasSubstr("--long-prefill-token-threshold 64"), HasSubstr("--no-enable-chunked-prefill")));
  EXPECT_THAT(message([](auto& o) { o.testing.force_preempt_every = -1; }), HasSubstr("--force-preempt-every"));
  EXPECT_THAT(message([](auto& o) { o.testing.inject_fault = "none-such"; }), HasSubstr("none-such"));
}

TEST(EngineOptionsTest, SwappingIsChecked) {
  const TempFolder folder;
  EXPECT_THAT(message([](auto& o) { o.cache.swap_space = -1; }), HasSubstr("--swap-space: expected 0 to"));
  EXPECT_THAT(message([&](auto& o) { o.cache.swap_dir = folder.path(); }),
              AllOf(HasSubstr("--swap-dir"), HasSubstr("--swap-space")));
  EXPECT_THAT(message([&](auto& o) {
                o.cache.swap_space = 1 << 20;
                o.cache.swap_dir = folder.file("missing");
              }),
              AllOf(HasSubstr("--swap-dir"), HasSubstr("missing"), HasSubstr("No such file")));
  EXPECT_THAT(message([&](auto& o) {
                o.cache.swap_space = 1 << 20;
                o.cache.swap_dir = folder.write("file", "x");
              }),
              AllOf(HasSubstr("--swap-dir"), HasSubstr("Not a directory")));
}

struct Variant {
  const char* name;
  void (*change)(EngineSetup&);
};

void PrintTo(const Variant& v, std::ostream* out) {
  *out << v.name;
}

class EngineVariantTest : public ::testing::TestWithParam<Variant> {};

// None of these flags changes a token.
TEST_P(EngineVariantTest, AnswersAreTheSame) {
  EngineSetup options = small_options();
  options.model.max_model_len = 700;
  options.scheduler.max_num_batched_tokens = 700;
  GetParam().change(options);
  constexpr int kRequests = 8;
  std::vector<Answer> answers(kRequests);
  auto engine = make_engine(options);
  const auto prompt = [](int i) { return joined(random_tokens(i % 2 * 200, 1), random_tokens(3 + i * 37, 2)); };
  const auto sampling = [](int i) {
    return SamplingParams{.temperature = i % 3 == 0 ? 0.0F : 1.0F, .seed = static_cast<std::uint64_t>(i)};
  };
  for (int i = 0; i < kRequests; ++i) {
    ASSERT_TRUE(engine->submit(request(answers[static_cast<std::size_t>(i)], prompt(i), 40 + i, sampling(i))).ok());
  }
  for (int i = 0; i < kRequests; ++i) {
    Answer& answer = answers[static_cast<std::size_t>(i)];
    EXPECT_EQ(answer.wait().reason, FinishReason::kLength);
    EXPECT_EQ(answer.tokens(), alone(prompt(i), 40 + i, sampling(i))) << i;
  }
  EXPECT_EQ(engine->stats().cache_bytes_used, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Flags, EngineVariantTest,
    ::testing::Values(Variant{"unchunked", [](EngineSetup& o) { o.scheduler.enable_chunked_prefill = false; }},
                      Variant{"unmixed", [](EngineSetup& o) { o.scheduler.enable_mixed_prefill_decode = false; }},
                      Variant{"unchunked_unmixed",
                              [](EngineSetup& o) {
                                o.scheduler.enable_chunked_prefill = false;
                                o.scheduler.enable_mixed_prefill_decode = false;
                              }},
                      Variant{"uncached_unmixed",
                              [](EngineSetup& o) {
                                o.cache.enable_prefix_caching = false;
                                o.scheduler.enable_mixed_prefill_decode = false;
                              }},
                      Variant{"budget_1", [](EngineSetup& o) { o.scheduler.max_num_batched_tokens = 1; }},
                      Variant{"budget_3_unmixed",
                              [](EngineSetup& o) {
                                o.scheduler.max_num_batched_tokens = 3;
                                o.scheduler.enable_mixed_prefill_decode = false;
                              }},
                      Variant{"threshold", [](EngineSetup& o) { o.scheduler.long_prefill_token_threshold = 17; }},
                      Variant{"fcfs", [](EngineSetup& o) { o.scheduler.scheduling_policy = SchedulingPolicy::kFcfs; }},
                      Variant{"priority",
                              [](EngineSetup& o) { o.scheduler.scheduling_policy = SchedulingPolicy::kPriority; }},
                      Variant{"one_at_a_time", [](EngineSetup& o) { o.scheduler.max_num_seqs = 1; }},
                      Variant{"threads", [](EngineSetup& o) { o.machine.threads = 4; }}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(EngineRefusalTest, PromptsLargerThanThePoolWithTheNumbers) {
  EngineSetup options = small_options();
  options.scheduler.max_num_seqs = 1;
  options.cache.kv_cache_memory = 12 << 10;
  Answer answer;
  auto engine = make_engine(options);
  const int pages = engine->stats().cache.latent_pages_total - 1;  // one is kept back for the self-test
  const int tokens = pages * kBlockTokens;
  ASSERT_LT(tokens, 4000) << "the pool was not small enough for this test";
  const auto refused = engine->submit(request(answer, random_tokens(tokens + 1, 1), 1));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.status().message(),
              HasSubstr(fmt::format("prompt ({} tokens) + max_tokens (1) need {} cache pages of 128 tokens, but there "
                                    "are {} in all (--kv-cache-memory)",
                                    tokens + 1, pages + 1, pages)));
  ASSERT_TRUE(engine->submit(request(answer, random_tokens(tokens, 1), 1)).ok()) << "what just fits runs";
  EXPECT_EQ(answer.wait().reason, FinishReason::kLength);
}

TEST(EngineOptions, WordsAreThoseOfTheEnumerators) {
  EXPECT_EQ(word_of(LoadFormat::kDummy), "dummy");
  EXPECT_EQ(word_of(MlaPrefill::kExpanded), "expanded");
  EXPECT_EQ(word_of(AsyncScheduling::kOff), "off");
  EXPECT_EQ(word_of(Speculative::kOff), "off");
  EXPECT_EQ(word_of(SchedulingPolicy::kPrefillFirst), "prefill-first");
  for (const std::string_view word : option_words(Speculative()))
    EXPECT_EQ(word_of(*option_of<Speculative>(word)), word);
  EXPECT_EQ(option_of<SchedulingPolicy>("lifo"), std::nullopt);
}

TEST(EngineOptions, StepsWaitForTokensWhereDraftsPayOrAlwaysOrNever) {
  struct Case {
    Speculative speculative;
    AsyncScheduling async;
    bool adaptive, later;      // the device computes later
    bool asynchronous, waits;  // expected
  };
  const Case cases[] = {
      {Speculative::kAuto, AsyncScheduling::kAuto, true, true, true, true},
      {Speculative::kMtp, AsyncScheduling::kAuto, true, true, true, true},
      {Speculative::kAuto, AsyncScheduling::kAuto, true, false, false, false},
      {Speculative::kOff, AsyncScheduling::kAuto, true, true, true, false},
      {Speculative::kMtp, AsyncScheduling::kAuto, false, true, false, false},
      {Speculative::kAuto, AsyncScheduling::kOn, true, true, true, false},
      {Speculative::kAuto, AsyncScheduling::kOff, true, true, false, false},
  };
  for (const Case& c : cases) {
    EngineSetup options;
    options.speculation.speculative = c.speculative, options.speculation.speculative_adaptive = c.adaptive;
    options.scheduler.async_scheduling = c.async;
    EXPECT_EQ(resolve_async_scheduling(options, c.later), c.asynchronous)
        << word_of(c.speculative) << " " << word_of(c.async);
    EXPECT_EQ(waits_where_drafts_pay(options, c.later), c.waits) << word_of(c.speculative) << " " << word_of(c.async);
  }
}

}  // namespace
}  // namespace sluice::engine_options_test
