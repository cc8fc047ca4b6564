#include "kernels/ops/attention.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/formats/number_formats.h"
#include "base/sanitizer_testing.h"
#include "kernels/device/cpu_features.h"
#include "kernels/tests/attention_scene_testing.h"
#include "kernels/tests/op_testing.h"
#include "kernels/weights/input_forms.h"
#include "kernels/weights/linear_inputs.h"

namespace sluice::attention_test {
namespace {

using attention_scene::Case;
using attention_scene::Scene;

// Each case whose rows hold bf16 values also runs with products of bf16, in either order.
std::vector<Case> with_bf16(std::vector<Case> cases) {
  for (std::size_t i = 0, count = cases.size(); i < count; ++i) {
    if (cases[i].codec == RowCodec::kF32) continue;
    cases.push_back(cases[i]);
    cases.back().bf16 = true;
    cases.push_back(cases.back());
    cases.back().tiles = true;
  }
  return cases;
}

const std::vector<Case> kCases = with_bf16({
    // V4 in small: window only, CSA, HCA
    {8, 128, 128, 64, 4, 0, RowCodec::kV4Fp8, true, true, false},
    {8, 128, 128, 64, 4, 64, RowCodec::kV4Fp8, true, true, true},
    {8, 128, 128, 64, 128, 0, RowCodec::kV4Fp8, true, true, true},
    {8, 128, 128, 64, 4, 300, RowCodec::kBf16, true, true, true},
    {8, 128, 128, 64, 4, 20, RowCodec::kF32, false, true, true},
    // latent attention over every token, several splits; values narrower than keys; odd head counts and widths
    {5, 576, 512, 64, 1, 0, RowCodec::kBf16, false, false, true},
    {3, 64, 64, 64, 1, 0, RowCodec::kF32, false, false, true},
    {11, 72, 40, 8, 4, 0, RowCodec::kF32, true, true, true, 50},
    {1, 512, 512, 64, 4, 40, RowCodec::kV4Fp8, true, true, true},
    {9, 40, 33, 8, 4, 7, RowCodec::kBf16, true, true, true, 16},
    // GQA: every token; a window; as many key heads as heads; an odd width, whose value begins at a whole vector
    {8, 64, 64, 0, 1, 0, RowCodec::kBf16, false, false, true, 128, 2, 64},
    {6, 32, 32, 0, 1, 0, RowCodec::kF32, false, true, false, 64, 3, 32},
    {3, 64, 64, 0, 1, 0, RowCodec::kF32, false, false, true, 128, 3, 64},
    {4, 40, 33, 0, 1, 0, RowCodec::kF32, false, false, true, 128, 2, 48},
    {6, 80, 48, 0, 1, 0, RowCodec::kBf16, false, true, false, 100, 3, 80},
    {12, 96, 80, 32, 4, 31, RowCodec::kV4Fp8, true, true, true},
    // a window whose first row is no key
    {8, 128, 128, 64, 4, 0, RowCodec::kV4Fp8, true, true, false, 128, 1, 0, false, 1},
});
// Latents whose first row is no key.
const std::vector<Case> kLaterLatents =
    with_bf16({{5, 72, 64, 8, 1, 0, RowCodec::kBf16, false, false, true, 128, 1, 0, false, 1}});

// There are enough heads for threads to share those of one row. One case has two key heads; one is on tiles, with a
// window of no whole slices.
const std::vector<Case> kCutHeads = with_bf16({{12, 64, 64, 0, 1, 0, RowCodec::kBf16, false, false, true, 128, 2, 64},
                                               {32, 64, 64, 16, 4, 0, RowCodec::kBf16, true, true, false, 95}});

std::vector<Case> cases_of_the_formula() {
  std::vector<Case> all = kCases;
  all.insert(all.end(), kLaterLatents.begin(), kLaterLatents.end());
  return all;
}
std::vector<Case> all_cases() {
  std::vector<Case> all = cases_of_the_formula();
  all.insert(all.end(), kCutHeads.begin(), kCutHeads.end());
  return all;
}

std::string describe(const Case& c) {
  return ::testing::PrintToString(std::vector<int>{c.heads, c.dims, c.value_dims, c.tokens_per_row, c.max_selected}) +
         name(c.codec) +
         (c.tiles  ? " tiles"
          : c.bf16 ? " bf16"
                   : "");
}

TEST(Attend, SameBitsOnEveryTable) {
  Random random(61);
  for (const Case& c : all_cases()) {
    SCOPED_TRACE(describe(c));
    const Scene scene(random, c, 650);
    for (const std::vector<Scene::Piece>& pieces : std::vector<std::vector<Scene::Piece>>{
             {{0, 0, 6}, {1, 125, 8}, {2, 640, 1}}, {{0, 570, 1}}, {{2, 255, 3}, {0, 3, 1}}}) {
      expect_same_on_all([&](const Exec& exec) { return scene.attend_to(exec, pieces); });
    }
  }
}

// Rows of floats have one order, whatever else a profile asks for.
TEST(Attend, RowsOfFloatsHaveOneOrder) {
  for (Case c : kCases) {
    if (c.codec != RowCodec::kF32) continue;
    SCOPED_TRACE(describe(c));
    std::vector<float> plain;
    for (const bool tiles : {false, true}) {
      c.bf16 = c.tiles = tiles;
      Random random(71);  // the same values in each run
      const Scene scene(random, c, 300);
      const auto found =
          expect_same_on_all([&](const Exec& exec) { return scene.attend_to(exec, {{0, 0, 6}, {1, 125, 18}}); });
      if (tiles) {
        EXPECT_TRUE(same_bits(found, plain));
      }
      plain = found;
    }
  }
}

TEST(Attend, ARowAloneIsTheRowInAnyBatch) {
  Random random(62);
  for (const Case& c : all_cases()) {
    SCOPED_TRACE(describe(c));
    const Scene scene(random, c, 650);
    const std::size_t width = static_cast<std::size_t>(c.heads * c.value_dims);
    ThreadPool pool(2);
    const Exec exec{&pool, all_tables().back()};
    for (int round = 0; round < (kSanitized ? 2 : 6); ++round) {
      std::vector<Scene::Piece> pieces;
      for (int s : random.permutation(Scene::kSequences)) {
        const std::vector<int> starts{0, 1, 3, 4, 127, 128, 129, random.between(0, 600)};
        const Position first = random.pick(starts);
        pieces.push_back({s, first, random.between(1, std::min(40, 650 - first))});
      }
      const auto batch = scene.attend_to(exec, pieces);
      std::size_t at = 0;
      for (const Scene::Piece& piece : pieces) {
        for (int i = 0; i < piece.rows; ++i, at += width) {
          const auto alone = scene.attend_to(exec, {{piece.sequence, piece.first + i, 1}});
          ASSERT_TRUE(same_bits(std::span(batch).subspan(at, width), alone)) << "position " << piece.first + i;
        }
      }
    }
  }
}

// Attends from spans that follow others. Some heads are whole blocks of the form, and some are not.
TEST(Attend, MakesTheFormOfItsOutputs) {
  Random random(70);
  int form = 0;
  for (const Case& c : kCases) {
    SCOPED_TRACE(describe(c));
    const Scene scene(random, c, 200);
    const InputForm wanted = kPreparedForms[static_cast<std::size_t>(++form) % kPreparedForms.size()];
    expect_same_on_all(
        [&](const Exec& exec) { return scene.attend_to(exec, {{0, 0, 6}, {1, 125, 18}, {2, 190, 1}}, 1, wanted); });
  }
}

// A key that a row does not see is nowhere in its sums, not even times zero, whatever its batch brings into the tile. A
// NaN in a row that it sees makes its output NaN.
TEST(Attend, AKeyOutsideOfTheWindowIsNotTouched) {
  if (kSanitized) GTEST_SKIP() << "what is found are values";
  Random random(66);
  for (const Case& c : kCases) {
    if (!c.window) continue;
    SCOPED_TRACE(describe(c));
    const Scene scene(random, c, 650);
    const Position poisoned = 200, free = poisoned + c.window_tokens;  // the first row after it that does not see it
    scene.poison(0, poisoned);
    expect_same_on_all([&](const Exec& exec) {
      const auto batch = scene.attend_to(exec, {{0, free - 3, 24}});
      const std::size_t width = static_cast<std::size_t>(c.heads * c.value_dims);
      std::vector<float> after(batch.begin() + static_cast<std::ptrdiff_t>(3 * width), batch.end());
      EXPECT_TRUE(std::none_of(batch.begin(), batch.begin() + static_cast<std::ptrdiff_t>(3 * width),
                               [](float v) { return std::isfinite(v); }));
      EXPECT_TRUE(std::all_of(after.begin(), after.end(), [](float v) { return std::isfinite(v); }));
      EXPECT_TRUE(same_bits(std::span(after).first(width), scene.attend_to(exec, {{0, free, 1}})));
      return after;
    });
  }
}

// Rows of FP8 with all codes that are numbers, also under scales far smaller than any that a model writes.
TEST(Attend, EveryCodeOfARow) {
  Random random(67);
  for (const Case& c : with_bf16({{8, 128, 128, 64, 4, 64, RowCodec::kV4Fp8, true, true, true}})) {
    SCOPED_TRACE(describe(c));
    const Scene scene(random, c, 300);
    scene.draw_codes(random);
    expect_same_on_all(
        [&](const Exec& exec) { return scene.attend_to(exec, {{0, 0, 20}, {1, 250, 40}, {2, 290, 1}}); });
  }
}

// The deliberate fault gives the same bits on every table. They differ from the rule's wherever a row sees window keys
// from before its span, and are the rule's where none does.
TEST(Attend, TheFaultMakesTheCutCount) {
  if (kSanitized) GTEST_SKIP() << "what is found are values";
  Random random = Random::fixed(65);
  for (const Case& c : kCases) {
    if (!c.window) continue;
    SCOPED_TRACE(describe(c));
    const Scene scene(random, c, 650);
    const auto attend_to = [&](const Exec& exec, const std::vector<Scene::Piece>& pieces, bool fault) {
      Exec with = exec;
      with.fault_chunk_anchored_splits = fault;
      return scene.attend_to(with, pieces);
    };
    const std::vector<Scene::Piece> pieces{{1, 0, 20}, {0, 290, 24}, {2, 500, 1}};
    const auto expected = expect_same_on_all([&](const Exec& exec) { return attend_to(exec, pieces, false); });
    const auto found = expect_same_on_all([&](const Exec& exec) { return attend_to(exec, pieces, true); });
    const std::size_t width = static_cast<std::size_t>(c.heads * c.value_dims);
    std::size_t at = 0;
    int cut = 0, changed = 0;
    for (const Scene::Piece& piece : pieces) {
      for (int i = 0; i < piece.rows; ++i, at += width) {
        const auto row = std::span(found).subspan(at, width), rule = std::span(expected).subspan(at, width);
        if (piece.first == 0 || i >= c.window_tokens - 1) {
          EXPECT_TRUE(same_bits(row, rule)) << "position " << piece.first + i;
          continue;
        }
        ++cut;
        changed += same_bits(row, rule) ? 0 : 1;
        for (std::size_t v = 0; v < width; ++v)
          ASSERT_NEAR(row[v], rule[v], (c.bf16 ? 1e-2 : 2.3e-6) * (1.0 + std::fabs(rule[v])));
      }
    }
    EXPECT_GT(changed, cut / 2) << "of " << cut;
  }
}

TEST(Attend, IsTheFormula) {
  Random random = Random::fixed(64);
  for (const Case& c : cases_of_the_formula()) {
    SCOPED_TRACE(describe(c));
    const Scene scene(random, c, 650);
    ThreadPool pool(1);
    for (Position p : {0, 1, 2, 3, 4, 126, 127, 128, 200, 649}) {
      const auto found = scene.attend_to(Exec{&pool, all_tables().back()}, {{1, p, 1}});
      if (kSanitized) continue;
      const auto expected = scene.exact(1, p);
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < found.size(); ++i)
        ASSERT_NEAR(found[i], expected[i], (c.bf16 ? 2e-5 : 5e-5) * (1.0 + std::fabs(expected[i])))
            << "position " << p << " value " << i;
    }
  }
}

TEST(Attend, FarPositions) {
  Random random(64);
  for (const Case& c : with_bf16({{8, 128, 128, 64, 4, 64, RowCodec::kV4Fp8, true, true, true}})) {
    const Scene scene(random, c, 5100);
    const auto rows =
        expect_same_on_all([&](const Exec& exec) { return scene.attend_to(exec, {{0, 5000, 20}, {1, 5099, 1}}); });
    ThreadPool pool(4);
    const auto alone = scene.attend_to(Exec{&pool, all_tables().back()}, {{0, 5013, 1}});
    EXPECT_TRUE(same_bits(alone, std::span(rows).subspan(13 * 1024, 1024)));
  }
}

// Row 70,000 of a batch of 64 heads of 512: its queries and outputs lie beyond 2^31 floats. Only one row of all that
// memory is touched.
TEST(Attend, RowsBeyond2To31Floats) {
  constexpr int kRow = 70'000, kHeads = 64, kDims = 512, kSelected = 3;
  constexpr std::size_t kWidth = std::size_t{kHeads} * kDims, kBytes = (kRow + 1) * kWidth * sizeof(float);
  Random random(69);
  const TestPlane latent(random, make_row_format(RowCodec::kV4Fp8, kDims, 64), kBlockTokens / 4, 1);
  const TestPlane window(random, make_row_format(RowCodec::kV4Fp8, kDims, 64), kBlockTokens, 1);
  std::vector<int> latent_pages{0}, window_pages{0};
  const TestSequence sequence(random, 50, 4, latent.view(), window.view(), latent_pages, window_pages);
  const auto map = [&] {
    void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    SLUICE_CHECK(memory != MAP_FAILED, "address space for the test");
    return static_cast<float*>(memory);
  };
  float *q = map(), *out = map();
  std::vector<std::int32_t> selected((kRow + 1) * kSelected, 0), count(kRow + 1, 0);
  const auto attend_at = [&](const Exec& exec, int row) {
    TestStep step;
    step.add(sequence.span(1, 49));
    step.move_first_row(row);
    const std::vector<std::int32_t> entries{1, 5, 11};
    std::copy(entries.begin(), entries.end(), selected.begin() + row * kSelected);
    count[static_cast<std::size_t>(row)] = kSelected;
    AttendArgs args{.rows = row + 1,
                    .heads = kHeads,
                    .dims = kDims,
                    .value_dims = kDims,
                    .q = q,
                    .scale = 0.3F,
                    .step = &step.tables(),
                    .spans = step.tables().spans,
                    .window = &window.view(),
                    .window_tokens = 128,
                    .latent = &latent.view(),
                    .tokens_per_row = 4};
    args.selected = selected.data(), args.selected_count = count.data(), args.max_selected = kSelected;
    args.out = out;
    attend(exec, args);
    const float* found = out + static_cast<std::size_t>(row) * kWidth;
    return std::vector<float>(found, found + kWidth);
  };
  const auto queries = random.floats(kWidth, 0.3F);
  for (const std::size_t row : {0, kRow}) std::copy(queries.begin(), queries.end(), q + row * kWidth);
  const auto first = expect_same_on_all([&](const Exec& exec) { return attend_at(exec, 0); });
  const auto last = expect_same_on_all([&](const Exec& exec) { return attend_at(exec, kRow); });
  EXPECT_TRUE(same_bits(last, first));
  munmap(q, kBytes);
  munmap(out, kBytes);
}

}  // namespace
}  // namespace sluice::attention_test
