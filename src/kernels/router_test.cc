#include "kernels/router.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "kernels/op_testing.h"

namespace sluice {
namespace {

struct Routed {
  std::vector<std::int32_t> ids;
  std::vector<float> weights;
};

struct Router {
  int experts, slots;
  std::vector<float> bias;
  std::vector<std::int32_t> given;

  Routed operator()(const Exec& exec, const std::vector<float>& logits, int first, int rows) const {
    Routed out;
    out.ids.resize(static_cast<std::size_t>(rows * slots));
    out.weights.resize(out.ids.size());
    route(exec, {rows, experts, slots, logits.data() + first * experts, bias.empty() ? nullptr : bias.data(),
                 given.empty() ? nullptr : given.data() + first * slots, 1.5F, out.ids.data(), out.weights.data()});
    return out;
  }
};

double score(float logit) {
  const double z = static_cast<double>(logit);
  return std::sqrt(z > 20.0 ? z : std::log1p(std::exp(z)));
}

// Compares every table, thread count and row alone with the scalar result for all rows.
void expect_same(const Router& router, const std::vector<float>& logits, int rows) {
  ThreadPool one(1);
  const Routed expected = router(Exec{&one, &scalar_kernels()}, logits, 0, rows);
  const auto compare = [&](const Routed& found, int first, int count) {
    const std::size_t at = static_cast<std::size_t>(first * router.slots),
                      n = static_cast<std::size_t>(count * router.slots);
    EXPECT_TRUE(same_values(found.ids, std::span(expected.ids).subspan(at, n)));
    EXPECT_TRUE(same_bits(found.weights, std::span(expected.weights).subspan(at, n)));
  };
  for (int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    for (const KernelTable* table : all_tables()) {
      SCOPED_TRACE(table->isa);
      compare(router(Exec{&pool, table}, logits, 0, rows), 0, rows);
      compare(router(Exec{&pool, table}, logits, rows / 2, 1), rows / 2, 1);
      compare(router(Exec{&pool, table}, logits, rows - 1, 1), rows - 1, 1);
    }
  }
}

TEST(Route, SameBitsEverywhere) {
  Random random(41);
  for (const auto& [experts, slots] : std::vector<std::pair<int, int>>{{16, 4}, {5, 2}, {17, 17}, {256, 6}, {384, 8}}) {
    SCOPED_TRACE(::testing::Message() << experts << " experts, " << slots << " slots");
    const int rows = 300;
    auto logits = random.floats(static_cast<std::size_t>(rows * experts), 4.0F);
    for (int i = 0; i < 100; ++i) {  // equal scores, saturated scores and what only a broken checkpoint gives
      logits[static_cast<std::size_t>(random.between(0, rows * experts - 1))] = -200.0F;
      logits[static_cast<std::size_t>(random.between(0, rows * experts - 1))] = 30.0F;
      logits[static_cast<std::size_t>(random.between(0, rows * experts - 1))] = std::numeric_limits<float>::infinity();
    }
    Router router{experts, slots, {}, {}};
    expect_same(router, logits, rows);
    router.bias = random.floats(static_cast<std::size_t>(experts));
    expect_same(router, logits, rows);
    for (int i = 0; i < rows * slots; ++i) router.given.push_back(random.between(0, experts - 1));
    expect_same(router, logits, rows);
  }
}

TEST(Route, TakesTheBestBiasedScoresAndWeighsByTheUnbiasedOnes) {
  Random random(42);
  const int experts = 16, slots = 4;
  for (int round = 0; round < 100; ++round) {
    const auto logits = random.floats(experts, 3.0F), bias = random.floats(experts, 0.5F);
    ThreadPool pool(1);
    const Routed found = Router{experts, slots, bias, {}}(Exec{&pool, all_tables().back()}, logits, 0, 1);
    std::vector<int> order(experts);
    for (int e = 0; e < experts; ++e) order[static_cast<std::size_t>(e)] = e;
    const auto biased = [&](int e) {
      return score(logits[static_cast<std::size_t>(e)]) + static_cast<double>(bias[static_cast<std::size_t>(e)]);
    };
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return biased(a) > biased(b); });
    double sum = 0.0;
    for (std::size_t s = 0; s < slots; ++s) {
      EXPECT_EQ(found.ids[s], order[s]);
      sum += score(logits[static_cast<std::size_t>(order[s])]);
    }
    for (std::size_t s = 0; s < slots; ++s) {
      EXPECT_NEAR(found.weights[s], score(logits[static_cast<std::size_t>(order[s])]) / sum * 1.5, 1e-5);
    }
  }
}

TEST(Route, TiesGoToTheLowerIdAndNaNsStillGiveDistinctExperts) {
  ThreadPool pool(1);
  for (const KernelTable* table : all_tables()) {
    const Router router{16, 4, {}, {}};
    EXPECT_TRUE(same_values(router(Exec{&pool, table}, std::vector<float>(16, 1.0F), 0, 1).ids,
                            std::vector<std::int32_t>{0, 1, 2, 3}));
    const Routed broken =
        router(Exec{&pool, table}, std::vector<float>(16, std::numeric_limits<float>::quiet_NaN()), 0, 1);
    EXPECT_EQ(std::set<std::int32_t>(broken.ids.begin(), broken.ids.end()).size(), 4U);
    for (std::int32_t id : broken.ids) {
      EXPECT_GE(id, 0);
      EXPECT_LT(id, 16);
    }
  }
}

}  // namespace
}  // namespace sluice
