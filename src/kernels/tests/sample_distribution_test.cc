// The frequencies of drawn tokens against the exact probabilities, and how often two rows with the same noise agree.
// Seeds are fresh; bounds are so wide that chance does not reach them (seven standard deviations).
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/sanitizer_testing.h"
#include "base/test_seed_testing.h"
#include "kernels/ops/sample.h"
#include "kernels/tests/op_testing.h"

namespace sluice::sample_distribution_test {
namespace {

constexpr double kDeviations = 7;

// Logits nearer than this part to the value at which a filter cuts are drawn again: there, f32 weights may decide about
// a token otherwise than f64 does. It happens in one run of some ten thousand.
constexpr double kClear = 1e-5;

struct Exact {
  std::vector<double> p;
  bool is_clear = true;
};

// The exact result by the header, in f64, with libm and sums in list order.
Exact exact(const std::vector<float>& logits, const SampleRow& row) {
  Exact result;
  const auto compare = [&](double a, double b) { result.is_clear &= std::fabs(a - b) > kClear * std::fabs(b); };
  std::vector<std::size_t> list(logits.size());
  std::iota(list.begin(), list.end(), std::size_t{0});
  std::vector<double> a(logits.begin(), logits.end());
  for (const std::size_t i : list) {
    if (row.bias != nullptr) a[i] += static_cast<double>(row.bias[i]);
    if (row.allowed != nullptr && (row.allowed[i / 32] >> (i % 32) & 1) == 0) a[i] = -INFINITY;
  }
  std::stable_sort(list.begin(), list.end(), [&](std::size_t i, std::size_t j) { return a[i] > a[j]; });
  std::vector<double> w(a.size());
  for (const std::size_t i : list) w[i] = std::exp((a[i] - a[list[0]]) / static_cast<double>(row.temperature));
  const auto sum = [&] {
    double total = 0;
    for (const std::size_t i : list) total += w[i];
    return total;
  };
  if (const auto k = static_cast<std::size_t>(row.top_k); row.top_k > 0 && k < list.size()) {
    compare(w[list[k]], w[list[k - 1]]);
    list.resize(k);
  }
  if (row.top_p < 1) {
    const double enough = static_cast<double>(row.top_p) * sum();
    double head = 0;
    std::size_t count = 0;
    while (head < enough * (1 - 1e-12)) {
      compare(head, enough);
      head += w[list[count++]];
    }
    compare(head, enough);
    list.resize(count);
  }
  for (const std::size_t i : list) {
    if (row.min_p > 0) compare(w[i], static_cast<double>(row.min_p));
  }
  std::erase_if(list, [&](std::size_t i) { return w[i] < static_cast<double>(row.min_p); });
  result.p.resize(a.size());
  const double all = sum();
  for (const std::size_t i : list) result.p[i] = w[i] / all;
  return result;
}

// Draws of one row of logits with as many seeds, or at as many positions, as there are draws.
std::vector<TokenId> draw(const std::vector<float>& logits, const SampleRow& row, int draws, std::uint64_t seed) {
  std::vector<SampleRow> params(static_cast<std::size_t>(draws), row);
  for (std::size_t i = 0; i < params.size(); ++i) {
    const bool by_position = i % 2 == 0;
    params[i].seed = by_position ? seed : seed + 1 + i;
    params[i].position = by_position ? static_cast<Position>(i) : 9;
  }
  std::vector<SampledRow> out(params.size());
  ThreadPool pool(2);
  const Exec exec{&pool, all_tables().back()};
  sample(exec, {draws, static_cast<int>(logits.size()), logits.data(), params.data(), out.data()});
  std::vector<TokenId> tokens;
  for (const SampledRow& s : out) tokens.push_back(s.token);
  return tokens;
}

// The value that chi-squared with `freedom` degrees of freedom exceeds as rarely as a normal value exceeds
// kDeviations (Wilson, Hilferty).
double chi_squared_bound(double freedom) {
  const double s = 2 / (9 * freedom);
  return freedom * std::pow(1 - s + kDeviations * std::sqrt(s), 3);
}

void expect_frequencies(const std::vector<float>& logits, const SampleRow& row, std::uint64_t seed) {
  constexpr int kDraws = random_cases(60000);
  constexpr double kSmallest = kSanitized ? 60 : 200;  // tokens expected less often are counted together
  const std::vector<double> p = exact(logits, row).p;
  std::vector<double> found(p.size());
  for (const TokenId token : draw(logits, row, kDraws, seed)) found[static_cast<std::size_t>(token)] += 1;
  double chi_squared = 0, rest_found = 0, rest_expected = 0;
  int cells = 0;
  const auto add = [&](double count, double expected) {
    chi_squared += (count - expected) * (count - expected) / expected;
    ++cells;
  };
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double expected = p[i] * kDraws;
    if (expected == 0) {
      ASSERT_EQ(found[i], 0) << "id " << i << " should have been left out";
    } else if (expected >= kSmallest) {
      add(found[i], expected);
    } else {
      rest_found += found[i];
      rest_expected += expected;
    }
  }
  if (rest_expected >= kSmallest) add(rest_found, rest_expected);
  ASSERT_GE(cells, 2);
  EXPECT_LT(chi_squared, chi_squared_bound(cells - 1))
      << cells << " cells, temperature " << row.temperature << " top_k " << row.top_k << " top_p " << row.top_p
      << " min_p " << row.min_p << (row.bias != nullptr ? " bias" : "") << (row.allowed != nullptr ? " allowed" : "");
}

TEST(SampleDistribution, FrequenciesAreTheProbabilities) {
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> logits(150);
  std::vector<float> bias(logits.size());
  for (std::size_t i = 0; i < 10; ++i) bias[i] = 2;
  std::vector<std::uint32_t> allowed(5, 0x5A5A5A5A);
  allowed[0] |= 1U << 3;
  const SampleRow rows[] = {
      {},
      {.temperature = 0.5F},
      {.temperature = 2},
      {.top_k = 4},
      {.top_k = 40},
      {.top_p = 0.6F},
      {.top_p = 0.95F},
      {.min_p = 0.05F},
      {.min_p = 0.5F},
      {.temperature = 1.5F, .top_k = 60, .top_p = 0.9F, .min_p = 0.01F},
      {.bias = bias.data()},
      {.allowed = allowed.data()},
      {.temperature = 1.3F, .top_k = 30, .top_p = 0.9F, .allowed = allowed.data(), .bias = bias.data()},
  };
  do {
    for (float& l : logits) l = std::min(normal(random) * 1.5F - 4, 0.0F);
    float likely = 0;  // above all others, and so near to each other that every filter keeps two
    for (const std::size_t i : {3, 130, 70, 4, 149}) logits[i] = likely += 0.15F;
  } while (!std::ranges::all_of(rows, [&](const SampleRow& row) { return exact(logits, row).is_clear; }));
  for (const SampleRow& row : rows) expect_frequencies(logits, row, random());
}

// If the sums that top_p compares are equal, the shortest head that reaches top_p is kept.
TEST(SampleDistribution, TopPKeepsTheShortestHeadThatReachesIt) {
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  const std::vector<float> logits(8, 1.0F);
  const auto seen = [&](SampleRow row) {
    std::vector<TokenId> tokens = draw(logits, row, 2000, seed);
    return *std::max_element(tokens.begin(), tokens.end());
  };
  EXPECT_EQ(seen({.top_p = 0.5F}), 3);
  EXPECT_EQ(seen({.top_p = 0.501F}), 4);
  EXPECT_EQ(seen({.top_p = 0.125F}), 0);
  EXPECT_EQ(seen({.top_p = 1e-9F}), 0);
  EXPECT_EQ(seen({.top_k = 4, .top_p = 0.5F}), 1);  // a part of the sum that top_k left
  EXPECT_EQ(seen({.top_k = 4, .top_p = 0.75F}), 2);
  EXPECT_EQ(seen({.top_k = 3}), 2);
}

TEST(SampleDistribution, RowsWithTheSameNoiseMostlyAgree) {
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  constexpr int kDraws = random_cases(20000);
  for (const float difference : {1e-6F, 0.05F, 0.3F, 1.0F}) {
    for (const SampleRow& row : {SampleRow{}, SampleRow{.temperature = 0.7F, .top_p = 0.95F}}) {
      std::vector<float> one(300), other(300);
      do {
        for (std::size_t i = 0; i < one.size(); ++i) {
          one[i] = normal(random) * 2;
          other[i] = one[i] + normal(random) * difference;
        }
      } while (!exact(one, row).is_clear || !exact(other, row).is_clear);
      const std::vector<double> p = exact(one, row).p, q = exact(other, row).p;
      double variation = 0;
      for (std::size_t i = 0; i < p.size(); ++i) variation += std::fabs(p[i] - q[i]) / 2;
      const std::uint64_t noise = random();
      const std::vector<TokenId> a = draw(one, row, kDraws, noise), b = draw(other, row, kDraws, noise);
      int equal = 0;
      for (std::size_t i = 0; i < a.size(); ++i) equal += a[i] == b[i];
      const double bound = (1 - variation) / (1 + variation);
      EXPECT_GE(equal, kDraws * bound - kDeviations * std::sqrt(kDraws * bound * (1 - bound)) - 10)
          << "variation " << variation;
    }
  }
}

}  // namespace
}  // namespace sluice::sample_distribution_test
