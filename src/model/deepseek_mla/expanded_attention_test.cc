// --mla-prefill expanded: a profile of its own, close to the absorbed one, for the models that have latent attention.
// oracle_test.cc checks how close it comes to other libraries, and kernels/tests/attend_expanded_test.cc tests its ops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/test_paths_testing.h"
#include "kernels/device/isa.h"
#include "model/checks/cache_testing.h"
#include "model/model_plan.h"

namespace sluice::expanded_attention_test {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

std::string checkpoint(const std::string& kind) {
  return test_data_dir() + "/oracles/" + kind;
}

EngineSetup expanded(const std::string& profile, int from, int prefix_chunk = 0) {
  EngineSetup options;
  options.numerics.profile = profile;
  options.numerics.mla_prefill = MlaPrefill::kExpanded;
  options.testing.mla_expand_from = from;
  options.numerics.attn_prefill_chunk_size = prefix_chunk;
  return options;
}

std::vector<TokenId> some_tokens(int count) {
  std::vector<TokenId> ids;
  for (int i = 0; i < count; ++i) ids.push_back(static_cast<TokenId>((i * i + 3 * i + 5) % 512));
  return ids;
}

struct Loaded {
  ThreadPool pool{2};
  Exec exec{&pool, select_kernels("auto").value()};
  std::unique_ptr<Model> model;

  Loaded(const std::string& kind, const EngineSetup& options) {
    auto loaded = load_model(exec, checkpoint(kind), options, {}, nullptr);
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    model = std::move(loaded).value();
  }
  // The logits of the last row, after spans that end at `ends`.
  std::vector<float> last_logits(std::span<const TokenId> ids, std::vector<int> ends) {
    TestSequence sequence(model->cache_layout(), static_cast<int>(ids.size()));
    std::vector<float> logits;
    for (const int end : ends) {
      const auto begin = static_cast<std::size_t>(sequence.position());
      const int last = end - sequence.position() - 1;
      logits = sequence.run(*model, exec, ids.subspan(begin, static_cast<std::size_t>(end) - begin), {&last, 1});
    }
    return logits;
  }
};

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::fabs(double{a[i]} - double{b[i]}));
  return worst;
}

TEST(ExpandedPrefill, IsCloseToAbsorbedHoweverThePromptIsCut) {
  const auto ids = some_tokens(300);
  for (const char* kind : {"v2-like", "v2-lite-like", "v3-like"}) {
    SCOPED_TRACE(kind);
    EngineSetup absorbed;
    absorbed.numerics.profile = "plain";
    const auto expected = Loaded(kind, absorbed).last_logits(ids, {300});
    Loaded other(kind, expanded("plain", 40, 33));
    for (const std::vector<int>& ends : std::vector<std::vector<int>>{
             {300}, {100, 200, 300}, {128, 300}, {1, 2, 3, 300}, {150, 151, 190, 200, 260, 300}, {299, 300}}) {
      EXPECT_LT(distance(other.last_logits(ids, ends), expected), 3e-5) << ::testing::PrintToString(ends);
    }
  }
}

// The default profile rounds latents to bf16, which both forms read back: what is left is the order of sums, which can
// move a latent to the next bf16, and a random model makes much of that (docs/dev/numerics.md). Rounded inputs of
// linears would add to both sides what this is not about.
TEST(ExpandedPrefill, DefaultIsAsCloseAsItsCachesAllow) {
  const auto ids = some_tokens(300);
  for (const char* kind : {"v2-like", "v2-lite-like", "v3-like"}) {
    const auto plain = Loaded(kind,
                              [] {
                                EngineSetup options;
                                options.numerics.profile = "plain";
                                return options;
                              }())
                           .last_logits(ids, {300});
    const auto f32 = [](EngineSetup options) {
      options.numerics.compute_dtype = "f32";
      return options;
    };
    const auto absorbed = Loaded(kind, f32(EngineSetup{})).last_logits(ids, {150, 300});
    const auto found = Loaded(kind, f32(expanded("default", 40, 64))).last_logits(ids, {150, 300});
    EXPECT_LE(distance(found, absorbed), 0.03 * distance(absorbed, plain)) << kind;
  }
}

TEST(ExpandedPrefill, ShortSpansAreAbsorbedBitForBit) {
  const auto ids = some_tokens(90);
  for (const char* profile : {"plain", "default"}) {
    EngineSetup absorbed;
    absorbed.numerics.profile = profile;
    const auto expected = Loaded("v2-lite-like", absorbed).last_logits(ids, {30, 89, 90});
    EXPECT_EQ(Loaded("v2-lite-like", expanded(profile, 60)).last_logits(ids, {30, 89, 90}), expected) << profile;
    EXPECT_NE(Loaded("v2-lite-like", expanded(profile, 59)).last_logits(ids, {30, 89, 90}), expected) << profile;
  }
}

// Spans of every kind in one batch: each gives what it gives alone.
TEST(ExpandedPrefill, SpansOfABatchAreApart) {
  Loaded loaded("v3-like", expanded("plain", 16, 20));
  const auto ids = some_tokens(128);
  TestPages pages(loaded.model->cache_layout(), 16, 5);
  const int cut[][2] = {{40, 1}, {0, 30}, {0, 3}, {7, 2}, {64, 64}, {100, 16}};  // tokens before, rows
  std::vector<std::vector<LatentPage>> tables;
  const TableShape shape = loaded.model->cache_layout().table_shape();
  StepBuilder batch(shape);
  std::vector<float> expected;
  const auto logits_of = [&](const StepTables& step) {
    std::vector<float> logits(step.logit_rows.size() * static_cast<std::size_t>(loaded.model->config().vocab_size));
    prepare_for(*loaded.model, step.rows());
    loaded.model->forward(loaded.exec, step, pages.view(), logits.data(), nullptr);
    return logits;
  };
  tables.reserve(std::size(cut));
  for (const auto& [before, rows] : cut) {
    auto& table = tables.emplace_back(1, pages.take_latent());
    const auto own = std::span(ids).subspan(static_cast<std::size_t>(before), static_cast<std::size_t>(rows));
    std::vector<int> wanted;
    for (int i = 0; i < rows; ++i) wanted.push_back(i);
    StepBuilder alone(shape);
    if (before > 0) {
      alone.add({.rows = before, .latent_pages = table}, std::span(ids).first(static_cast<std::size_t>(before)), {});
      logits_of(alone.finish());
      alone.begin();
    }
    const BatchSpan span{.rows = rows, .first_position = before, .latent_pages = table};
    alone.add(span, own, wanted);
    batch.add(span, own, wanted);
    const auto logits = logits_of(alone.finish());
    expected.insert(expected.end(), logits.begin(), logits.end());
  }
  EXPECT_EQ(logits_of(batch.finish()), expected);
}

TEST(ExpandedPrefill, IsAProfileOfItsOwn) {
  const Loaded absorbed("v3-like", EngineSetup{}), other("v3-like", expanded("default", 128)),
      smaller("v3-like", expanded("default", 128, 512));
  EXPECT_EQ(absorbed.model->profile().text(), "default int8 kv=bf16");
  EXPECT_EQ(other.model->profile().text(), "default int8 kv=bf16 mla=expanded(from 128, prefix by 1024)");
  EXPECT_THAT(smaller.model->profile().text(), EndsWith("prefix by 512)"));
}

TEST(ExpandedPrefill, OtherModelsRefuseWithTheReason) {
  ThreadPool pool(1);
  const Exec exec{&pool, select_kernels("auto").value()};
  for (const auto& [kind, reason] : {std::pair{"v32-like", "indexer chooses"},
                                     {"qwen3moe-like", "no latent attention"},
                                     {"v4-flash-like", "no latent attention"}}) {
    const auto loaded = load_model(exec, checkpoint(kind), expanded("default", 128), {}, nullptr);
    ASSERT_FALSE(loaded.ok()) << kind;
    EXPECT_EQ(loaded.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(loaded.status().message(), HasSubstr("--mla-prefill expanded"));
    EXPECT_THAT(loaded.status().message(), HasSubstr(reason));
  }
}

TEST(ExpandedPrefill, ChunksAreChecked) {
  const auto message = [](MlaPrefill prefill, int chunk) {
    EngineSetup options;
    options.numerics.mla_prefill = prefill;
    options.numerics.attn_prefill_chunk_size = chunk;
    return plan_model(load_model_config(checkpoint("v3-like")).value(), options).status().message();
  };
  EXPECT_EQ(message(MlaPrefill::kExpanded, 0), "");
  EXPECT_EQ(message(MlaPrefill::kExpanded, 1), "");
  EXPECT_THAT(message(MlaPrefill::kExpanded, -1),
              HasSubstr("--attn-prefill-chunk-size: expected 0 to 1048576, found -1"));
  EXPECT_THAT(message(MlaPrefill::kExpanded, (1 << 20) + 1), HasSubstr("found 1048577"));
  EXPECT_THAT(message(MlaPrefill::kAbsorbed, 64),
              HasSubstr("--attn-prefill-chunk-size 64: cuts the prefix that --mla-prefill"));
}

}  // namespace
}  // namespace sluice::expanded_attention_test
