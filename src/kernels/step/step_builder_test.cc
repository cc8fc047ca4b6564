#include "kernels/step/step_builder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>
#include <vector>

#include "base/test_seed_testing.h"

namespace sluice::step_builder_test {
namespace {

struct Sequence {
  BatchSpan span;
  std::int32_t draft_slot = -1, newest_slot = -1;
  std::vector<LatentPage> latents;
  std::vector<WindowPage> windows;
  std::vector<TokenId> ids;
};

// Compares each table with its definition, row by row, for steps of random spans.
TEST(StepBuilder, TablesAreWhatTheSpansSay) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<std::uint32_t>(n)); };
  StepBuilder builder(TableShape{.ratios = {1, 4, 128}, .windows = true});
  for (int round = 0; round < 50; ++round) {
    std::vector<Sequence> sequences(static_cast<std::size_t>(1 + below(4)));
    builder.begin();
    std::vector<std::int32_t> wanted_rows;
    int rows = 0;
    for (Sequence& s : sequences) {
      s.span.rows = 1 + below(300);
      s.span.first_position = below(500);
      s.span.latents_from = s.span.first_position + below(200);
      s.span.first_window_block = std::max(0, s.span.first_position / kBlockTokens - below(2));
      const int blocks = (s.span.first_position + s.span.rows + kBlockTokens - 1) / kBlockTokens;
      for (int b = 0; b < blocks; ++b) s.latents.emplace_back(below(1000));
      for (int b = s.span.first_window_block; b < blocks; ++b) s.windows.emplace_back(below(1000));
      for (int i = 0; i < s.span.rows; ++i) s.ids.push_back(below(5000));
      s.span.latent_pages = s.latents, s.span.window_pages = s.windows;
      s.span.drafts = below(std::min(s.span.rows, 9));
      s.span.states = s.span.drafts + 2 + below(3);
      s.span.first_state = below(9), s.span.state_in = s.span.first_state + below(s.span.states);
      const std::vector<int> wanted{below(s.span.rows)};
      wanted_rows.push_back(rows + wanted[0]);
      rows += s.span.rows;
      // Drafts are known, or in slots, and so may be the token before them.
      s.draft_slot = below(2) == 0 ? 100 + below(9) : -1;
      const bool known = s.span.rows == 1 + s.span.drafts || below(2) == 0;
      s.newest_slot = known ? -1 : 50 + below(9);
      const std::span<const TokenId> ids = s.ids;
      const std::size_t before = ids.size() - static_cast<std::size_t>(s.span.drafts) - (known ? 0 : 1);
      const std::span<const TokenId> drafts = ids.last(static_cast<std::size_t>(s.span.drafts));
      builder.add(s.span, ids.first(before), wanted, s.newest_slot,
                  s.draft_slot < 0 ? drafts : std::span<const TokenId>(), s.draft_slot);
    }
    const StepTables& step = builder.finish();
    ASSERT_EQ(step.rows(), rows);
    ASSERT_TRUE(std::equal(wanted_rows.begin(), wanted_rows.end(), step.logit_rows.begin(), step.logit_rows.end()));
    std::vector<std::int32_t> closed(3, 0);
    std::int32_t ended = 0;
    Position end = 0;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      const Sequence& s = sequences[i];
      const RowSpan& span = step.spans[i];
      EXPECT_EQ(span.state_in, s.span.state_in);
      EXPECT_EQ(step.ended_blocks[i], ended);
      const int ratios[] = {1, 4, 128};
      for (std::size_t r = 0; r < 3; ++r) ASSERT_EQ(step.closed_by(ratios[r]).begin[i], closed[r]);
      for (int t = 0; t < span.rows; ++t) {
        const auto row = static_cast<std::size_t>(span.row_begin + t);
        const Position p = s.span.first_position + t;
        end = std::max(end, p + 1);
        const int draft = t - (span.rows - s.span.drafts);  // -1: the row before them
        const std::int32_t slot = draft >= 0 && s.draft_slot >= 0 ? s.draft_slot + draft
                                  : draft == -1                   ? s.newest_slot
                                                                  : -1;
        EXPECT_EQ(step.ids[row], slot < 0 ? s.ids[static_cast<std::size_t>(t)] : -1);
        EXPECT_EQ(step.id_slots != nullptr ? step.id_slots[row] : -1, slot);
        EXPECT_EQ(step.positions[row], p);
        const int kept = t - (span.rows - 1 - s.span.drafts);  // among the rows that may be the last
        const int after = (s.span.state_in - s.span.first_state + 1 + kept) % s.span.states;
        EXPECT_EQ(step.states_after[row], kept < 0 ? -1 : s.span.first_state + after);
        const auto block = static_cast<std::size_t>(p / kBlockTokens);
        const WindowPage window = s.windows[block - static_cast<std::size_t>(s.span.first_window_block)];
        EXPECT_EQ(step.latent_page(span, p / kBlockTokens), s.latents[block]);
        EXPECT_EQ(step.window_page(span, p / kBlockTokens), window);
        EXPECT_EQ(step.window_slots[row].value, window.value * kBlockTokens + p % kBlockTokens);
        if ((p + 1) % kBlockTokens == 0) {
          EXPECT_EQ(step.boundary_pages[ended++], window);
        }
        for (std::size_t r = 0; r < 3; ++r) {
          const int ratio = ratios[r], rows_per_page = kBlockTokens / ratio;
          if ((p + 1) % ratio != 0) continue;
          const ClosedWindows& table = step.closed_by(ratio);
          const std::int32_t at = closed[r]++;
          EXPECT_EQ(table.positions[at], p + 1 - ratio);
          const int latent =
              p >= s.span.latents_from ? s.latents[block].value * rows_per_page + p / ratio % rows_per_page : -1;
          EXPECT_EQ(table.slots[at].value, latent) << "ratio " << ratio << " position " << p;
        }
      }
    }
    EXPECT_EQ(step.end, end);
    EXPECT_EQ(step.closed_by(4).count, closed[1]);
  }
}

}  // namespace
}  // namespace sluice::step_builder_test
