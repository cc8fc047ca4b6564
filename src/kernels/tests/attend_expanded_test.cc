#include "kernels/ops/attend_expanded.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/tests/op_testing.h"

namespace sluice::attend_expanded_test {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();
constexpr float kScale = 0.3F;

struct Result {
  std::vector<float> out, lse;
};

// Rows of one span with their expanded keys. Rows of q and out lie further apart than they are long, and the gaps must
// stay as they were.
struct Scene {
  int rows, heads, key_dims, value_dims, keys;
  std::vector<float> q, kv;

  Scene(Random& random, int rows_, int heads_, int key_dims_, int value_dims_, int keys_)
      : rows(rows_), heads(heads_), key_dims(key_dims_), value_dims(value_dims_), keys(keys_) {
    q = random.floats(static_cast<std::size_t>(rows * ldq()));
    kv = random.floats(static_cast<std::size_t>(heads * keys * row_floats()));
    const int offset = expanded_value_offset(key_dims);
    for (int i = 0; i < heads * keys; ++i) {  // the padding of a key is zeros, that of a value anything
      std::fill(kv.begin() + i * row_floats() + key_dims, kv.begin() + i * row_floats() + offset, 0.0F);
      std::fill(kv.begin() + i * row_floats() + offset + value_dims, kv.begin() + (i + 1) * row_floats(), NAN);
    }
  }
  int ldq() const { return heads * key_dims + 3; }
  int ldo() const { return heads * value_dims + 5; }
  int row_floats() const { return expanded_row_floats(key_dims, value_dims); }

  // Attends with rows [begin, end) to keys [first, last); row r of the scene sees those below visible + r.
  Result attend(const Exec& exec, int visible, int begin, int end, int first, int last) const {
    std::vector<float> some;
    for (int h = 0; h < heads; ++h) {
      some.insert(some.end(), kv.begin() + (h * keys + first) * row_floats(),
                  kv.begin() + (h * keys + last) * row_floats());
    }
    const auto count = static_cast<std::size_t>(end - begin);
    std::vector<float> out(count * static_cast<std::size_t>(ldo()), 7.0F);
    std::vector<float> lse(count * static_cast<std::size_t>(heads + 1), 8.0F);
    AttendExpandedArgs args;
    args.rows = end - begin, args.heads = heads, args.key_dims = key_dims, args.value_dims = value_dims;
    args.q = q.data() + begin * ldq(), args.ldq = ldq(), args.scale = kScale;
    args.keys = last - first, args.visible = visible + begin - first;
    args.kv = some.data();
    args.out = out.data(), args.ldo = ldo();
    args.lse = lse.data(), args.ld_lse = heads + 1;
    attend_expanded(exec, args);
    return packed(out, lse, end - begin);
  }
  Result attend(const Exec& exec, int visible) const { return attend(exec, visible, 0, rows, 0, keys); }

  Result packed(const std::vector<float>& out, const std::vector<float>& lse, int count) const {
    Result result;
    const int width = heads * value_dims;
    for (int r = 0; r < count; ++r) {
      const auto row = out.begin() + r * ldo();
      result.out.insert(result.out.end(), row, row + width);
      for (int i = width; i < ldo(); ++i) EXPECT_EQ(row[i], 7.0F) << "behind row " << r;
      const auto of_row = lse.begin() + r * (heads + 1);
      result.lse.insert(result.lse.end(), of_row, of_row + heads);
      EXPECT_EQ(of_row[heads], 8.0F) << "behind row " << r;
    }
    return result;
  }

  // One row and head in double precision; lse follows the values.
  std::vector<double> exact(int row, int head, int visible) const {
    const int seen = std::clamp(visible + row, 0, keys);
    std::vector<double> scores, out(static_cast<std::size_t>(value_dims));
    double sum = 0;
    for (int i = 0; i < seen; ++i) {
      double dot = 0;
      for (int d = 0; d < key_dims; ++d) dot += double{q_at(row, head, d)} * double{kv_at(head, i, d)};
      scores.push_back(std::exp(dot * double{kScale}));
      sum += scores.back();
    }
    for (int i = 0; i < seen; ++i) {
      for (int d = 0; d < value_dims; ++d) {
        out[static_cast<std::size_t>(d)] +=
            scores[static_cast<std::size_t>(i)] / sum * double{kv_at(head, i, expanded_value_offset(key_dims) + d)};
      }
    }
    out.push_back(std::log(sum));
    return out;
  }
  float q_at(int row, int head, int d) const { return q[static_cast<std::size_t>(row * ldq() + head * key_dims + d)]; }
  float kv_at(int head, int key, int d) const {
    return kv[static_cast<std::size_t>((head * keys + key) * row_floats() + d)];
  }
};

std::vector<float> joined(const Result& result) {
  std::vector<float> all = result.out;
  all.insert(all.end(), result.lse.begin(), result.lse.end());
  return all;
}

struct Case {
  int rows, heads, key_dims, value_dims, keys, visible;
};
const std::vector<Case> kCases{
    {70, 2, 192, 128, 200, 131},  // V2-Lite's and V3's widths: a prefix, and keys that later rows see only
    {70, 2, 192, 128, 70, 1},     // a span's own keys
    {5, 3, 192, 128, 130, 500},   // a prefix that all rows see
    {130, 1, 40, 24, 130, 1},     // widths that are not whole vectors, several tiles of rows
    {33, 2, 24, 7, 65, -10},      // rows that see nothing
    {1, 1, 1, 1, 1, 1},          {3, 2, 16, 16, 64, -9}, {20, 1, 96, 64, 300, 64}, {3, 4, 64, 32, 0, 5},
};

TEST(AttendExpanded, SameBitsOnEveryTable) {
  Random random(71);
  for (const Case& c : kCases) {
    const Scene scene(random, c.rows, c.heads, c.key_dims, c.value_dims, c.keys);
    expect_same_on_all([&](const Exec& exec) { return joined(scene.attend(exec, c.visible)); });
  }
}

TEST(AttendExpanded, IsTheFormula) {
  Random random = Random::fixed(72);
  ThreadPool pool(2);
  const Exec exec{&pool, all_tables().back()};
  for (const Case& c : kCases) {
    const Scene scene(random, c.rows, c.heads, c.key_dims, c.value_dims, c.keys);
    const Result found = scene.attend(exec, c.visible);
    for (int r = 0; r < c.rows; ++r) {
      for (int h = 0; h < c.heads; ++h) {
        const auto expected = scene.exact(r, h, c.visible);
        const std::size_t at = static_cast<std::size_t>(r * c.heads + h);
        for (std::size_t d = 0; d < static_cast<std::size_t>(c.value_dims); ++d) {
          ASSERT_NEAR(found.out[at * static_cast<std::size_t>(c.value_dims) + d], expected[d],
                      5e-5 * (1 + std::fabs(expected[d])))
              << "row " << r << " head " << h;
        }
        if (std::min(c.keys, c.visible + r) <= 0) {
          ASSERT_EQ(found.lse[at], kNothing);
        } else {
          ASSERT_NEAR(found.lse[at], expected.back(), 7e-7 * (1 + std::fabs(expected.back())));
        }
      }
    }
  }
}

TEST(AttendExpanded, ARowAloneIsTheRowAmongOthers) {
  Random random(73);
  ThreadPool pool(2);
  const Exec exec{&pool, all_tables().back()};
  for (const Case& c : kCases) {
    const Scene scene(random, c.rows, c.heads, c.key_dims, c.value_dims, c.keys);
    const Result all = scene.attend(exec, c.visible);
    const auto width = static_cast<std::size_t>(c.heads * c.value_dims), heads = static_cast<std::size_t>(c.heads);
    for (int r = 0; r < c.rows; ++r) {
      const Result alone = scene.attend(exec, c.visible, r, r + 1, 0, c.keys);
      const auto row = static_cast<std::size_t>(r);
      ASSERT_TRUE(same_bits(alone.out, std::span(all.out).subspan(row * width, width))) << "row " << r;
      ASSERT_TRUE(same_bits(alone.lse, std::span(all.lse).subspan(row * heads, heads))) << "row " << r;
    }
  }
}

// Merges the part's values and lse into the total's.
void merge(const Exec& exec, int value_dims, const Result& part, Result& total) {
  MergeAttentionArgs args;
  args.rows = static_cast<int>(part.lse.size()), args.value_dims = value_dims;
  args.part = part.out.data(), args.part_lse = part.lse.data();
  args.total = total.out.data(), args.total_lse = total.lse.data();
  merge_attention(exec, args);
}

// Keys in pieces of any size, some of them unseen by the first rows, give the result of all keys at once.
TEST(MergeAttention, PiecesAreTheWhole) {
  Random random = Random::fixed(74);
  ThreadPool pool(2);
  const Exec exec{&pool, all_tables().back()};
  for (const int piece : {1, 7, 64, 129, 1000}) {
    const int keys = 300, rows = 90;
    const Scene scene(random, rows, 2, 40, 24, keys);
    const int visible = -3;
    const Result whole = scene.attend(exec, visible);
    Result total{std::vector<float>(whole.out.size()), std::vector<float>(whole.lse.size(), kNothing)};
    for (int first = 0; first < keys; first += piece) {
      merge(exec, 24, scene.attend(exec, visible, 0, rows, first, std::min(keys, first + piece)), total);
    }
    for (std::size_t i = 0; i < whole.out.size(); ++i) {
      ASSERT_NEAR(total.out[i], whole.out[i], 5.5e-6 * (1 + std::fabs(whole.out[i]))) << "pieces of " << piece;
    }
    for (std::size_t i = 0; i < whole.lse.size(); ++i) {
      if (whole.lse[i] == kNothing) {
        ASSERT_EQ(total.lse[i], kNothing);
      } else {
        ASSERT_NEAR(total.lse[i], whole.lse[i], 1e-6 * (1 + std::fabs(whole.lse[i])));
      }
    }
  }
}

TEST(MergeAttention, SameBitsOnEveryTable) {
  Random random(75);
  for (const int width : {1, 16, 40, 128}) {
    const std::size_t rows = 37, floats = rows * static_cast<std::size_t>(width);
    const Result part{random.floats(floats), random.floats(rows, 30.0F)};
    Result total{random.floats(floats), random.floats(rows, 30.0F)};
    total.lse[3] = total.lse[5] = kNothing;
    Result holes = part;
    holes.lse[4] = holes.lse[5] = kNothing;
    expect_same_on_all([&](const Exec& exec) {
      Result merged = total;
      merge(exec, width, holes, merged);
      return joined(merged);
    });
  }
}

TEST(MergeAttention, AnEmptySideChangesNothing) {
  for (const KernelTable* table : all_tables()) {
    SCOPED_TRACE(table->name);
    ThreadPool pool(1);
    const Exec exec{&pool, table};
    const Result some{{1.5F, -0.0F, 3e30F}, {2.25F}}, nothing{{NAN, NAN, INFINITY}, {kNothing}};
    Result total = nothing;
    merge(exec, 3, some, total);
    EXPECT_TRUE(same_bits(joined(total), joined(some))) << "nothing, then something";
    merge(exec, 3, nothing, total);
    EXPECT_TRUE(same_bits(joined(total), joined(some))) << "something, then nothing";
    total = nothing;
    merge(exec, 3, nothing, total);
    EXPECT_TRUE(same_bits(joined(total), std::vector<float>{0.0F, 0.0F, 0.0F, kNothing})) << "nothing twice";
  }
}

// Sides of equal weight give the mean; if one is far larger, it is the result.
TEST(MergeAttention, WeighsByLogSumExp) {
  for (const KernelTable* table : all_tables()) {
    ThreadPool pool(1);
    const Exec exec{&pool, table};
    Result total{{1.0F, 2.0F}, {100.0F}};
    merge(exec, 2, {{3.0F, 6.0F}, {100.0F}}, total);
    EXPECT_TRUE(same_bits(total.out, std::vector<float>{2.0F, 4.0F}));
    EXPECT_NEAR(total.lse[0], 100.0 + std::log(2.0), 4e-6);
    merge(exec, 2, {{-9.0F, -9.0F}, {-300.0F}}, total);
    EXPECT_TRUE(same_bits(total.out, std::vector<float>{2.0F, 4.0F}));
    merge(exec, 2, {{-9.0F, 8.0F}, {3000.0F}}, total);
    EXPECT_TRUE(same_bits(joined(total), std::vector<float>{-9.0F, 8.0F, 3000.0F}));
  }
}

}  // namespace
}  // namespace sluice::attend_expanded_test
