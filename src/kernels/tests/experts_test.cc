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
      packed.push_back({LinearWeight::make(owners[i].view(), form, packs_for(exec)),
                        LinearWeight::make(owners[i + 1].view(), form, packs_for(exec)),
                        LinearWeight::make(owners[i + 2].view(), form, packs_for(exec))});
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

// The options of a model between the products; empty vectors: no biases.
struct Between {
  Activation activation;
  std::vector<float> gate = {}, up = {}, down = {}, shared_gate = {}, shared_up = {}, shared_down = {};  // biases

  static Between with_biases(std::mt19937& random, const Shape& shape, const Activation& activation) {
    const auto some = [&](int experts, int dim) {
      auto values = random_inputs(random, static_cast<std::size_t>(experts * dim));
      for (float& value : values) value *= 0.1F;
      return values;
    };
    return {activation,
            some(shape.experts, shape.inter),
            some(shape.experts, shape.inter),
            some(shape.experts, shape.hidden),
            some(1, shape.shared_inter),
            some(1, shape.shared_inter),
            some(1, shape.hidden)};
  }
  static const float* at(const std::vector<float>& values) { return values.empty() ? nullptr : values.data(); }
  ExpertBiases routed_biases() const { return {at(gate), at(up), at(down)}; }
  ExpertBiases shared_biases() const { return {at(shared_gate), at(shared_up), at(shared_down)}; }
};

std::vector<float> run(const Exec& exec, const Shape& shape, const std::vector<ExpertWeights>& packed, const Rows& rows,
                       const Between& between) {
  std::vector<float> x = rows.x, y(static_cast<std::size_t>(rows.count * shape.hidden), -1.0F);
  const ExpertsArgs args{.rows = rows.count,
                         .hidden = shape.hidden,
                         .slots = shape.slots,
                         .x = contiguous_rows(x.data(), shape.hidden),
                         .expert_ids = rows.ids.data(),
                         .expert_weights = rows.weights.data(),
                         .experts = std::span(packed).first(static_cast<std::size_t>(shape.experts)),
                         .shared = shape.shared_inter > 0 ? &packed.back() : nullptr,
                         .biases = between.routed_biases(),
                         .shared_biases = between.shared_biases(),
                         .activation = between.activation,
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

std::vector<float> one_expert(const Exec& exec, const ExpertWeights& expert, std::size_t index,
                              const ExpertBiases& biases, const std::vector<float>& x, float c, const Activation& of) {
  const auto biased = [&](const LinearWeight& weight, const float* bias, const std::vector<float>& inputs,
                          float times) {
    auto y = multiply(exec, weight, inputs);
    for (std::size_t i = 0; bias != nullptr && i < y.size(); ++i) y[i] = y[i] + times * bias[index * y.size() + i];
    return y;
  };
  const auto a = biased(expert.gate, biases.gate, x, 1.0F), b = biased(expert.up, biases.up, x, 1.0F);
  std::vector<float> m(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const float gate = of.limit > 0.0F ? std::fmin(a[i], of.limit) : a[i];
    float up = of.limit > 0.0F ? std::fmax(std::fmin(b[i], of.limit), -of.limit) : b[i];
    if (of.up_offset != 0.0F) up = up + of.up_offset;
    const float s =
        of.kind == ActivationKind::kSwish ? of.alpha * gate : gate * std::fma(gate * gate, kGeluCube, kGeluLine);
    m[i] = ((gate / (1.0F + exp_f32(-s))) * up) * c;
  }
  return biased(expert.down, biases.down, m, c);
}

// The formula of experts.h, row by row and slot by slot.
std::vector<float> expected(const Exec& exec, const Shape& shape, const std::vector<ExpertWeights>& packed,
                            const Rows& rows, const Between& between) {
  FlushDenormals flush;
  std::vector<float> all;
  for (int t = 0; t < rows.count; ++t) {
    const auto from = rows.x.begin() + std::ptrdiff_t{t} * shape.hidden;
    const std::vector<float> x(from, from + shape.hidden);
    std::vector<float> y;
    for (int s = 0; s < shape.slots; ++s) {
      const auto pair = static_cast<std::size_t>(t * shape.slots + s);
      const auto expert = static_cast<std::size_t>(rows.ids[pair]);
      const auto out =
          one_expert(exec, packed[expert], expert, between.routed_biases(), x, rows.weights[pair], between.activation);
      for (std::size_t d = 0; d < out.size(); ++d) s == 0 ? y.push_back(out[d]) : void(y[d] += out[d]);
    }
    if (shape.shared_inter > 0) {
      const auto out = one_expert(exec, packed.back(), 0, between.shared_biases(), x, 1.0F, between.activation);
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

// V4's, that of most families, gpt-oss', and GELU.
constexpr Activation kActivations[] = {{.limit = 0.7F},
                                       {},
                                       {.alpha = 1.702F, .limit = 0.7F, .up_offset = 1.0F},
                                       {.kind = ActivationKind::kGeluTanh, .limit = 0.7F}};

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
        const Activation& activation = kActivations[random() % std::size(kActivations)];
        const Between between =
            random() % 2 == 0 ? Between{.activation = activation} : Between::with_biases(random, shape, activation);
        const Rows rows = random_rows(random, shape, 21);
        const auto want = expected(oracle, shape, layer.pack(oracle, form), rows, between);
        for (const KernelTable& table : linear_tables()) {
          const Exec exec{&pool, &table};

          const auto got = run(exec, shape, layer.pack(exec, form), rows, between);
          ASSERT_EQ(first_difference(want, got), -1)
              << table.name << " " << describe(spec) << " hidden " << shape.hidden << " alpha " << activation.alpha
              << (between.gate.empty() ? "" : " with biases");
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
      const Between between = Between::with_biases(random, shape, kActivations[random() % std::size(kActivations)]);

      for (int i = 0; i < cases; ++i) {
        const int threads = 1 << (random() % 3);
        ThreadPool pool(threads);
        const Rows rows = random_rows(random, shape, 1 + static_cast<int>(random() % 150));
        const auto batch = run(Exec{&pool, &table}, shape, packed, rows, between);
        for (int k = 0; k < 5; ++k) {
          const auto r = static_cast<std::ptrdiff_t>(random() % static_cast<unsigned>(rows.count));
          const auto slice = [&](const auto& values, std::ptrdiff_t width) {
            return std::decay_t<decltype(values)>(values.begin() + r * width, values.begin() + (r + 1) * width);
          };
          const Rows row{1, slice(rows.x, shape.hidden), slice(rows.weights, shape.slots),
                         slice(rows.ids, shape.slots)};
          const auto alone = run(Exec{&one, &table}, shape, packed, row, between);
          ASSERT_EQ(first_difference(alone, slice(batch, shape.hidden)), -1)
              << table.name << " hidden " << shape.hidden << " rows " << rows.count << " row " << r << " threads "
              << threads;
        }
      }
    }
  }
}

TEST(ActivationKernel, EveryIsaGivesTheScalarBits) {
  std::mt19937 random = fresh_generator(203);
  FlushDenormals flush;
  for (const int dim : {1, 15, 16, 37, 128}) {
    for (Activation activation : kActivations) {
      activation.limit *= 10.0F;
      constexpr int kRows = 3;
      const std::ptrdiff_t ld = dim + 5;
      auto gate = random_inputs(random, static_cast<std::size_t>(kRows * ld));
      auto up = random_inputs(random, gate.size());
      const auto weights = random_inputs(random, kRows);
      for (std::size_t i = 0; i < gate.size(); ++i) gate[i] *= 30.0F;  // reaches both tails of exp
      std::vector<float> want;
      for (const KernelTable& table : linear_tables()) {
        std::vector<float> out(gate.size(), 5.0F);
        table.activation(
            {gate.data(), up.data(), dim % 2 == 0 ? weights.data() : nullptr, out.data(), dim, ld, activation}, 0,
            kRows);
        if (want.empty()) want = out;
        EXPECT_EQ(first_difference(want, out), -1)
            << table.name << " dim " << dim << " limit " << activation.limit << " alpha " << activation.alpha;
      }
    }
  }
}

// gpt-oss' m in doubles: clamp(gate) * sigmoid(1.702 gate) * (up + 1).
TEST(ActivationKernel, HasTheFormulaOfGptOss) {
  const Activation of{.alpha = 1.702F, .limit = 7.0F, .up_offset = 1.0F};
  for (const float a : {-20.0F, -1.5F, -0.1F, 0.0F, 0.3F, 6.9F, 7.5F}) {
    for (const float b : {-9.0F, -1.0F, 0.0F, 2.5F, 8.0F}) {
      const double gate = std::min(static_cast<double>(a), 7.0), up = std::clamp(static_cast<double>(b), -7.0, 7.0);
      const double want = gate / (1.0 + std::exp(-1.702 * gate)) * (up + 1.0);
      EXPECT_NEAR(activated(of, a, b, 1.0F), want, 1e-5) << a << " " << b;
    }
  }
}

// Tanh's form of GELU in doubles.
TEST(ActivationKernel, HasGelu) {
  for (const float a : {-30.0F, -3.0F, -0.5F, 0.0F, 0.01F, 1.0F, 4.0F, 30.0F}) {
    const double x = a,
                 want = 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
    EXPECT_NEAR(activated({.kind = ActivationKind::kGeluTanh}, a, 1.0F, 1.0F), want, 1e-5) << a;
  }
}

}  // namespace
}  // namespace sluice::experts_test
