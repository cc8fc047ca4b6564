#include "kernels/ops/elementwise.h"

#include <bit>
#include <cmath>

#include "kernels/ops/rope_table.h"
#include "kernels/tests/op_testing.h"

namespace sluice::elementwise_test {
namespace {

// Runs `op` on all rows at once on every table, then on each row alone and on a middle piece, and expects the same
// bits. `op(exec, first, rows)` returns rows [first, first + rows) of the result, `width` values each.
void expect_rows_independent(int rows, std::size_t width,
                             const std::function<std::vector<float>(const Exec&, int, int)>& op) {
  const std::vector<float> all = expect_same_on_all([&](const Exec& exec) { return op(exec, 0, rows); });
  ThreadPool pool(2);
  for (const KernelTable* table : all_tables()) {
    for (const auto& [first, count] :
         std::vector<std::pair<int, int>>{{0, 1}, {rows / 2, 1}, {rows - 1, 1}, {rows / 3, rows / 2}}) {
      if (count == 0) continue;
      const std::span<const float> expected(all.data() + static_cast<std::size_t>(first) * width,
                                            static_cast<std::size_t>(count) * width);
      EXPECT_TRUE(same_bits(op(Exec{&pool, table}, first, count), expected))
          << table->name << " rows " << first << "+" << count;
    }
  }
}

TEST(RmsNorm, SameBitsEverywhereAndRowsAreIndependent) {
  Random random(21);
  for (int dim : {1, 15, 16, 17, 100, 128, 256, 1024, 1536}) {
    for (int rows : {1, 3, 8, 77}) {
      SCOPED_TRACE(::testing::Message() << dim << " x " << rows);
      const auto x = random.floats(static_cast<std::size_t>(dim * rows)),
                 weight = random.floats(static_cast<std::size_t>(dim));
      const bool weighted = rows != 3;
      expect_rows_independent(rows, static_cast<std::size_t>(dim), [&](const Exec& exec, int first, int count) {
        std::vector<float> y(x.begin() + first * dim, x.begin() + (first + count) * dim);  // in place
        rms_norm(exec, {count, dim, y.data(), dim, weighted ? weight.data() : nullptr, 1e-6F, y.data(), dim});
        return y;
      });
    }
  }
}

TEST(RmsNorm, IsTheFormula) {
  Random random = Random::fixed(22);
  const auto x = random.floats(300), weight = random.floats(300);
  double squares = 0.0;
  for (float value : x) squares += static_cast<double>(value) * static_cast<double>(value);
  const double r = 1.0 / std::sqrt(squares / 300.0 + 1e-6);
  const auto y = expect_same_on_all([&](const Exec& exec) {
    std::vector<float> out(300);
    rms_norm(exec, {1, 300, x.data(), 300, weight.data(), 1e-6F, out.data(), 300});
    return out;
  });
  for (std::size_t i = 0; i < 300; ++i)
    EXPECT_NEAR(y[i], static_cast<double>(x[i]) * r * static_cast<double>(weight[i]), 3.5e-6);
}

TEST(LayerNorm, SameBitsEverywhereAndRowsAreIndependent) {
  Random random(27);
  for (int dim : {1, 15, 16, 64, 100, 128, 1000}) {
    SCOPED_TRACE(dim);
    const auto x = random.floats(static_cast<std::size_t>(dim * 41)),
               weight = random.floats(static_cast<std::size_t>(dim)),
               bias = random.floats(static_cast<std::size_t>(dim));
    expect_rows_independent(41, static_cast<std::size_t>(dim), [&](const Exec& exec, int first, int count) {
      std::vector<float> y(x.begin() + first * dim, x.begin() + (first + count) * dim);  // in place
      layer_norm(exec, {count, dim, y.data(), dim, weight.data(), bias.data(), 1e-6F, y.data(), dim});
      return y;
    });
  }
}

TEST(LayerNorm, SubtractsTheMean) {
  Random random = Random::fixed(28);
  auto x = random.floats(300);
  for (float& value : x) value += 3.0F;
  const auto weight = random.floats(300), bias = random.floats(300);
  double mean = 0.0, variance = 0.0;
  for (float value : x) mean += static_cast<double>(value) / 300.0;
  for (float value : x) variance += (static_cast<double>(value) - mean) * (static_cast<double>(value) - mean) / 300.0;
  const auto y = expect_same_on_all([&](const Exec& exec) {
    std::vector<float> out(300);
    layer_norm(exec, {1, 300, x.data(), 300, weight.data(), bias.data(), 1e-6F, out.data(), 300});
    return out;
  });
  for (std::size_t i = 0; i < 300; ++i) {
    const double scaled = (static_cast<double>(x[i]) - mean) / std::sqrt(variance + 1e-6);
    EXPECT_NEAR(y[i], scaled * static_cast<double>(weight[i]) + static_cast<double>(bias[i]), 8e-6);
  }
}

struct HeadShape {
  int heads, dim, rope, offset;
  float eps;
  bool half_split = false;
};

std::vector<float> roped(const Exec& exec, const std::vector<float>& x, const std::vector<Position>& positions,
                         const HeadShape& shape, const RopeTable& table, bool inverse, int first, int count) {
  const std::ptrdiff_t width = shape.heads * shape.dim;
  std::vector<float> y(x.begin() + first * width, x.begin() + (first + count) * width);
  rope_heads(exec, {count, shape.heads, shape.dim, shape.rope, shape.offset, y.data(), width, positions.data() + first,
                    table.data(), inverse, shape.eps, shape.half_split});
  return y;
}

TEST(RopeHeads, SameBitsEverywhereAndRowsAreIndependent) {
  Random random(23);
  for (const HeadShape& shape : {HeadShape{8, 128, 64, 64, 1e-6F},
                                 {1, 576, 64, 512, -1.0F},
                                 {5, 64, 64, 0, 1e-6F},
                                 {3, 96, 24, 40, -1.0F},
                                 {2, 50, 6, 44, 1e-5F},
                                 {4, 64, 64, 0, -1.0F, true},
                                 {3, 80, 6, 0, -1.0F, true},
                                 {64, 128, 64, 0, -1.0F, true},
                                 {64, 512, 64, 448, 1e-6F}}) {
    RopeTable table(rope_frequencies(10000.0, shape.rope, nullptr));
    static_cast<void>(table.reserve(cpu_device(), 6000));
    table.ensure(6000);
    const int rows = shape.heads > 8 ? 3 : 37;
    std::vector<Position> positions;
    for (int t = 0; t < rows; ++t) positions.push_back(random.between(0, 5999));
    const auto x = random.floats(static_cast<std::size_t>(rows * shape.heads * shape.dim));
    for (bool inverse : {false, true}) {
      SCOPED_TRACE(::testing::Message() << shape.heads << " heads of " << shape.dim << " inverse " << inverse);
      expect_rows_independent(rows, static_cast<std::size_t>(shape.heads * shape.dim),
                              [&](const Exec& exec, int first, int count) {
                                return roped(exec, x, positions, shape, table, inverse, first, count);
                              });
    }
  }
}

TEST(RopeHeads, TurnsPairsAndTheInverseTurnsThemBack) {
  Random random = Random::fixed(24);
  const HeadShape shape{2, 80, 64, 16, -1.0F};
  RopeTable table(rope_frequencies(10000.0, 64, nullptr));
  static_cast<void>(table.reserve(cpu_device(), 5001));
  table.ensure(5001);
  const std::vector<Position> positions{5000};
  const auto x = random.floats(160);
  ThreadPool pool(1);
  const Exec exec{&pool, &scalar_kernels()};
  const auto y = roped(exec, x, positions, shape, table, false, 0, 1);
  for (std::size_t head = 0; head < 2; ++head) {
    for (std::size_t t = 0; t < 16; ++t) EXPECT_EQ(y[head * 80 + t], x[head * 80 + t]);
    for (std::size_t i = 0; i < 32; ++i) {
      const double angle = static_cast<double>(5000.0F * table.frequencies()[i]);
      const std::size_t at = head * 80 + 16 + 2 * i;
      EXPECT_NEAR(y[at], x[at] * std::cos(angle) - x[at + 1] * std::sin(angle), 9e-7);
      EXPECT_NEAR(y[at + 1], x[at] * std::sin(angle) + x[at + 1] * std::cos(angle), 9e-7);
    }
  }
  const auto back = roped(exec, y, positions, shape, table, true, 0, 1);
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(back[i], x[i], 1.4e-6F);
}

TEST(RopeHeads, HalfSplitIsInterleavedInAnotherOrder) {
  Random random(29);
  RopeTable table(rope_frequencies(10000.0, 32, nullptr));
  static_cast<void>(table.reserve(cpu_device(), 1000));
  table.ensure(1000);
  const std::vector<Position> positions{977};
  const auto x = random.floats(48);
  std::vector<float> interleaved = x;
  for (std::size_t i = 0; i < 16; ++i) {
    interleaved[2 * i] = x[i];
    interleaved[2 * i + 1] = x[i + 16];
  }
  ThreadPool pool(1);
  for (const KernelTable* kernels : all_tables()) {
    const Exec exec{&pool, kernels};
    const auto halves = roped(exec, x, positions, {1, 48, 32, 0, -1.0F, true}, table, false, 0, 1);
    const auto pairs = roped(exec, interleaved, positions, {1, 48, 32, 0, -1.0F}, table, false, 0, 1);
    for (std::size_t i = 0; i < 16; ++i) {
      EXPECT_EQ(halves[i], pairs[2 * i]);
      EXPECT_EQ(halves[i + 16], pairs[2 * i + 1]);
    }
    for (std::size_t i = 32; i < 48; ++i) EXPECT_EQ(halves[i], x[i]);
  }
}

TEST(CopyHeads, MovesBetweenLayouts) {
  Random random(30);
  const auto x = random.floats(3 * 2 * 10);
  const auto y = expect_same_on_all([&](const Exec& exec) {
    std::vector<float> out(3 * 2 * 7, -1.0F);
    copy_heads(exec, {3, 2, 4, x.data() + 6, 10, 20, out.data() + 2, 7, 14});
    return out;
  });
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t head = i / 7, at = i % 7;  // there are 6 heads of 7 values
    EXPECT_EQ(y[i], at >= 2 && at < 6 ? x[head * 10 + 6 + at - 2] : -1.0F) << i;
  }
}

TEST(Add, AddsInPlace) {
  Random random(31);
  const auto x = random.floats(700), y = random.floats(700);
  const auto sum = expect_same_on_all([&](const Exec& exec) {
    std::vector<float> out = y;
    add(exec, {7, 100, x.data(), out.data()});
    return out;
  });
  for (std::size_t i = 0; i < 700; ++i) EXPECT_EQ(sum[i], y[i] + x[i]);
}

TEST(Hadamard, SameBitsEverywhereAndRowsAreIndependent) {
  Random random(25);
  for (int dim : {1, 4, 16, 32, 128, 512}) {
    SCOPED_TRACE(dim);
    const auto x = random.floats(static_cast<std::size_t>(41 * dim));
    expect_rows_independent(41, static_cast<std::size_t>(dim), [&](const Exec& exec, int first, int count) {
      std::vector<float> y(x.begin() + first * dim, x.begin() + (first + count) * dim);
      hadamard(exec, {count, dim, y.data()});
      return y;
    });
  }
}

TEST(Hadamard, IsTheSylvesterMatrixAndItsOwnInverse) {
  Random random = Random::fixed(26);
  const auto x = random.floats(128);
  ThreadPool pool(1);
  const Exec exec{&pool, &scalar_kernels()};
  std::vector<float> y = x;
  hadamard(exec, {1, 128, y.data()});
  for (unsigned i = 0; i < 128; ++i) {
    double sum = 0.0;
    for (unsigned j = 0; j < 128; ++j) sum += std::popcount(i & j) % 2 == 0 ? x[j] : -x[j];
    EXPECT_NEAR(y[i], sum * 0.0883883476, 1.4e-6);
  }
  hadamard(exec, {1, 128, y.data()});
  for (unsigned i = 0; i < 128; ++i) EXPECT_NEAR(y[i], x[i], 2.8e-6F);
}

}  // namespace
}  // namespace sluice::elementwise_test
