#include "kernels/ops/hyper_connection.h"

#include <algorithm>
#include <cmath>

#include "kernels/tests/op_testing.h"

namespace sluice::hyper_connection_test {
namespace {

// A site whose fn is a plain f32 matrix.
struct Site {
  std::vector<float> fn, base, scale;

  HyperConnectionWeights weights(const Exec& exec, int dim) const {
    WeightView view;
    view.out = static_cast<int>(base.size());
    view.in = kHcStreams * dim;
    view.data = reinterpret_cast<const std::byte*>(fn.data());
    const int first = std::min(view.out, 16);
    HyperConnectionWeights weights{{}, base.data(), scale.data()};
    weights.fn[0] = LinearWeight::make(slice_rows(view, 0, first), InputForm::kF32, packs_for(exec));
    if (first < view.out) {
      weights.fn[1] = LinearWeight::make(slice_rows(view, first, view.out - first), InputForm::kF32, packs_for(exec));
    }
    return weights;
  }
};

Site random_site(Random& random, int dim, bool head) {
  const std::size_t mixes = head ? 4 : 24;
  return {random.floats(mixes * 4 * static_cast<std::size_t>(dim), 0.1F), random.floats(mixes),
          random.floats(head ? 1 : 3)};
}

// pre, then post and comb, of every row.
std::vector<float> mixed(const Exec& exec, const Site& site, int dim, const float* x, int rows) {
  const HyperConnectionWeights weights = site.weights(exec, dim);
  const std::size_t n = static_cast<std::size_t>(rows);
  const bool head = site.base.size() == 4;
  std::vector<float> scratch(n * 24), pre(n * 4), post(n * 4), comb(n * 16);
  hc_mix(exec, {rows, dim, x, &weights, 1e-6F, 1e-6F, 20, scratch.data(), pre.data(), head ? nullptr : post.data(),
                head ? nullptr : comb.data()});
  const std::size_t width = head ? 4 : 24;
  std::vector<float> result(n * width);
  for (std::size_t t = 0; t < n; ++t) {
    std::copy_n(pre.data() + 4 * t, 4, result.data() + t * width);
    if (head) continue;
    std::copy_n(post.data() + 4 * t, 4, result.data() + t * width + 4);
    std::copy_n(comb.data() + 16 * t, 16, result.data() + t * width + 8);
  }
  return result;
}

TEST(HyperConnection, SplitsAsInThePublishedExample) {
  // z has root mean square 1, and fn picks m from it: only the split remains (docs/models/deepseek_v4.md §3).
  const int dim = 32;
  Site site{std::vector<float>(24 * 4 * dim, 0.0F), {}, {0.5F, 1.0F, 2.0F}};
  for (int i = 0; i < 24; ++i) {
    site.base.push_back(static_cast<float>((5 * i) % 7 - 3) / 8.0F);
    site.fn[static_cast<std::size_t>(i * 4 * dim + 3 * i)] = static_cast<float>((7 * i) % 11 - 5) / 4.0F;
  }
  const std::vector<float> x(4 * dim, 1.0F);
  const std::vector<float> found =
      expect_same_on_all([&](const Exec& exec) { return mixed(exec, site, dim, x.data(), 1); });
  const std::vector<double> expected{0.268942, 0.622460, 0.437824, 0.592668, 1.302710, 0.697290, 1.411570, 0.814667,
                                     0.126771, 0.552121, 0.194335, 0.126772, 0.281628, 0.005013, 0.431731, 0.281627,
                                     0.099675, 0.434109, 0.366539, 0.099676, 0.491926, 0.008756, 0.007394, 0.491924};
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1.6e-6) << i;
}

TEST(HyperConnection, MixIsTheSameEverywhereAndRowsAreIndependent) {
  Random random = Random::fixed(31);
  for (int dim : {16, 96, 100, 256}) {
    for (bool head : {false, true}) {
      const Site site = random_site(random, dim, head);
      const int rows = dim == 100 ? 10 : 11;  // four at a time, and two or three
      const std::size_t stride = 4 * static_cast<std::size_t>(dim), width = head ? 4 : 24;
      const std::vector<float> x = random.floats(static_cast<std::size_t>(rows) * stride);
      const auto all = expect_same_on_all([&](const Exec& exec) { return mixed(exec, site, dim, x.data(), rows); });
      ThreadPool pool(1);
      for (const KernelTable* table : all_tables()) {
        for (std::size_t t = 0; t < static_cast<std::size_t>(rows); ++t) {
          const auto alone = mixed(Exec{&pool, table}, site, dim, x.data() + t * stride, 1);
          EXPECT_TRUE(same_bits(alone, std::span(all).subspan(t * width, width))) << table->name << " row " << t;
        }
        for (int few = 2; few <= 8; ++few) {  // few rows may have another kernel
          const auto some = mixed(Exec{&pool, table}, site, dim, x.data(), few);
          EXPECT_TRUE(same_bits(some, std::span(all).first(some.size()))) << table->name << ", " << few << " rows";
        }
      }
      if (head) continue;
      for (std::size_t t = 0; t < static_cast<std::size_t>(rows); ++t) {  // columns sum to one: mass is kept
        for (std::size_t k = 0; k < 4; ++k) {
          float sum = 0.0F;
          for (std::size_t j = 0; j < 4; ++j) sum += all[t * width + 8 + 4 * j + k];
          EXPECT_NEAR(sum, 1.0F, 3.3e-6F);
        }
      }
    }
  }
}

TEST(HyperConnection, CollapseIsTheWeightedSumOfTheStreams) {
  Random random = Random::fixed(32);
  for (int dim : {7, 16, 256, 1000}) {
    const int rows = 29;
    const std::size_t n = static_cast<std::size_t>(rows * dim), width = static_cast<std::size_t>(dim);
    const auto x = random.floats(4 * n), pre = random.floats(4 * static_cast<std::size_t>(rows));
    const auto y = expect_same_on_all([&](const Exec& exec) {
      std::vector<float> out(n);
      hc_collapse(exec, {rows, dim, x.data(), pre.data(), out.data()});
      return out;
    });
    for (std::size_t t = 0; t < static_cast<std::size_t>(rows); ++t) {
      for (std::size_t d = 0; d < width; ++d) {
        double sum = 0.0;
        for (std::size_t j = 0; j < 4; ++j)
          sum += static_cast<double>(pre[4 * t + j]) * static_cast<double>(x[(4 * t + j) * width + d]);
        ASSERT_NEAR(y[t * width + d], sum, 4.9e-5);
      }
    }
  }
}

TEST(HyperConnection, ExpandSumsOverTheFirstIndexOfComb) {
  Random random = Random::fixed(33);
  for (int dim : {7, 16, 256}) {
    const int rows = 29;
    const std::size_t n = static_cast<std::size_t>(rows * dim), width = static_cast<std::size_t>(dim);
    const auto x = random.floats(4 * n), y = random.floats(n);
    const auto post = random.floats(4 * static_cast<std::size_t>(rows)),
               comb = random.floats(16 * static_cast<std::size_t>(rows));
    const auto found = expect_same_on_all([&](const Exec& exec) {
      std::vector<float> streams = x;
      hc_expand(exec, {rows, dim, y.data(), post.data(), comb.data(), streams.data()});
      return streams;
    });
    for (std::size_t t = 0; t < static_cast<std::size_t>(rows); ++t) {
      for (std::size_t k = 0; k < 4; ++k) {
        for (std::size_t d = 0; d < width; ++d) {
          double sum = static_cast<double>(post[4 * t + k]) * static_cast<double>(y[t * width + d]);
          for (std::size_t j = 0; j < 4; ++j) {
            sum += static_cast<double>(comb[16 * t + 4 * j + k]) * static_cast<double>(x[(4 * t + j) * width + d]);
          }
          ASSERT_NEAR(found[(4 * t + k) * width + d], sum, 8e-5);
        }
      }
    }
  }
}

}  // namespace
}  // namespace sluice::hyper_connection_test
