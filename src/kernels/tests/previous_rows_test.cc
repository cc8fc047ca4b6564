#include "kernels/ops/previous_rows.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/ops/ops.h"
#include "kernels/tests/op_testing.h"

namespace sluice::previous_rows_test {
namespace {

constexpr int kDims = 37, kTokens = 300, kPages = 3;

struct Kept {
  std::vector<float> y;
  std::vector<std::byte> state;   // after the last row
  std::vector<std::byte> blocks;  // boundaries
};

// Runs the tokens' rows in pieces of up to `largest`. The last `drafts` rows of each piece are computed twice: first
// with other values, and none of those stays. `latents`: latent pages keep the blocks' rows, not window pages.
Kept in_pieces(const Exec& exec, RowCodec codec, const std::vector<float>& x, int largest, int drafts, bool latents) {
  Random random(903);
  const RowFormat format = make_row_format(codec, kDims, 0);
  const auto bytes = static_cast<std::size_t>(format.row_bytes());
  std::vector<WindowPage> windows;
  std::vector<LatentPage> latent_pages;
  for (int b = 0; b < kPages; ++b) windows.emplace_back(kPages - 1 - b), latent_pages.emplace_back(kPages - 1 - b);
  Kept kept{{}, std::vector<std::byte>(bytes), std::vector<std::byte>((bytes + 15) / 16 * 16 * kPages)};
  const PlaneView boundaries{
      .base = kept.blocks.data(), .page_bytes = (bytes + 15) / 16 * 16, .rows_per_page = 1, .format = format};
  for (Position p = 0; p < kTokens;) {
    const int rows = std::min(kTokens - p, random.between(1, largest)), wrong = std::min({drafts, kTokens - p - rows});
    std::vector<float> piece(x.begin() + std::ptrdiff_t{p} * kDims, x.begin() + std::ptrdiff_t{p + rows} * kDims);
    for (int i = 0; i < wrong * kDims; ++i) piece.push_back(random.normal());
    const BatchSpan span{.rows = rows + wrong,
                         .first_position = p,
                         .latent_pages = latent_pages,
                         .window_pages = windows,
                         .states = 2 + wrong,
                         .drafts = wrong};
    TestStep step(latents ? std::vector<int>{1, kBlockTokens} : std::vector<int>{}, !latents);
    step.add(span);
    std::vector<std::byte> states = kept.state;
    states.resize(bytes * static_cast<std::size_t>(2 + wrong));
    std::vector<float> y(piece.size());
    PreviousRowsArgs args{.format = format, .step = &step.tables(), .x = piece.data(), .y = y.data()};
    args.states = states.data(), args.state_bytes = bytes, args.boundaries = &boundaries;
    args.of_latents = latents;
    previous_rows(exec, args);
    const std::byte* after = states.data() + static_cast<std::size_t>(span.state_after(rows - 1)) * bytes;
    kept.state.assign(after, after + bytes);
    kept.y.insert(kept.y.end(), y.begin(), y.begin() + std::ptrdiff_t{rows} * kDims);
    p += rows;
  }
  return kept;
}

TEST(PreviousRows, AreThoseOfThePositionBeforeHoweverCut) {
  Random random(901);
  const std::vector<float> x = random.floats(kTokens * kDims);
  for (const RowCodec codec : {RowCodec::kF32, RowCodec::kBf16}) {
    std::vector<float> coded = x;
    for (int t = 0; t < kTokens; ++t) simulate_row(codec, kDims, 0, coded.data() + t * kDims);
    std::vector<float> expected(kDims, 0.0F);
    expected.insert(expected.end(), coded.begin(), coded.end() - kDims);
    const RowFormat format = make_row_format(codec, kDims, 0);
    const auto row = [&](const std::vector<std::byte>& bytes, std::size_t at) {
      std::vector<float> values(kDims);
      decode_row(format, {const_cast<std::byte*>(bytes.data()) + at, nullptr}, values.data());
      return values;
    };
    const auto of = [&](Position p) { return std::span(coded).subspan(static_cast<std::size_t>(p) * kDims, kDims); };
    for (const int largest : {1, 3, 128, kTokens}) {
      for (const int drafts : {0, 2}) {
        expect_same_on_all([&](const Exec& exec) {
          const Kept kept = in_pieces(exec, codec, x, largest, drafts, largest % 2 == 1);
          EXPECT_TRUE(same_bits(kept.y, expected));
          EXPECT_TRUE(same_bits(row(kept.state, 0), of(kTokens - 1)));
          const std::size_t page = (static_cast<std::size_t>(format.row_bytes()) + 15) / 16 * 16;
          for (int b = 0; b < kTokens / kBlockTokens; ++b) {
            EXPECT_TRUE(same_bits(row(kept.blocks, (kPages - 1 - static_cast<std::size_t>(b)) * page),
                                  of((b + 1) * kBlockTokens - 1)))
                << "block " << b;
          }
          return kept.y;
        });
      }
    }
  }
}

// Rows that only read the residual before them write nothing.
TEST(PreviousRows, WithoutRowsAStateIsOnlyRead) {
  Random random(902);
  const RowFormat format = make_row_format(RowCodec::kBf16, kDims, 0);
  const auto bytes = static_cast<std::size_t>(format.row_bytes());
  std::vector<std::byte> states(4 * bytes);
  for (std::size_t s = 0; s < 4; ++s) {
    encode_row(format, random.floats(kDims).data(), {states.data() + s * bytes, nullptr});
  }
  const std::vector<std::byte> before = states;
  TestStep step;
  const std::vector<WindowPage> windows{WindowPage(0)};
  step.add({.rows = 1, .first_position = 127, .window_pages = windows, .state_in = 3, .first_state = 2});
  step.add({.rows = 1, .first_position = 4, .window_pages = windows, .state_in = 0, .first_state = 0});
  std::vector<float> expected(2 * kDims);
  decode_row(format, {states.data() + 3 * bytes, nullptr}, expected.data());
  decode_row(format, {states.data(), nullptr}, expected.data() + kDims);
  std::vector<std::byte> blocks(128);
  const PlaneView boundaries{.base = blocks.data(), .page_bytes = 128, .rows_per_page = 1, .format = format};
  const std::vector<std::byte> untouched = blocks;
  const auto found = expect_same_on_all([&](const Exec& exec) {
    std::vector<float> y(2 * kDims);
    previous_rows(exec, {.format = format,
                         .step = &step.tables(),
                         .y = y.data(),
                         .states = states.data(),
                         .state_bytes = bytes,
                         .boundaries = &boundaries});
    return y;
  });
  EXPECT_TRUE(same_bits(found, expected));
  EXPECT_TRUE(states == before && blocks == untouched);
}

}  // namespace
}  // namespace sluice::previous_rows_test
