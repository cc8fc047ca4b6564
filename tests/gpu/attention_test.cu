// Attention of the profile sm90 over official FP8 rows (kernels/cuda/sm90/attend_rows.h) gives the bits of a plain
// kernel of that order, whatever rows are computed together; and its distance from f64.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/formats/number_formats.h"
#include "kernels/ops/attention.h"
#include "kernels/composed/composed_rows.h"
#include "kernels/cuda/sm90/attend_rows.h"
#include "kernels/cuda/sm90/sm90_ops.h"
#include "kernels/ops/ops.h"
#include "attention_world.h"
#include "plain_attention.h"
#include "sm90_testing.h"

namespace sluice::gpu_attention_test {
namespace {

using namespace sm90_testing;

struct Case {
  const char* name;
  Shape shape;
  std::vector<TestSpan> spans;
};
const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"CSA", {64, 512, 4, 512}, {{1, 5000}, {1, 200}, {3, 2500}, {1, 0}, {40, 3000}, {17, 0}, {1, 9999}}},
      {"HCA", {64, 512, 128, 0}, {{1, 16383}, {1, 65535}, {20, 8100}, {1, 100}, {1, 127}}},
      {"window", {64, 512, 0, 0}, {{1, 0}, {1, 63}, {1, 64}, {130, 10}, {1, 5000}}},
      {"CSA of 128 heads", {128, 512, 4, 1024}, {{1, 6000}, {2, 300}, {1, 4500}}},
      {"segments", {64, 512, 128, 0}, {{1, 300000}, {2, 131000}, {1, 114688 - 1}, {1, 114687 + 128}, {1, 70}}},
      {"small CSA", {8, 128, 4, 64}, {{1, 700}, {300, 0}, {2, 255}}},
      {"small, all entries", {4, 128, 4, 0}, {{1, 9000}, {5, 4000}, {1, 3}, {30, 3570}}},
      {"any scale", {64, 512, 4, 512, 1}, {{1, 5000}, {9, 100}}},
      {"some of any scale", {64, 512, 4, 512, 60}, {{1, 6000}, {5, 1000}}},
      {"segments, some of any scale", {64, 512, 128, 0, 100}, {{1, 200000}, {1, 140000}}},
      {"small, any scale", {20, 128, 4, 0, 1}, {{1, 2000}, {9, 100}}}};
  return all;
}

class GpuAttention : public Sm90Test {
 protected:
  // Tells which heads and dims of a row differ, eight heads a line: a digit for each 64 dims gives how many eighths.
  std::string where(const float* out, const float* expected, int heads, int dims) {
    std::vector<float> rows[2];
    for (const float* from : {out, expected}) {
      std::vector<float>& row = rows[from == out ? 0 : 1];
      row.resize(static_cast<std::size_t>(heads) * dims);
      gpu().download({reinterpret_cast<std::byte*>(row.data()), reinterpret_cast<const std::byte*>(from),
                      row.size() * sizeof(float)});
    }
    gpu().wait();
    std::string text;
    for (int h = 0; h < heads; h += 8) {
      text += "\n";
      for (int d = 0; d < dims; d += 64) {
        int count = 0, at = -1;
        for (int i = 0; i < 8 * 64 && h + i / 64 < heads; ++i) {
          const int here = (h + i / 64) * dims + d + i % 64;
          if (std::memcmp(&rows[0][here], &rows[1][here], sizeof(float)) != 0) ++count, at = here;
        }
        text += count == 0
                    ? " 0"
                    : " " + std::to_string((count + 63) / 64) + "(" + std::to_string(rows[0][at] / rows[1][at]) + ")";
      }
    }
    return text;
  }
};

TEST_F(GpuAttention, EveryRowHasTheBitsOfThePlainKernelAloneAndAmongOthers) {
  for (const Case& of : cases()) {
    World world(random_, of.shape, of.spans);
    for (const bool with_sink : {true, false}) {
      const std::vector<float> plain = world.plain(with_sink);
      const OnDevice<float> expected(plain);
      const auto compare = [&](const float* out, int row, int rows, const char* what) {
        const std::size_t at = static_cast<std::size_t>(row) * world.row_values();
        EXPECT_EQ(different(out + at, expected.data() + at, static_cast<std::size_t>(rows) * world.row_values()), 0U)
            << of.name << ", sink " << with_sink << ", " << what << ", rows " << row << " to " << row + rows
            << where(out + at, expected.data() + at, of.shape.heads, of.shape.dims);
      };
      compare(world.run(exec_, false, 0, static_cast<int>(of.spans.size()), with_sink), 0, world.rows(), "all spans");
      compare(world.run(exec_, true, 0, world.rows(), with_sink), 0, world.rows(), "each row a span");
      for (const int cluster : {1, 2, 4, 8}) {
        if (of.shape.dims != 512) break;
        const std::string what = "by " + std::to_string(cluster) + " blocks";
        compare(world.run(exec_, false, 0, static_cast<int>(of.spans.size()), with_sink, cluster), 0, world.rows(),
                what.c_str());
      }
      for (int r = 0; r < world.rows(); r += r < 4 ? 1 : 13)
        compare(world.run(exec_, true, r, 1, with_sink), r, 1, "alone");
      int row = of.spans[0].rows;
      for (int s = 1; s < static_cast<int>(of.spans.size()); ++s) {
        const int rows = of.spans[static_cast<std::size_t>(s)].rows;
        compare(world.run(exec_, false, s, 1, with_sink), row, rows, "one span");
        row += rows;
      }
      if (HasFailure()) return;
    }
  }
}

TEST_F(GpuAttention, FinishesWhatItGivesAsTheOpsBehindItWould) {
  for (const Case& of : cases()) {
    World world(random_, of.shape, of.spans);
    const auto expected = world.finished(exec_, 0, true);
    for (const int cluster : {0, 1, 2, 4, 8}) {
      if (cluster > 1 && of.shape.dims != 512) continue;
      const auto pairs = world.finished(exec_, cluster, false, true)[1];
      ASSERT_EQ(std::memcmp(pairs.data(), expected[1].data(), pairs.size() * sizeof(float)), 0)
          << of.name << " by " << cluster << " blocks, bf16 alone";
      const auto given = world.finished(exec_, cluster, false);
      for (const std::size_t i : {0U, 1U}) {
        ASSERT_EQ(std::memcmp(given[i].data(), expected[i].data(), expected[i].size() * sizeof(float)), 0)
            << of.name << " by " << cluster << " blocks, " << (i == 0 ? "values" : "bf16");
      }
    }
  }
}

// The queries come from the kernel ahead, and two forms of the output are wanted.
TEST_F(GpuAttention, ReadsNoQueryBeforeTheKernelAheadHasEnded) {
  for (const Shape& shape : {Shape{64, 512, 4, 512}, Shape{20, 128, 4, 0, 3}}) {
    for (const std::vector<TestSpan>& spans : {std::vector<TestSpan>{{1, 700}}, {{1, 300}, {3, 90}}, {{30, 100}}}) {
      const bool brief = gpu_test_options().managed;
      World world(random_, shape, spans);
      if (brief && world.rows() > 1) break;
      const auto expected = world.finished(exec_, 0, true, false, true);
      for (const bool forms_only : {true, false}) {
        for (const int cluster : {0, 1, 2, 4, 8}) {
          if ((cluster > 1 && shape.dims != 512) || (brief && cluster == 2)) continue;
          const auto given = world.finished(exec_, cluster, false, forms_only, true);
          for (const std::size_t i : {1U, 2U}) {
            if (i == 2 && cluster > 0) continue;  // made by attend()
            ASSERT_EQ(std::memcmp(given[i].data(), expected[i].data(), expected[i].size() * sizeof(float)), 0)
                << world.rows() << " rows by " << cluster << " blocks, forms only " << forms_only << ", " << i;
          }
        }
      }
    }
  }
}

// There are more sums of segments than the workspace can hold: queries stay where they are, and other rows' sums follow
// each other.
TEST_F(GpuAttention, ManyRowsOfSeveralSegmentsAreComputedInPieces) {
  World world(random_, {4, 512, 128, 0}, {{2, 131072}, {3600, 260000}});
  const auto expected = world.finished(exec_, 0, true), given = world.finished(exec_, 0, false, true);
  for (int r = 0; r < world.rows(); ++r) {
    const std::size_t floats = world.row_values() / 2, at = static_cast<std::size_t>(r) * floats;
    ASSERT_EQ(std::memcmp(&given[1][at], &expected[1][at], floats * sizeof(float)), 0) << r;
  }
}

TEST_F(GpuAttention, EveryNumberOfRowsGivesTheSameBits) {
  std::vector<TestSpan> spans;
  for (int i = 0; i < 300; ++i) spans.push_back({1, static_cast<int>(random_() % 2600)});
  for (const Shape& shape : {Shape{64, 512, 4, 512}, Shape{8, 128, 4, 64}}) {
    World world(random_, shape, spans);
    const OnDevice<float> expected(world.plain(true));
    for (int rows = 1; rows <= 300; ++rows) {
      const int first = (rows * 7) % (300 - rows + 1);
      const float* out = world.run(exec_, false, first, rows, true);
      const std::size_t at = static_cast<std::size_t>(first) * world.row_values();
      ASSERT_EQ(different(out + at, expected.data() + at, static_cast<std::size_t>(rows) * world.row_values()), 0U)
          << rows << " rows";
    }
  }
}

TEST_F(GpuAttention, ClustersOfEverySizeGiveTheSameBitsForFewRows) {
  std::vector<TestSpan> spans;
  for (int i = 0; i < 64; ++i)
    spans.push_back({1, static_cast<int>(i % 2 == 0 ? 1500 + random_() % 9000 : random_() % 2600)});
  World world(random_, {64, 512, 4, 1300, 40}, spans);  // up to two segments, some blocks in units of their own
  const OnDevice<float> expected(world.plain(true));
  for (const int cluster : {1, 2, 4, 8}) {
    for (int rows = 1; rows <= 64; ++rows) {
      const int first = rows * 5 % (64 - rows + 1);
      const float* out = world.run(exec_, false, first, rows, true, cluster);
      const std::size_t at = static_cast<std::size_t>(first) * world.row_values();
      ASSERT_EQ(different(out + at, expected.data() + at, static_cast<std::size_t>(rows) * world.row_values()), 0U)
          << rows << " rows by " << cluster << " blocks each";
    }
  }
}

TEST_F(GpuAttention, IsCloseToF64OnTheSameRoundedInputs) {
  for (const Case& of : cases()) {
    World world(random_, of.shape, of.spans);
    const float* out = world.run(exec_, false, 0, static_cast<int>(of.spans.size()), true);
    std::vector<float> all(static_cast<std::size_t>(world.rows()) * world.row_values());
    gpu().download({reinterpret_cast<std::byte*>(all.data()), reinterpret_cast<const std::byte*>(out), all.size() * 4});
    gpu().wait();
    double worst = 0.0;
    for (int r = 0; r < world.rows(); r += r < 4 ? 1 : 29) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(r) * world.row_values());
      const std::vector<float> row(begin, begin + static_cast<std::ptrdiff_t>(world.row_values()));
      const double distance = relative_distance(row, world.exact(r, true));
      worst = std::isnan(distance) ? distance : std::max(worst, distance);
    }
    EXPECT_LT(worst, 2e-3) << of.name;
    std::printf("%s: relative distance from f64 %.2e\n", of.name, worst);
  }
}

}  // namespace
}  // namespace sluice::gpu_attention_test
