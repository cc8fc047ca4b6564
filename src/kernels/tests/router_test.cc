#include "kernels/ops/router.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "kernels/tests/op_testing.h"

namespace sluice::router_test {
namespace {

struct Routed {
  std::vector<std::int32_t> ids;
  std::vector<float> weights;
};

struct Router {
  int experts, slots;
  std::vector<float> bias;
  std::vector<std::int32_t> hash_ids = {};  // [tokens, slots]
  RouterScore score = RouterScore::kSqrtSoftplus;
  bool normalised = true;
  int groups = 1, kept_groups = 1;
  GroupScore group_score = GroupScore::kLargest;
  std::vector<TokenId> tokens = {};  // the rows' tokens, with hash_ids

  Routed operator()(const Exec& exec, const std::vector<float>& logits, int first, int rows) const {
    Routed out;
    out.ids.resize(static_cast<std::size_t>(rows * slots));
    out.weights.resize(out.ids.size());
    RouteArgs args;
    args.rows = rows, args.experts = experts, args.slots = slots;
    std::vector<float> of_rows(logits.begin() + std::ptrdiff_t{first} * experts,
                               logits.begin() + std::ptrdiff_t{first + rows} * experts);
    args.logits = of_rows.data();
    if (!bias.empty()) args.bias = bias.data();
    if (!hash_ids.empty()) args.hash_ids = hash_ids.data(), args.tokens = tokens.data() + first;
    args.scaling = 1.5F;
    args.ids = out.ids.data(), args.weights = out.weights.data();
    args.score = score, args.normalised = normalised, args.sum_epsilon = 1e-20F;
    args.groups = groups, args.kept_groups = kept_groups, args.group_score = group_score;
    route(exec, args);
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
      SCOPED_TRACE(table->name);
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
    for (int i = 0; i < 100; ++i) {  // equal scores, saturated scores and scores that only a broken checkpoint gives
      logits[static_cast<std::size_t>(random.between(0, rows * experts - 1))] = -200.0F;
      logits[static_cast<std::size_t>(random.between(0, rows * experts - 1))] = 30.0F;
      logits[static_cast<std::size_t>(random.between(0, rows * experts - 1))] = std::numeric_limits<float>::infinity();
    }
    Router router{experts, slots, {}};
    expect_same(router, logits, rows);
    router.bias = random.floats(static_cast<std::size_t>(experts));
    expect_same(router, logits, rows);
    for (int i = 0; i < 50 * slots; ++i) router.hash_ids.push_back(random.between(0, experts - 1));
    for (int i = 0; i < rows; ++i) router.tokens.push_back(random.between(0, 49));
    expect_same(router, logits, rows);
  }
}

TEST(Route, EveryScoreAndGroupingIsTheSameEverywhere) {
  Random random(43);
  struct Shape {
    int experts, slots, groups, kept;
  };
  for (const Shape& shape : {Shape{64, 6, 1, 1},
                             {160, 6, 8, 3},
                             {16, 4, 4, 2},
                             {256, 8, 8, 4},
                             {18, 5, 6, 2},
                             {60, 4, 1, 1},
                             {33, 33, 3, 3}}) {
    for (const RouterScore score : {RouterScore::kSqrtSoftplus, RouterScore::kSigmoid, RouterScore::kSoftmax}) {
      SCOPED_TRACE(::testing::Message() << shape.experts << " experts, score " << static_cast<int>(score));
      const int rows = 120;
      auto logits = random.floats(static_cast<std::size_t>(rows * shape.experts), 4.0F);
      for (int i = 0; i < 60; ++i) {
        for (const float hard :
             {-200.0F, 100.0F, std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
          logits[static_cast<std::size_t>(random.between(0, rows * shape.experts / 2))] = hard;
        }
      }
      Router router{shape.experts, shape.slots, {}, {}, score, true, shape.groups, shape.kept};
      expect_same(router, logits, rows);
      router.bias = random.floats(static_cast<std::size_t>(shape.experts));
      router.normalised = false;
      router.group_score = GroupScore::kTwoLargest;
      expect_same(router, logits, rows);
    }
  }
}

// The formula in f64, with -inf for experts that are left out, over random scores without ties.
TEST(Route, KeepsTheBestGroupsWhateverTheSigns) {
  Random random = Random::fixed(44);
  ThreadPool pool(1);
  const int experts = 32, slots = 5, groups = 8, kept = 3, size = experts / groups;
  for (int round = 0; round < 300; ++round) {
    const bool two = round % 2 == 0;
    const auto logits = random.floats(experts, 3.0F);
    auto bias = random.floats(experts, 0.5F);
    if (round % 3 == 0) {
      for (float& value : bias) value -= 20.0F;  // every biased score is below 0: a filler of 0 would win
    }
    const Router router{experts,
                        slots,
                        bias,
                        {},
                        RouterScore::kSigmoid,
                        round % 5 != 0,
                        groups,
                        kept,
                        two ? GroupScore::kTwoLargest : GroupScore::kLargest};
    std::vector<double> scores, biased;
    for (std::size_t e = 0; e < experts; ++e) {
      scores.push_back(1.0 / (1.0 + std::exp(-static_cast<double>(logits[e]))));
      biased.push_back(static_cast<double>(static_cast<float>(scores[e]) + bias[e]));
    }
    std::vector<std::pair<double, int>> ranked;
    for (int g = 0; g < groups; ++g) {
      std::vector<double> members(biased.begin() + g * size, biased.begin() + (g + 1) * size);
      std::sort(members.rbegin(), members.rend());
      ranked.emplace_back(two ? members[0] + members[1] : members[0], g);
    }
    std::sort(ranked.rbegin(), ranked.rend());
    std::vector<int> order;
    for (int g = 0; g < kept; ++g) {
      for (int e = 0; e < size; ++e) order.push_back(ranked[static_cast<std::size_t>(g)].second * size + e);
    }
    std::sort(order.begin(), order.end(),
              [&](int a, int b) { return biased[static_cast<std::size_t>(a)] > biased[static_cast<std::size_t>(b)]; });
    double sum = 0.0;
    for (int s = 0; s < slots; ++s) sum += scores[static_cast<std::size_t>(order[static_cast<std::size_t>(s)])];
    for (const KernelTable* table : all_tables()) {
      const Routed found = router(Exec{&pool, table}, logits, 0, 1);
      for (std::size_t s = 0; s < slots; ++s) {
        ASSERT_EQ(found.ids[s], order[s]) << "round " << round;
        const double expected = scores[static_cast<std::size_t>(order[s])];
        EXPECT_NEAR(found.weights[s], (router.normalised ? expected / sum : expected) * 1.5, 5e-7);
      }
    }
  }
}

TEST(Route, SoftmaxIsOverAllExperts) {
  Random random = Random::fixed(45);
  ThreadPool pool(1);
  const int experts = 20, slots = 4;
  const auto logits = random.floats(experts, 2.0F);
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  for (const KernelTable* table : all_tables()) {
    const Routed found = Router{experts, slots, {}, {}, RouterScore::kSoftmax, false}(Exec{&pool, table}, logits, 0, 1);
    for (std::size_t s = 0; s < slots; ++s) {
      const double p = std::exp(static_cast<double>(logits[static_cast<std::size_t>(found.ids[s])])) / sum;
      EXPECT_NEAR(found.weights[s], p * 1.5, 2e-8 + 2e-7 * p);
    }
  }
}

TEST(Route, EqualGroupsGoToTheLowerOne) {
  ThreadPool pool(1);
  for (const KernelTable* table : all_tables()) {
    const Router router{16, 4, {}, {}, RouterScore::kSigmoid, true, 4, 2, GroupScore::kTwoLargest};
    EXPECT_TRUE(same_values(router(Exec{&pool, table}, std::vector<float>(16, 1.0F), 0, 1).ids,
                            std::vector<std::int32_t>{0, 1, 2, 3}));
    std::vector<float> logits(16, 1.0F);
    logits[4] = logits[5] = 2.0F;  // group 1 is best, then group 0 of equals
    EXPECT_TRUE(same_values(router(Exec{&pool, table}, logits, 0, 1).ids, std::vector<std::int32_t>{4, 5, 0, 1}));
  }
}

TEST(Route, TakesTheBestBiasedScoresAndWeighsByTheUnbiasedOnes) {
  Random random = Random::fixed(42);
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
      EXPECT_NEAR(found.weights[s], score(logits[static_cast<std::size_t>(order[s])]) / sum * 1.5, 2.5e-7);
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
}  // namespace sluice::router_test
