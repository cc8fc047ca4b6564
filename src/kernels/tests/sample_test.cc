#include "kernels/ops/sample.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "base/sanitizer_testing.h"
#include "base/test_seed_testing.h"
#include "kernels/common/sample_noise.h"
#include "kernels/ref/kernels.h"
#include "kernels/tests/op_testing.h"

namespace sluice::sample_test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// A row of logits with its parameters, and the arrays that they point to.
struct Row {
  std::vector<float> logits, bias;
  std::vector<std::uint32_t> allowed;
  SampleRow params;
};

std::vector<SampledRow> run(const Exec& exec, const std::vector<Row>& rows) {
  const auto vocab = static_cast<int>(rows[0].logits.size());
  std::vector<float> logits;
  std::vector<SampleRow> params;
  for (const Row& row : rows) {
    params.push_back(row.params);
    params.back().row = static_cast<int>(params.size()) - 1;
    if (!row.bias.empty()) params.back().bias = row.bias.data();
    if (!row.allowed.empty()) params.back().allowed = row.allowed.data();
    logits.insert(logits.end(), row.logits.begin(), row.logits.end());
  }
  std::vector<SampledRow> out(rows.size());
  sample(exec, {static_cast<int>(rows.size()), vocab, logits.data(), params.data(), out.data()});
  return out;
}

SampledRow run_one(const Row& row) {
  ThreadPool pool(1);
  return run(Exec{&pool, &scalar_kernels()}, {row})[0];
}

SampledRow by_reference(const Row& row) {
  SampleRow params = row.params;
  params.row = 0;
  params.bias = row.bias.empty() ? nullptr : row.bias.data();
  params.allowed = row.allowed.empty() ? nullptr : row.allowed.data();
  SampledRow out;
  const FlushDenormals flush;
  ref::sample({1, static_cast<int>(row.logits.size()), row.logits.data(), &params, &out}, 0, 1);
  return out;
}

std::string text(const Row& row) {
  const SampleRow& p = row.params;
  return ::testing::PrintToString(std::vector<double>{
             static_cast<double>(row.logits.size()), static_cast<double>(p.temperature), static_cast<double>(p.top_k),
             static_cast<double>(p.top_p), static_cast<double>(p.min_p), static_cast<double>(p.top_logprobs),
             static_cast<double>(row.bias.size()), static_cast<double>(row.allowed.size()),
             static_cast<double>(p.processed), static_cast<double>(p.id_count)}) +
         " (vocabulary, temperature, top_k, top_p, min_p, top_logprobs, biases, words of allowed, processed, ids)";
}

void expect_same(const SampledRow& found, const SampledRow& expected, const Row& row) {
  ASSERT_EQ(found.status, expected.status) << text(row);
  if (expected.status != SampleStatus::kOk) return;
  ASSERT_EQ(found.token, expected.token) << text(row);
  if (row.params.top_logprobs < 0) return;
  ASSERT_EQ(found.top_count, expected.top_count) << text(row);
  ASSERT_EQ(found.top_ids, expected.top_ids) << text(row);
  ASSERT_TRUE(same_bits({&found.logprob, 1}, {&expected.logprob, 1})) << text(row);
  ASSERT_TRUE(same_bits(found.top_logprobs, expected.top_logprobs)) << text(row);
}

void set_allowed(Row& row, std::size_t id, bool allowed) {
  const std::uint32_t bit = 1U << (id % 32);
  row.allowed[id / 32] = allowed ? row.allowed[id / 32] | bit : row.allowed[id / 32] & ~bit;
}

// A row with some of everything: ties, -inf, denormals, far tails; now and then logits that are no distribution.
Row random_row(Random& random, std::size_t vocab) {
  Row row;
  const auto any = [&] { return static_cast<std::size_t>(random.between(0, static_cast<int>(vocab) - 1)); };
  const float scale = random.pick<float>({0.0F, 0.1F, 1, 4, 20, 1e-38F, 1e37F});
  for (std::size_t i = 0; i < vocab; ++i) row.logits.push_back(random.normal() * scale);
  for (std::size_t i = 0; i < vocab / 8; ++i) row.logits[any()] = row.logits[any()];
  for (std::size_t i = 0; i < vocab / 16; ++i) {
    row.logits[any()] = random.pick<float>({-kInf, 1e-40F, -1e-40F, 0.0F, -0.0F, 30.0F});
  }
  if (random.between(0, 49) == 0) row.logits[any()] = random.pick<float>({kInf, NAN, -NAN});
  if (random.between(0, 49) == 0) row.logits.assign(vocab, -kInf);
  SampleRow& p = row.params;
  p.temperature = random.pick<float>({0, 0.01F, 0.6F, 1, 1, 1, 3, 100, 1e38F, 1.2e-38F});
  p.top_k = random.pick<int>({-1, 0, 0, 1, 2, 5, 50, 300, random.between(1, static_cast<int>(vocab))});
  p.top_p = random.pick<float>({1, 1, 0.99999F, 0.9F, 0.5F, 0.25F, 1e-6F});
  p.min_p = random.pick<float>({0, 0, 1e-4F, 0.05F, 0.5F, 1});
  p.seed = static_cast<std::uint64_t>(random.between(0, 1 << 30)) << random.between(0, 34);
  p.position = random.between(0, 1 << 20);
  p.top_logprobs = random.pick<int>({-1, 0, 1, 5, 20});
  p.processed = random.between(0, 1) == 0;
  p.id_count = random.pick<int>({0, 0, 1, 3, kSampledIds});
  for (TokenId& id : p.ids) id = static_cast<TokenId>(any());
  if (random.between(0, 2) == 0) {
    for (std::size_t i = 0; i < vocab; ++i) row.bias.push_back(random.pick<float>({0, 0, 1, -100, 5, -kInf}));
  }
  if (random.between(0, 2) == 0) {
    row.allowed.resize((vocab + 31) / 32);
    const int share = random.pick<int>({0, 1, 3, 9, 10});
    for (std::size_t i = 0; i < vocab; ++i) set_allowed(row, i, random.between(1, 10) <= share);
    if (random.between(0, 1) == 0) set_allowed(row, any(), true);
  }
  return row;
}

TEST(Sample, IsTheReferenceWithEveryTableThreadCountAndCompany) {
  Random random(81);
  int broken = 0, rounds = 0;
  for (const int vocab : {1, 2, 3, 15, 16, 17, 63, 64, 65, 200, 1000, 4099}) {
    for (int round = 0; round < random_cases(vocab < 1000 ? 60 : 12); ++round, ++rounds) {
      std::vector<Row> rows;
      std::vector<SampledRow> expected;
      for (int i = random.between(1, 9); i > 0; --i) {
        rows.push_back(random_row(random, static_cast<std::size_t>(vocab)));
        expected.push_back(by_reference(rows.back()));
        broken += expected.back().status != SampleStatus::kOk;
      }
      ThreadPool pool(1 + round % 4);
      for (const KernelTable* table : all_tables()) {
        const Exec exec{&pool, table};
        const std::vector<SampledRow> found = run(exec, rows);
        for (std::size_t i = 0; i < rows.size(); ++i) {
          expect_same(found[i], expected[i], rows[i]);
          expect_same(run(exec, {rows[i]})[0], expected[i], rows[i]);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
  EXPECT_GT(broken, 0);
  EXPECT_LT(broken, 3 * rounds);  // most rows were distributions
}

TEST(Sample, RowsMayDrawFromOneRowOfLogits) {
  Random random(82);
  ThreadPool pool(2);
  std::vector<float> logits(3 * 100);
  for (float& l : logits) l = random.normal();
  std::vector<SampleRow> params(20);
  for (std::size_t i = 0; i < params.size(); ++i) params[i] = {.row = i % 2 == 0 ? 2 : 0, .seed = i, .position = 7};
  std::vector<SampledRow> out(params.size());
  sample(Exec{&pool, all_tables().back()}, {20, 100, logits.data(), params.data(), out.data()});
  std::set<TokenId> tokens;
  for (std::size_t i = 0; i < params.size(); ++i) {
    Row row;
    const auto begin = logits.begin() + params[i].row * 100;
    row.logits.assign(begin, begin + 100);
    row.params = params[i];
    EXPECT_EQ(out[i].token, by_reference(row).token);
    tokens.insert(out[i].token);
  }
  EXPECT_GT(tokens.size(), 2U);
}

TEST(SampleNoise, IsTheFormulaAndBounded) {
  const auto check = [](std::uint32_t word) {
    const double u = (static_cast<double>(word) + 0.5) * 0x1p-32;
    const float g = gumbel_noise(word);
    ASSERT_NEAR(g, -std::log(-std::log1p(-u)), 3e-6) << word;
    ASSERT_LE(g, kMaxNoise) << word;
    ASSERT_GE(g, kMinNoise) << word;
    ASSERT_GE(noise_bound(word), g) << word;
    if (word >= 4096 && word < 1U << 26) {
      ASSERT_LE(noise_bound(word), g + 0.07F) << word;
    }
  };
  for (std::uint64_t word = 0; word <= 0xFFFFFFFF; word += 65521) check(static_cast<std::uint32_t>(word));
  for (int bit = 0; bit < 32; ++bit) {
    for (std::uint32_t near = 0; near < 300; ++near) {
      check((1U << bit) + near);
      check((1U << bit) - 1 - near);
      check(~((1U << bit) + near));
    }
  }
  EXPECT_GT(gumbel_noise(0), 22.87F);
  EXPECT_GT(gumbel_noise(0), gumbel_noise(1) + 1);  // the next value is a step of u away
}

TEST(SampleNoise, DependsOnSeedPositionAndEveryId) {
  std::set<std::uint32_t> words;
  for (const std::uint64_t seed : {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{1} << 32}) {
    for (const Position position : {0, 1, 1 << 20}) {
      for (TokenId id = 0; id < 64; ++id) words.insert(noise_word(seed, position, id));
    }
  }
  EXPECT_EQ(words.size(), 3U * 3U * 64U);
}

TEST(Sample, WhatIsNoDistributionHasAStatus) {
  const auto status = [](std::vector<float> logits, std::vector<float> bias = {},
                         std::vector<std::uint32_t> allowed = {}) {
    Row row{std::move(logits), std::move(bias), std::move(allowed), {}};
    return run_one(row).status;
  };
  EXPECT_EQ(status({1, 2}), SampleStatus::kOk);
  EXPECT_EQ(status({1, NAN, 2}), SampleStatus::kNotNumbers);
  EXPECT_EQ(status({NAN}), SampleStatus::kNotNumbers);
  EXPECT_EQ(status({1, kInf}), SampleStatus::kNotNumbers);
  EXPECT_EQ(status({1, NAN}, {}, {1}), SampleStatus::kNotNumbers);  // also for an id that is not allowed
  EXPECT_EQ(status({1, 3e38F}, {0, 3e38F}), SampleStatus::kNotNumbers);
  EXPECT_EQ(status({-kInf, -kInf}), SampleStatus::kNoCandidate);
  EXPECT_EQ(status({1, -kInf}, {}, {2}), SampleStatus::kNoCandidate);
  EXPECT_EQ(status({1, 2}, {}, {0}), SampleStatus::kNoCandidate);
  EXPECT_EQ(status({1, 2}, {-kInf, -kInf}), SampleStatus::kNoCandidate);
}

TEST(Sample, LogprobsAreOfTheRawLogits) {
  Row row{{1, 3, -kInf, 3, 2}, {5, 0, 0, -kInf, 0}, {0x1F}, {}};
  row.params.temperature = 0.5F, row.params.top_k = 1, row.params.top_logprobs = 20;
  const SampledRow s = run_one(row);
  const double log_sum = std::log(std::exp(1.0) + 2 * std::exp(3.0) + std::exp(2.0));
  EXPECT_EQ(s.token, 0);  // because of its bias
  EXPECT_NEAR(s.logprob, 1 - log_sum, 1e-6);
  ASSERT_EQ(s.top_count, 5);
  EXPECT_THAT(std::vector<TokenId>(s.top_ids.begin(), s.top_ids.begin() + 5), ::testing::ElementsAre(1, 3, 4, 0, 2));
  EXPECT_NEAR(s.top_logprobs[2], 2 - log_sum, 1e-6);
  EXPECT_EQ(s.top_logprobs[4], -kInf);
}

// Tokens are drawn with these probabilities, over the candidates that the filters keep, with biases and temperature.
TEST(Sample, ProcessedLogprobsAreThoseOfTheDraw) {
  Row row{{1, 3, -kInf, 3, 2}, {5, 0, 0, -kInf, 0}, {0x17}, {}};  // candidates: 6, 3, -inf, not allowed, 2
  row.params.processed = true;
  row.params.temperature = 2, row.params.top_logprobs = 20, row.params.min_p = 0.15F;  // exp(-2) < 0.15 < exp(-1.5)
  row.params.id_count = 3, row.params.ids = {4, 3, 1};
  const SampledRow s = run_one(row);
  const double log_sum = std::log(1 + std::exp(-1.5));
  ASSERT_EQ(s.top_count, 5);
  EXPECT_THAT(std::vector<TokenId>(s.top_ids.begin(), s.top_ids.begin() + 5), ::testing::ElementsAre(0, 1, 4, 3, 1));
  EXPECT_NEAR(s.top_logprobs[0], -log_sum, 1e-6);
  EXPECT_NEAR(s.top_logprobs[1], -1.5 - log_sum, 1e-6);
  EXPECT_EQ(s.top_logprobs[2], -kInf);
  EXPECT_EQ(s.top_logprobs[3], -kInf);
  EXPECT_EQ(s.top_logprobs[4], s.top_logprobs[1]);
  EXPECT_EQ(s.logprob, s.top_logprobs[s.token == 0 ? 0 : 1]);
  row.params.temperature = 0;  // as at temperature 1 without filters
  const SampledRow greedy = run_one(row);
  const double all = std::log(1 + std::exp(-3.0) + std::exp(-4.0));
  ASSERT_EQ(greedy.top_count, 6);
  EXPECT_NEAR(greedy.logprob, -all, 1e-6);
  EXPECT_NEAR(greedy.top_logprobs[2], -4 - all, 1e-6);
  EXPECT_EQ(greedy.top_logprobs[3], greedy.top_logprobs[2]);  // id 4, which was asked for
  EXPECT_EQ(greedy.top_logprobs[4], -kInf);
}

TEST(Sample, IdsGetTheirRawLogprobs) {
  Row row{{1, 3, -kInf, 3, 2}, {}, {}, {}};
  row.params.temperature = 0, row.params.top_logprobs = 1, row.params.id_count = 2, row.params.ids = {4, 2};
  const SampledRow s = run_one(row);
  ASSERT_EQ(s.top_count, 3);
  EXPECT_THAT(std::vector<TokenId>(s.top_ids.begin(), s.top_ids.begin() + 3), ::testing::ElementsAre(1, 4, 2));
  EXPECT_NEAR(s.top_logprobs[1], s.logprob - 1, 1e-6);
  EXPECT_EQ(s.top_logprobs[2], -kInf);
}

}  // namespace
}  // namespace sluice::sample_test
