// The composed ops (kernels/ops/ops.h) against their headers, spelled out part by part, and on every instruction set
// against the table `ref`.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/aligned.h"
#include "base/formats/number_formats.h"
#include "kernels/ops/ops.h"
#include "kernels/tests/op_testing.h"
#include "kernels/weights/linear_inputs.h"

namespace sluice::composed_test {
namespace {

// The weights of `heads` products [out, in] in f32 or bf16, kept by their bytes.
class Weights {
 public:
  Weights(Random& random, const Exec& exec, int heads, int out, int in, InputForm inputs) {
    for (int h = 0; h < heads; ++h) {
      std::vector<float> values = random.floats(static_cast<std::size_t>(out * in));
      AlignedBytes bytes(values.size() * sizeof(float));
      WeightView view;
      view.out = out, view.in = in;
      if (inputs == InputForm::kBf16) {
        view.format = WeightFormat::kBf16;
        for (std::size_t i = 0; i < values.size(); ++i) bytes.as<bf16>()[i] = to_bf16(values[i]);
      } else {
        std::copy(values.begin(), values.end(), bytes.as<float>());
      }
      view.data = bytes.data();
      weights.push_back(LinearWeight::make(view, inputs, packs_for(exec, std::move(bytes))));
    }
  }
  std::vector<LinearWeight> weights;
};

// Products of parts of the input by several weights: one with a bias and rows to add, one with a norm and the form that
// the next op wants, and one with that form alone. There are more rows than a piece has.
TEST(Composed, ProjectIsItsProductsThenBiasNormAndForms) {
  constexpr int kRows = 100, kHeads = 3, kIn = 64, kOut = 48;
  for (const auto& [inputs, shared] : {std::pair(InputForm::kF32, 4), {InputForm::kBf16, 4}, {InputForm::kBf16, 1}}) {
    std::uint32_t turn = 0;
    const auto run = [&](const Exec& exec, bool spelled) {
      Random random(500);
      const Weights by_head(random, exec, kHeads, kOut, kIn, inputs), plain(random, exec, 2, kOut, kIn, inputs);
      std::vector<float> x = random.floats(kRows * kHeads * kIn), first(x.begin(), x.begin() + kRows * kIn);
      const std::vector<float> bias = random.floats(kOut), norm = random.floats(kOut),
                               addend = random.floats(static_cast<std::size_t>(kRows / shared * kOut));
      std::vector<float> heads(kRows * kHeads * kOut), biased(kRows * kOut), normed(kRows * kOut);
      std::vector<float> prepared(static_cast<std::size_t>(kRows * input_floats(InputForm::kBf16, kOut)));
      std::vector<float> alone(kRows * kOut), prepared_alone(prepared.size());
      if (spelled) {
        std::vector<LinearJob> jobs;
        for (int h = 0; h < kHeads; ++h) {
          jobs.push_back({&by_head.weights[static_cast<std::size_t>(h)], x.data() + h * kIn, kHeads * kIn,
                          heads.data() + h * kOut, kHeads * kOut});
        }
        linear(exec, kRows, jobs);
        const auto shared_rows = static_cast<std::size_t>(shared);
        jobs = {{&plain.weights[0], first.data(), kIn, alone.data(), kOut}};
        linear(exec, kRows, jobs);
        jobs = {{&plain.weights[0], first.data(), kIn, biased.data(), kOut},
                {&plain.weights[1], first.data(), kIn, normed.data(), kOut}};
        linear(exec, kRows, jobs);
        add_bias(exec, {kRows, kOut, bias.data(), biased.data()});
        for (std::size_t i = 0; i < biased.size(); ++i) biased[i] += addend[i / kOut / shared_rows * kOut + i % kOut];
        rms_norm(exec, {kRows, kOut, normed.data(), kOut, norm.data(), 1e-6F, normed.data(), kOut});
        for (int r = 0; r < kRows; ++r) {
          const int width = input_floats(InputForm::kBf16, kOut);
          prepare_inputs(InputForm::kBf16, kOut, normed.data() + r * kOut, prepared.data() + r * width);
          prepare_inputs(InputForm::kBf16, kOut, alone.data() + r * kOut, prepared_alone.data() + r * width);
        }
      } else {
        Rows parts{.values = x.data(), .ld = kHeads * kIn, .columns = kIn, .parts = kHeads, .part_step = kIn};
        Rows of_heads = contiguous_rows(heads.data(), kOut);
        of_heads.ld = kHeads * kOut;
        // In every other turn the form that the weights multiply is there already.
        std::vector<float> made(static_cast<std::size_t>(kRows * kHeads * input_floats(InputForm::kBf16, kIn)));
        if (inputs == InputForm::kBf16 && ++turn % 2 == 0) {
          for (int p = 0; p < kRows * kHeads; ++p) {
            prepare_inputs(inputs, kIn, x.data() + p * kIn, made.data() + p * input_floats(inputs, kIn));
          }
          parts.forms[static_cast<std::size_t>(inputs)] = made.data();
          std::fill(x.begin(), x.end(), NAN);  // the values must not be read
        }
        project(exec, ProjectArgs{.rows = kRows, .x = parts}.add(
                          {.weights = by_head.weights, .y = of_heads, .y_step = kOut}));
        Rows into = contiguous_rows(normed.data(), kOut);
        into.forms[static_cast<std::size_t>(InputForm::kBf16)] = prepared.data();
        project(exec, ProjectArgs{.rows = kRows, .x = contiguous_rows(first.data(), kIn)}
                          .add({.weights = {&plain.weights[0], 1},
                                .y = contiguous_rows(biased.data(), kOut),
                                .bias = bias.data(),
                                .addend = addend.data(),
                                .shared = shared})
                          .add({.weights = {&plain.weights[1], 1}, .y = into, .norm = norm.data(), .norm_eps = 1e-6F}));
        into = contiguous_rows(alone.data(), kOut);
        into.forms[static_cast<std::size_t>(InputForm::kBf16)] = prepared_alone.data();
        project(exec, kRows, contiguous_rows(first.data(), kIn), plain.weights[0], into);
      }
      std::vector<float> all = heads;
      for (const auto* part : {&biased, &normed, &prepared, &alone, &prepared_alone})
        all.insert(all.end(), part->begin(), part->end());
      return all;
    };
    ThreadPool one(1);
    const std::vector<float> spelled = run(Exec{&one, &scalar_kernels(), &ref_op_table()}, true);
    const std::vector<float> ref = expect_same_on_all([&](const Exec& exec) { return run(exec, false); });
    EXPECT_TRUE(same_bits(ref, spelled));
  }
}

// Norms all rows, more than a piece has.
TEST(Composed, AddNormAddsAndNormsEveryRow) {
  constexpr int kRows = 150, kDim = 96;
  Random random(504);
  const std::vector<float> before = random.floats(kRows * kDim), added = random.floats(kRows * kDim),
                           norm = random.floats(kDim);
  for (const bool adds : {true, false}) {
    expect_same_on_all([&](const Exec& exec) {
      std::vector<float> x = before, normed(kRows * kDim);
      std::vector<float> prepared(static_cast<std::size_t>(kRows * input_floats(InputForm::kBf16, kDim)));
      Rows into = contiguous_rows(normed.data(), kDim);
      into.forms[static_cast<std::size_t>(InputForm::kBf16)] = prepared.data();
      add_norm(exec, {.rows = kRows,
                      .dim = kDim,
                      .x = x.data(),
                      .y = adds ? added.data() : nullptr,
                      .norm = norm.data(),
                      .eps = 1e-5F,
                      .normed = into});
      for (const auto* part : {&normed, &prepared}) x.insert(x.end(), part->begin(), part->end());
      return x;
    });
  }
}

TEST(Composed, AddNormAddsAndNormsTheRowsThatAreWanted) {
  constexpr int kRows = 21, kDim = 96;
  Random random(501);
  const std::vector<float> before = random.floats(kRows * kDim), added = random.floats(kRows * kDim),
                           norm = random.floats(kDim);
  const std::vector<std::int32_t> only{3, 4, 20};
  ThreadPool one(1);
  const Exec ref{&one, &scalar_kernels(), &ref_op_table()};
  std::vector<float> sum = before, wanted(only.size() * kDim);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += added[i];
  for (std::size_t i = 0; i < only.size(); ++i)
    std::copy_n(sum.data() + only[i] * kDim, kDim, wanted.data() + i * kDim);
  rms_norm(ref, {static_cast<int>(only.size()), kDim, wanted.data(), kDim, norm.data(), 1e-5F, wanted.data(), kDim});
  const std::vector<float> found = expect_same_on_all([&](const Exec& exec) {
    std::vector<float> x = before, normed(wanted.size());
    add_norm(exec, {.rows = kRows,
                    .dim = kDim,
                    .x = x.data(),
                    .y = added.data(),
                    .norm = norm.data(),
                    .eps = 1e-5F,
                    .normed = contiguous_rows(normed.data(), kDim),
                    .only = only});
    x.insert(x.end(), normed.begin(), normed.end());
    return x;
  });
  sum.insert(sum.end(), wanted.begin(), wanted.end());
  EXPECT_TRUE(same_bits(found, sum));
}

// Keys of two heads with a norm, a rotation and a Hadamard product, and their values; in the same call, the rows of a
// compressor's closed windows. There are more rows than a piece has.
TEST(Composed, StoreKvWritesWhatItsPartsWrite) {
  constexpr int kRows = 100, kHeads = 2, kDim = 32, kValue = 16, kRow = kDim + kValue, kFirst = 100, kRatio = 4;
  Random random(502);
  const RowFormat format = make_row_format(RowCodec::kBf16, kRow, 0), entry = make_row_format(RowCodec::kF32, kDim, 0);
  const std::vector<float> keys = random.floats(kRows * kHeads * kDim), values = random.floats(kRows * kHeads * kValue);
  const std::vector<float> norm = random.floats(kDim), ape = random.floats(kRatio * 2 * kDim);
  const std::vector<float> kv = random.floats(kRows * 2 * kDim), gate = random.floats(kRows * 2 * kDim);
  const std::vector<float> table = random.floats((kFirst + kRows) * 16);
  const std::vector<LatentPage> pages{LatentPage(1), LatentPage(0)};
  const auto run = [&](const Exec& exec, bool spelled) {
    Random same(503);  // the values that are not written
    TestPlane first(same, format, kBlockTokens, 2), second(same, format, kBlockTokens, 2);
    TestPlane entries(same, entry, kBlockTokens / kRatio, 2);
    const PlaneView planes[] = {first.view(), second.view()};
    TestStep step({1, kRatio}, false);
    step.add({.rows = kRows, .first_position = kFirst, .latent_pages = pages});
    const StepTables& tables = step.tables();
    std::vector<float> states(static_cast<std::size_t>(2 * compressor_state_floats(kDim, true)));
    reset_compressor_state(kDim, true, states.data());
    std::vector<float> k = keys, joined(kRows * kHeads * kRow), pooled(static_cast<std::size_t>(kRows * kDim));
    CompressArgs compressor;
    compressor.overlap = true;
    compressor.kv = kv.data(), compressor.gate = gate.data(), compressor.ld = 2 * kDim, compressor.ape = ape.data();
    compressor.states = reinterpret_cast<std::byte*>(states.data());
    compressor.state_bytes = states.size() / 2 * sizeof(float);
    const Rotation rope{.table = table.data(), .dims = 16, .offset = 8};
    const ClosedWindows& closed = tables.closed_by(kRatio);
    if (spelled) {
      rms_norm(exec, {kRows * kHeads, kDim, k.data(), kDim, norm.data(), 1e-6F, k.data(), kDim});
      rope_heads(exec, {.rows = kRows,
                        .heads = kHeads,
                        .head_dim = kDim,
                        .rope_dims = 16,
                        .offset = 8,
                        .x = k.data(),
                        .ldx = kHeads * kDim,
                        .positions = tables.positions.data(),
                        .table = table.data()});
      hadamard(exec, {kRows * kHeads, kDim, k.data()});
      for (int i = 0; i < kRows * kHeads; ++i) {
        std::copy_n(k.data() + i * kDim, kDim, joined.data() + i * kRow);
        std::copy_n(values.data() + i * kValue, kValue, joined.data() + i * kRow + kDim);
      }
      for (int h = 0; h < kHeads; ++h) {
        encode_rows(exec, {&planes[h], kRows, joined.data() + h * kRow, kHeads * kRow, tables.closed_by(1).slots});
      }
      compressor.dim = kDim, compressor.ratio = kRatio, compressor.step = &tables, compressor.pooled = pooled.data();
      compress(exec, compressor);
      rms_norm(exec, {closed.count, kDim, pooled.data(), kDim, norm.data(), 1e-6F, pooled.data(), kDim});
      rope_heads(exec, {.rows = closed.count,
                        .heads = 1,
                        .head_dim = kDim,
                        .rope_dims = 16,
                        .offset = 8,
                        .x = pooled.data(),
                        .ldx = kDim,
                        .positions = closed.positions,
                        .table = table.data()});
      simulate_rows(exec, {RowCodec::kIndexFp4, kDim, 0, closed.count, pooled.data(), kDim});
      encode_rows(exec, {&entries.view(), closed.count, pooled.data(), kDim, closed.slots});
    } else {
      store_kv(exec, StoreKvArgs{.step = &tables}
                         .add({.planes = planes,
                               .ratio = 1,
                               .heads = kHeads,
                               .dims = kDim,
                               .x = k.data(),
                               .norm = {norm.data(), nullptr, 1e-6F, kDim},
                               .rope = rope,
                               .hadamard = true,
                               .values = values.data(),
                               .value_dims = kValue,
                               .value_offset = kDim,
                               .joined = joined.data()})
                         .add({.planes = &entries.view(),
                               .ratio = kRatio,
                               .dims = kDim,
                               .x = pooled.data(),
                               .compressor = compressor,
                               .norm = {norm.data(), nullptr, 1e-6F, kDim},
                               .rope = rope,
                               .simulation = RowCodec::kIndexFp4}));
    }
    std::vector<float> all = states;
    std::vector<float> row(kRow);
    const auto read = [&](const PlaneView& plane, RowSlot slot) {
      decode_row(plane.format, plane.row(slot), row.data());
      all.insert(all.end(), row.begin(), row.begin() + plane.format.dims);
    };
    for (int t = 0; t < kRows; ++t) {
      for (const PlaneView& plane : planes) read(plane, tables.closed_by(1).slots[t]);
    }
    for (int e = 0; e < closed.count; ++e) read(entries.view(), closed.slots[e]);
    EXPECT_EQ(closed.count, (kFirst + kRows) / kRatio - kFirst / kRatio);
    return all;
  };
  ThreadPool one(1);
  const std::vector<float> spelled = run(Exec{&one, &scalar_kernels(), &ref_op_table()}, true);
  EXPECT_TRUE(same_bits(expect_same_on_all([&](const Exec& exec) { return run(exec, false); }), spelled));
}

}  // namespace
}  // namespace sluice::composed_test
