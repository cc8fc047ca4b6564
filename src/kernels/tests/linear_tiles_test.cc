// Products on tiles in chunks of inputs and batches of outputs, whole and not: the bits of the scalar kernel.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string_view>
#include <vector>

#include "base/aligned.h"
#include "base/test_seed_testing.h"
#include "kernels/device/isa.h"
#include "kernels/tests/linear_testing.h"
#include "kernels/weights/input_forms.h"

namespace sluice::linear_tiles_test {
namespace {

// Rows of y lie at multiples of a cache line, or not: the kernel writes those differently.
AlignedBytes product(const KernelTable& table, ThreadPool& pool, const LinearWeight& weight,
                     const std::vector<float>& x, int rows, std::ptrdiff_t ldy) {
  AlignedBytes y(static_cast<std::size_t>(ldy * rows) * sizeof(float), true);
  const LinearJob job{&weight, x.data(), weight.in(), y.as<float>(), ldy, nullptr};
  linear(Exec{&pool, &table}, rows, {&job, 1});
  return y;
}

TEST(LinearTiles, ManyRowsAndInputsGiveTheScalarBits) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  ThreadPool pool(1);
  for (const WeightForm& spec : weight_forms()) {
    if (input_form(InputForm::kTiles, spec.format) != InputForm::kTiles) continue;
    const int out = 33 + static_cast<int>(random() % 300);
    constexpr int kMost = 100;
    const RandomWeight values(random, spec, out, 1 + static_cast<int>(random() % 1400));
    const int in = values.view().in;
    const auto x = random_inputs(random, static_cast<std::size_t>(kMost) * static_cast<std::size_t>(in));
    const std::ptrdiff_t whole_lines = (out + 31) / 16 * 16;
    const auto pack = [&](const KernelTable& table) {
      return LinearWeight::make(values.view(), InputForm::kTiles, packs_for(Exec{&pool, &table}));
    };
    const AlignedBytes want = product(scalar_kernels(), pool, pack(scalar_kernels()), x, kMost, whole_lines);
    for (const KernelTable& table : linear_tables()) {
      if (std::string_view(table.isa) == "scalar") continue;  // `want` is its result
      const LinearWeight weight = pack(table);
      for (const int rows : {1, 16, 49, 64, 65, kMost}) {
        for (const std::ptrdiff_t ldy : {whole_lines, whole_lines + 3}) {
          const AlignedBytes y = product(table, pool, weight, x, rows, ldy);
          for (int r = 0; r < rows; ++r) {
            const auto bytes = static_cast<std::size_t>(out) * sizeof(float);
            ASSERT_EQ(std::memcmp(y.as<float>() + r * ldy, want.as<float>() + r * whole_lines, bytes), 0)
                << table.name << " " << describe(spec) << " rows " << rows << " out " << out << " in " << in << ", row "
                << r << ", " << ldy << " apart";
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace sluice::linear_tiles_test
