#include "kernels/ops/experts.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/common/math.h"
#include "kernels/tests/linear_testing.h"
#include "kernels/tests/op_testing.h"

namespace sluice::experts_test {
namespace {

struct Shape {
  int experts, slots, hidden, inter, shared_inter;  // shared_inter 0: no shared expert
};

// The weights of one layer, owned, and packed for one table at a time.
struct Layer {
  Layer(std::mt19937& random, const Shape& s, const WeightForm& spec) : shape(s) {
    for (int e = 0; e < s.experts; ++e) add(random, spec, s.inter);
    if (s.shared_inter > 0) add(random, {WeightFormat::kFp8, ScaleFormat::kE8m0, 128, 128}, s.shared_inter);
  }
  void add(std::mt19937& random, const WeightForm& spec, int inter) {
    owners.emplace_back(random, spec, inter, shape.hidden);
    owners.emplace_back(random, spec, inter, shape.hidden);
    owners.emplace_back(random, spec, shape.hidden, inter);
  }
  std::vector<ExpertWeights> pack(const Exec& exec, InputForm form) const {
    std::vector<ExpertWeights> packed;
    for (std::size_t i = 0; i < owners.size(); i += 3) {
      packed.push_back({LinearWeight::pack(exec, owners[i].view(), form),
                        LinearWeight::pack(exec, owners[i + 1].view(), form),
                        LinearWeight::pack(exec, owners[i + 2].view(), form)});
    }
    return packed;
  }

  Shape shape;
  std::vector<RandomWeight> owners;
};

struct Rows {
  int count;
  std::vector<float> x, weights;
  std::vector<std::int32_t> ids;
};

Rows random_rows(std::mt19937& random, const Shape& shape, int count) {
  Rows rows{count, random_inputs(random, static_cast<std::size_t>(count * shape.hidden)), {}, {}};
  for (float& value : rows.x) value = std::fmin(value, 4.0F) * 0.05F;
  for (int i = 0; i < count * shape.slots; ++i) {
    rows.ids.push_back(static_cast<std::int32_t>(random() % static_cast<unsigned>(shape.experts)));
    rows.weights.push_back(std::uniform_real_distribution<float>(0.0F, 1.0F)(random));
  }
  return rows;
}

std::vector<float> run(const Exec& exec, const Shape& shape, const std::vector<ExpertWeights>& packed, const Rows& rows,
                       float limit) {
  std::vector<float> x = rows.x, y(static_cast<std::size_t>(rows.count * shape.hidden), -1.0F);
  const ExpertsArgs args{.rows = rows.count,
                         .hidden = shape.hidden,
                         .slots = shape.slots,
                         .x = contiguous_rows(x.data(), shape.hidden),
                         .expert_ids = rows.ids.data(),
                         .expert_weights = rows.weights.data(),
                         .experts = std::span(packed).first(static_cast<std::size_t>(shape.experts)),
                         .shared = shape.shared_inter > 0 ? &packed.back() : nullptr,
                         .limit = limit,
                         .y = y.data()};
  experts(exec, args);
  return y;
}

std::vector<float> multiply(const Exec& exec, const LinearWeight& weight, const std::vector<float>& x) {
  std::vector<float> y(static_cast<std::size_t>(weight.out()));
  const LinearJob job{&weight, x.data(), weight.in(), y.data(), weight.out(), nullptr};
  linear(exec, 1, std::span(&job, 1));
  return y;
}

std::vector<float> one_expert(const Exec& exec, const ExpertWeights& expert, const std::vector<float>& x, float c,
                              float limit) {
  const auto a = multiply(exec, expert.gate, x);
  const auto b = multiply(exec, expert.up, x);
  std::vector<float> m(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const float gate = limit > 0.0F ? std::fmin(a[i], limit) : a[i];
    const float up = limit > 0.0F ? std::fmax(std::fmin(b[i], limit), -limit) : b[i];
    m[i] = (silu_f32(gate) * up) * c;
  }
  return multiply(exec, expert.down, m);
}

// The formula of experts.h, row by row and slot by slot.
std::vector<float> expected(const Exec& exec, const Shape& shape, const std::vector<ExpertWeights>& packed,
                            const Rows& rows, float limit) {
  FlushDenormals flush;
  std::vector<float> all;
  for (int t = 0; t < rows.count; ++t) {
    const auto from = rows.x.begin() + std::ptrdiff_t{t} * shape.hidden;
    const std::vector<float> x(from, from + shape.hidden);
    std::vector<float> y;
    for (int s = 0; s < shape.slots; ++s) {
      const auto pair = static_cast<std::size_t>(t * shape.slots + s);
      const auto out = one_expert(exec, packed[static_cast<std::size_t>(rows.ids[pair])], x, rows.weights[pair], limit);
      for (std::size_t d = 0; d < out.size(); ++d) s == 0 ? y.push_back(out[d]) : void(y[d] += out[d]);
    }
    if (shape.shared_inter > 0) {
      const auto out = one_expert(exec, packed.back(), x, 1.0F, limit);
      for (std::size_t d = 0; d < out.size(); ++d) y[d] += out[d];
    }
    all.insert(all.end(), y.begin(), y.end());
  }
  return all;
}

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all{{16, 4, 256, 128, 128}, {5, 3, 70, 40, 0}, {7, 1, 33, 100, 200}};
  return all;
}
const std::vector<WeightForm>& expert_specs() {
  static const std::vector<WeightForm> all{{WeightFormat::kMxfp4, ScaleFormat::kE8m0, 1, 32},
                                           {WeightFormat::kFp8, ScaleFormat::kF32, 128, 128},
                                           {.format = WeightFormat::kCodes, .codes = DType::kQ4_0}};
  return all;
}

TEST(Experts, FollowTheFormulaOnEveryIsa) {
  std::mt19937 random = fresh_generator(201);
  ThreadPool pool(2);
  const KernelTable& scalar = scalar_kernels();
  const Exec oracle{&pool, &scalar};
  for (const Shape& shape : shapes()) {
    for (const WeightForm& spec : expert_specs()) {
      if (spec.format == WeightFormat::kCodes && (shape.hidden % 32 != 0 || shape.inter % 32 != 0)) continue;
      const Layer layer(random, shape, spec);
      for (const InputForm form :
           {InputForm::kF32, InputForm::kBf16, InputForm::kInt8, InputForm::kFp8, InputForm::kTiles}) {
        const float limit = form == InputForm::kBf16 ? 0.0F : 0.7F;
        const Rows rows = random_rows(random, shape, 21);
        const auto want = expected(oracle, shape, layer.pack(oracle, form), rows, limit);
        for (const KernelTable& table : linear_tables()) {
          const Exec exec{&pool, &table};

          const auto got = run(exec, shape, layer.pack(exec, form), rows, limit);
          ASSERT_EQ(first_difference(want, got), -1)
              << table.name << " " << describe(spec) << " hidden " << shape.hidden;
        }
      }
    }
  }
}

TEST(Experts, RowsDoNotDependOnTheirBatch) {
  std::mt19937 random = fresh_generator(202);
  for (const KernelTable& table : linear_tables()) {
    const int cases = std::string(table.isa) == "scalar" ? 1 : 20;
    for (const Shape& shape : shapes()) {
      const Layer layer(random, shape, expert_specs()[0]);
      ThreadPool one(1);
      const auto packed = layer.pack(Exec{&one, &table}, static_cast<InputForm>(random() % 4));

      for (int i = 0; i < cases; ++i) {
        const int threads = 1 << (random() % 3);
        ThreadPool pool(threads);
        const Rows rows = random_rows(random, shape, 1 + static_cast<int>(random() % 150));
        const auto batch = run(Exec{&pool, &table}, shape, packed, rows, 0.7F);
        for (int k = 0; k < 5; ++k) {
          const auto r = static_cast<std::ptrdiff_t>(random() % static_cast<unsigned>(rows.count));
          const auto slice = [&](const auto& values, std::ptrdiff_t width) {
            return std::decay_t<decltype(values)>(values.begin() + r * width, values.begin() + (r + 1) * width);
          };
          const Rows row{1, slice(rows.x, shape.hidden), slice(rows.weights, shape.slots),
                         slice(rows.ids, shape.slots)};
          const auto alone = run(Exec{&one, &table}, shape, packed, row, 0.7F);
          ASSERT_EQ(first_difference(alone, slice(batch, shape.hidden)), -1)
              << table.name << " hidden " << shape.hidden << " rows " << rows.count << " row " << r << " threads "
              << threads;
        }
      }
    }
  }
}

TEST(SwiGlu, EveryIsaGivesTheScalarBits) {
  std::mt19937 random = fresh_generator(203);
  FlushDenormals flush;
  for (const int dim : {1, 15, 16, 37, 128}) {
    for (const float limit : {0.0F, 10.0F}) {
      constexpr int kRows = 3;
      const std::ptrdiff_t ld = dim + 5;
      auto gate = random_inputs(random, static_cast<std::size_t>(kRows * ld));
      auto up = random_inputs(random, gate.size());
      const auto weights = random_inputs(random, kRows);
      for (std::size_t i = 0; i < gate.size(); ++i) gate[i] *= 30.0F;  // into both tails of exp
      std::vector<float> want;
      for (const KernelTable& table : linear_tables()) {
        std::vector<float> out(gate.size(), 5.0F);
        table.swiglu({gate.data(), up.data(), dim % 2 == 0 ? weights.data() : nullptr, out.data(), dim, ld, limit}, 0,
                     kRows);
        if (want.empty()) want = out;
        EXPECT_EQ(first_difference(want, out), -1) << table.name << " dim " << dim << " limit " << limit;
      }
    }
  }
}

}  // namespace
}  // namespace sluice::experts_test
