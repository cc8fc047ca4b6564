// Several products of one call, and inputs that are prepared already, give the same bits as products by themselves.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/test_seed_testing.h"
#include "kernels/tests/linear_testing.h"
#include "kernels/weights/input_forms.h"
#include "kernels/weights/linear_inputs.h"

namespace sluice::linear_jobs_test {
namespace {

// There are more inputs than one piece brings into tiles.
constexpr int kIn = 1184, kOut = 70;

TEST(LinearJobs, PreparedInputsGiveTheBitsOfTheOthers) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  ThreadPool pool(2);
  for (const KernelTable& table : linear_tables()) {
    const Exec exec{&pool, &table};
    for (const WeightForm& spec : weight_forms()) {
      const RandomWeight values(random, spec, kOut, kIn);
      const InputForm form = kPreparedForms[random() % kPreparedForms.size()];
      const auto weight = LinearWeight::make(values.view(), form, packs_for(exec));
      if (weight.input_form() == InputForm::kF32) continue;
      const int in = weight.in(), width = input_floats(weight.input_form(), in);
      for (const int rows : {1, 3, 40}) {
        const std::vector<float> x = random_inputs(random, static_cast<std::size_t>(rows * in));
        std::vector<float> prepared(static_cast<std::size_t>(rows * width));
        prepare_rows(exec, {weight.input_form(), rows, in, x.data(), in, prepared.data(), width});
        std::vector<float> of_floats(static_cast<std::size_t>(rows * kOut)), of_prepared = of_floats;
        const LinearJob job{.weight = &weight, .x = x.data(), .ldx = in, .y = of_floats.data(), .ldy = kOut};
        linear(exec, rows, {&job, 1});
        const LinearJob other{.weight = &weight,
                              .x = prepared.data(),
                              .ldx = width,
                              .y = of_prepared.data(),
                              .ldy = kOut,
                              .x_prepared = true};
        linear(exec, rows, {&other, 1});
        ASSERT_EQ(first_difference(of_floats, of_prepared), -1)
            << table.name << " " << describe(spec) << " form " << static_cast<int>(form) << " rows " << rows;
      }
    }
  }
}

// Jobs over the same rows of x, over other rows, and over the first ones as they lie.
TEST(LinearJobs, OtherRowsOfTheSameInputsAreOthers) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  ThreadPool pool(2);
  for (const KernelTable& table : linear_tables()) {
    const Exec exec{&pool, &table};
    for (const InputForm form : kPreparedForms) {
      const RandomWeight values(random, {.format = WeightFormat::kBf16}, kOut, 96);
      const auto weight = LinearWeight::make(values.view(), form, packs_for(exec));
      for (const int rows : {1, 2, 20}) {
        const std::vector<float> x = random_inputs(random, static_cast<std::size_t>(2 * rows * 96));
        std::vector<std::int32_t> some(static_cast<std::size_t>(rows)), others = some;
        for (auto* list : {&some, &others}) {
          for (auto& row : *list) row = static_cast<std::int32_t>(random() % (2U * static_cast<unsigned>(rows)));
        }
        const std::int32_t* lists[] = {some.data(), others.data(), nullptr, some.data()};
        std::vector<std::vector<float>> together(4, std::vector<float>(static_cast<std::size_t>(rows * kOut)));
        std::vector<std::vector<float>> alone = together;
        std::vector<LinearJob> jobs;
        for (std::size_t i = 0; i < 4; ++i) jobs.push_back({&weight, x.data(), 96, together[i].data(), kOut, lists[i]});
        linear(exec, rows, jobs);
        for (std::size_t i = 0; i < 4; ++i) {
          jobs[i].y = alone[i].data();
          linear(exec, rows, {&jobs[i], 1});
          EXPECT_EQ(first_difference(together[i], alone[i]), -1) << table.name << " rows " << rows << " job " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace sluice::linear_jobs_test
