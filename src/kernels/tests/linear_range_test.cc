// One row of outputs in ranges that begin and end at any group of sixteen, for kernels that can do those: the same bits
// as all of them at once.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/test_seed_testing.h"
#include "kernels/device/cpu_features.h"
#include "kernels/tests/linear_testing.h"
#include "kernels/weights/input_forms.h"
#include "kernels/weights/linear_inputs.h"

namespace sluice::linear_range_test {
namespace {

TEST(LinearRange, GroupsOfATileGiveTheBitsOfTheWhole) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  ThreadPool pool(1);
  int by_groups = 0;
  for (const KernelTable& table : linear_tables()) {
    for (const WeightForm& spec : weight_forms()) {
      for (const InputForm wanted :
           {InputForm::kF32, InputForm::kBf16, InputForm::kInt8, InputForm::kFp8, InputForm::kTiles}) {
        // Some are large enough for kernels that ask for weights ahead.
        const int out = 1 + static_cast<int>(random() % 700);
        const RandomWeight values(random, spec, out, 1 + static_cast<int>(random() % 700));
        const auto weight = LinearWeight::make(values.view(), wanted, packs_for(Exec{&pool, &table}));
        const int in = weight.in();
        const bool by_group = table.linear.row_unit(weight) < table.linear.packing.out_tile;
        const int unit = by_group ? 16 : table.linear.packing.out_tile;
        by_groups += by_group;
        std::vector<float> x = random_inputs(random, static_cast<std::size_t>(in));
        const InputForm form = weight.input_form();
        // Memory past a row's inputs may hold anything, and must not count.
        constexpr float kNothing = std::numeric_limits<float>::quiet_NaN();
        std::vector<float> prepared(static_cast<std::size_t>(input_floats(form, in)) + 16, kNothing);
        if (form != InputForm::kF32) {
          table.prepare_inputs(form, in, x.data(), prepared.data());
          x = prepared;
        }
        constexpr float kUntouched = 12345.0F;
        const auto size = static_cast<std::size_t>(out) + 16;
        std::vector<float> whole(size, kUntouched), ranges(size, kUntouched);
        LinearJob job{.weight = &weight, .x = x.data(), .ldx = in, .y = whole.data(), .ldy = out, .x_prepared = true};
        table.linear.run(job, 1, 0, out);
        ASSERT_TRUE(std::ranges::none_of(whole, [](float y) { return std::isnan(y); }))
            << table.name << " " << describe(spec) << " out " << out << " in " << in;
        job.y = ranges.data();
        for (int begin = 0; begin < out;) {
          const int end = std::min(out, begin + unit * (1 + static_cast<int>(random() % 12)));
          table.linear.run(job, 1, begin, end);
          begin = end;
        }
        ASSERT_EQ(first_difference(whole, ranges), -1) << table.name << " " << describe(spec) << " out " << out
                                                       << " in " << in << " form " << static_cast<int>(form);
      }
    }
  }
  EXPECT_TRUE(by_groups > 0 || !cpu_features().has(CpuFeature::kAvx512));
}

}  // namespace
}  // namespace sluice::linear_range_test
