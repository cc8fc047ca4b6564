#include "kernels/ops/compressor.h"

#include <cmath>

#include "kernels/tests/op_testing.h"

namespace sluice::compressor_test {
namespace {

// The compressor's input for one sequence: rows [tokens, 2 * width] with kv and gate next to each other.
struct Sequence {
  int dim, ratio, tokens;
  bool overlap;
  std::vector<float> rows, ape;

  Sequence(Random& random, int dim_, int ratio_, int tokens_)
      : dim(dim_),
        ratio(ratio_),
        tokens(tokens_),
        overlap(ratio_ == 4),
        rows(random.floats(static_cast<std::size_t>(tokens * 2 * width()), 3.0F)),
        ape(random.floats(static_cast<std::size_t>(ratio * width()))) {}
  int width() const { return overlap ? 2 * dim : dim; }
  int state_floats() const { return compressor_state_floats(dim, overlap); }
};

struct Compressed {
  std::vector<float> pooled, state;
};

int windows_closed(Position first, int rows, int ratio) {
  return (first + rows) / ratio - first / ratio;
}

// Spans of a sequence's tokens in one step, the states before and after them, and pages for their blocks.
struct PieceStep {
  struct Piece {
    Position first;
    int rows, drafts = 0, states = 2;
  };
  const Sequence& s;
  std::vector<float> states;  // before and after each piece in turn
  TestStep step;
  int pages = 0;  // the number of blocks' pages, in all pieces

  explicit PieceStep(const Sequence& sequence) : s(sequence), step({sequence.ratio}) {}
  void add(const Piece& piece, std::span<const float> state) {
    const auto before = static_cast<std::int32_t>(states.size() / state.size());
    states.insert(states.end(), state.begin(), state.end());
    states.resize(states.size() + state.size() * static_cast<std::size_t>(piece.states - 1), 7.0F);
    std::vector<LatentPage> latents;
    std::vector<WindowPage> windows;
    for (int b = 0; b * kBlockTokens < piece.first + piece.rows; ++b) {
      latents.emplace_back(0);
      windows.emplace_back(b < piece.first / kBlockTokens ? -1 : pages++);
    }
    step.add({.rows = piece.rows,
              .first_position = piece.first,
              .latent_pages = latents,
              .window_pages = windows,
              .state_in = before,
              .first_state = before,
              .states = piece.states,
              .drafts = piece.drafts});
  }
  std::span<const float> state_after(std::size_t piece) const {
    const auto size = static_cast<std::size_t>(s.state_floats());
    return std::span(states).subspan((2 * piece + 1) * size, size);
  }
  // Compresses the pieces' rows; `rows` is laid out as Sequence::rows.
  std::vector<float> run(const Exec& exec, const float* rows, const PlaneView* boundaries = nullptr) {
    std::vector<float> pooled(static_cast<std::size_t>(step.tables().closed_by(s.ratio).count * s.dim), 7.0F);
    CompressArgs args;
    args.dim = s.dim, args.ratio = s.ratio, args.overlap = s.overlap;
    args.kv = rows, args.gate = rows + s.width(), args.ld = 2 * s.width(), args.ape = s.ape.data();
    args.step = &step.tables();
    args.states = reinterpret_cast<std::byte*>(states.data());
    args.state_bytes = static_cast<std::size_t>(s.state_floats()) * sizeof(float);
    args.pooled = pooled.data(), args.boundaries = boundaries;
    compress(exec, args);
    return pooled;
  }
};

// Feeds the tokens in pieces of the given sizes.
Compressed compress_in_pieces(const Exec& exec, const Sequence& s, const std::vector<int>& pieces) {
  Compressed result;
  result.state.resize(static_cast<std::size_t>(s.state_floats()));
  reset_compressor_state(s.dim, s.overlap, result.state.data());
  Position p = 0;
  for (int rows : pieces) {
    PieceStep step(s);
    step.add({p, rows}, result.state);
    const auto pooled = step.run(exec, s.rows.data() + static_cast<std::ptrdiff_t>(p) * 2 * s.width());
    result.state.assign(step.state_after(0).begin(), step.state_after(0).end());
    result.pooled.insert(result.pooled.end(), pooled.begin(), pooled.end());
    p += rows;
  }
  return result;
}

// [p]: after the first p of its tokens, row by row.
std::vector<std::vector<float>> states_after_each(const Exec& exec, const Sequence& s, int tokens) {
  std::vector<std::vector<float>> states(1, std::vector<float>(static_cast<std::size_t>(s.state_floats())));
  reset_compressor_state(s.dim, s.overlap, states[0].data());
  for (Position p = 0; p < tokens; ++p) {
    PieceStep step(s);
    step.add({p, 1}, states.back());
    step.run(exec, s.rows.data() + static_cast<std::ptrdiff_t>(p) * 2 * s.width());
    states.emplace_back(step.state_after(0).begin(), step.state_after(0).end());
  }
  return states;
}

std::vector<int> random_pieces(Random& random, int tokens, int largest) {
  std::vector<int> pieces;
  while (tokens > 0) {
    pieces.push_back(std::min(tokens, random.between(1, largest)));
    tokens -= pieces.back();
  }
  return pieces;
}

TEST(Compress, AnyCutGivesTheSameBitsOnEveryTable) {
  Random random(51);
  for (const auto& [dim, ratio] :
       std::vector<std::pair<int, int>>{{128, 4}, {20, 4}, {512, 4}, {128, 128}, {40, 128}, {512, 128}}) {
    SCOPED_TRACE(::testing::Message() << "dim " << dim << " ratio " << ratio);
    const Sequence s(random, dim, ratio, 300);
    ThreadPool one(1);
    const Compressed expected = compress_in_pieces(Exec{&one, &scalar_kernels()}, s, {300});
    for (int round = 0; round < 8; ++round) {
      const auto pieces = round == 0 ? std::vector<int>{300} : random_pieces(random, 300, round < 3 ? 3 : 200);
      ThreadPool pool(1 << round % 3);
      for (const KernelTable* table : all_tables()) {
        const Compressed found = compress_in_pieces(Exec{&pool, table}, s, pieces);
        EXPECT_TRUE(same_bits(found.pooled, expected.pooled)) << table->name << " pooled";
        EXPECT_TRUE(same_bits(found.state, expected.state)) << table->name << " state";
      }
    }
  }
}

// In a span of drafts, any of the last rows may be the last one to stay.
TEST(Compress, KeepsTheStateAfterEachRowOfADraft) {
  Random random(53);
  for (const auto& [dim, ratio] : std::vector<std::pair<int, int>>{{128, 4}, {20, 4}, {40, 128}}) {
    const Sequence s(random, dim, ratio, 140);
    const auto size = static_cast<std::size_t>(s.state_floats());
    constexpr int kRows = 12, kDrafts = 9, kStates = 11;
    for (const Position first : {0, 2, 119, 127}) {
      for (const KernelTable* table : all_tables()) {
        ThreadPool one(1);
        const Exec exec{&one, table};
        PieceStep step(s);
        const std::vector<std::vector<float>> after = states_after_each(exec, s, first + kRows);
        step.add({first, kRows, kDrafts, kStates}, after[static_cast<std::size_t>(first)]);
        step.run(exec, s.rows.data() + static_cast<std::ptrdiff_t>(first) * 2 * s.width());
        for (int kept = kRows - kDrafts; kept <= kRows; ++kept) {
          const auto copy = static_cast<std::size_t>(kept - (kRows - kDrafts) + 1);
          EXPECT_TRUE(same_bits(std::span(step.states).subspan(copy * size, size),
                                after[static_cast<std::size_t>(first + kept)]))
              << table->name << " " << kept << " rows from " << first;
        }
      }
    }
  }
}

std::vector<float> state_at(const Sequence& s, Position p) {
  ThreadPool one(1);
  return compress_in_pieces(Exec{&one, &scalar_kernels()}, s, p > 0 ? std::vector{p} : std::vector<int>{}).state;
}

// Pieces of one sequence's tokens, each a span with rows and states of its own, in one batch.
struct PieceBatch {
  using Piece = PieceStep::Piece;
  const Sequence& s;
  std::vector<Piece> pieces;
  std::vector<float> rows;
  std::vector<std::vector<float>> states;  // before each piece
  int pages = 0;

  PieceBatch(const Sequence& sequence, std::vector<Piece> given) : s(sequence), pieces(std::move(given)) {
    for (const Piece& piece : pieces) {
      states.push_back(state_at(s, piece.first));
      const auto begin = s.rows.begin() + static_cast<std::ptrdiff_t>(piece.first) * 2 * s.width();
      rows.insert(rows.end(), begin, begin + static_cast<std::ptrdiff_t>(piece.rows) * 2 * s.width());
      pages += (piece.first + piece.rows + kBlockTokens - 1) / kBlockTokens - piece.first / kBlockTokens;
    }
  }

  // The pooled rows, then the state after each span.
  std::vector<float> run(const Exec& exec, const PlaneView* boundaries) const {
    PieceStep step(s);
    for (std::size_t i = 0; i < pieces.size(); ++i) step.add(pieces[i], states[i]);
    std::vector<float> result = step.run(exec, rows.data(), boundaries);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      result.insert(result.end(), step.state_after(i).begin(), step.state_after(i).end());
    }
    return result;
  }
};

// At each block that ends in a span, the destination receives the first accumulator of the state that a span would
// leave if it ended there. Nothing else is written, and without destinations all else is equal.
TEST(Compress, WritesTheStateAtEveryBlockBoundary) {
  Random random(55);
  for (const auto& [dim, ratio] : std::vector<std::pair<int, int>>{{128, 4}, {20, 4}, {40, 128}}) {
    SCOPED_TRACE(::testing::Message() << "dim " << dim << " ratio " << ratio);
    const Sequence s(random, dim, ratio, 700);
    const std::size_t accumulator = static_cast<std::size_t>(3 * dim), stride = accumulator + 16;
    for (int round = 0; round < 6; ++round) {
      std::vector<PieceBatch::Piece> pieces{{random.between(0, 3) * 128, 128}};
      for (int i = random.between(0, 2); i >= 0; --i) {
        const Position first = random.between(0, 699);
        pieces.push_back({first, random.between(1, 700 - first)});
      }
      const PieceBatch batch(s, pieces);
      // Each block that a piece touches has one page. A block that the piece ends is written, to three rows of its
      // page.
      std::vector<float> expected(static_cast<std::size_t>(batch.pages) * stride, 7.0F);
      std::size_t page = 0;
      int ended = 0;
      for (const auto& piece : pieces) {
        for (Position block = piece.first / 128; block * 128 < piece.first + piece.rows; ++block, ++page) {
          const Position end = (block + 1) * 128;
          if (end > piece.first + piece.rows) continue;
          std::copy_n(state_at(s, end).begin(), accumulator, expected.data() + page * stride);
          ++ended;
        }
      }
      ASSERT_GE(ended, 1);
      ThreadPool pool(2);
      for (const KernelTable* table : all_tables()) {
        std::vector<float> memory(expected.size(), 7.0F);
        PlaneView boundaries;
        boundaries.base = reinterpret_cast<std::byte*>(memory.data());
        boundaries.page_bytes = stride * sizeof(float), boundaries.rows_per_page = 1;
        const auto with = batch.run(Exec{&pool, table}, &boundaries);
        EXPECT_TRUE(same_bits(memory, expected)) << table->name << " round " << round;
        EXPECT_TRUE(same_bits(batch.run(Exec{&pool, table}, nullptr), with)) << table->name << " round " << round;
      }
    }
  }
}

TEST(Compress, SpansOfABatchAreIndependent) {
  Random random(52);
  const Sequence s(random, 128, 4, 64);
  ThreadPool pool(2);
  for (const KernelTable* table : all_tables()) {
    const Exec exec{&pool, table};
    // Two sequences with the same tokens. The second one is in the rows before the first, and resumed in the middle.
    const Compressed whole = compress_in_pieces(exec, s, {64});
    const Compressed half = compress_in_pieces(exec, s, {30});
    std::vector<float> rows(s.rows.begin() + 30 * 2 * s.width(), s.rows.end());
    rows.insert(rows.end(), s.rows.begin(), s.rows.end());
    std::vector<float> fresh(half.state.size());
    reset_compressor_state(128, true, fresh.data());
    const int closed = windows_closed(30, 34, 4);
    PieceStep step(s);
    step.add({30, 34}, half.state);
    step.add({0, 64}, fresh);
    const auto pooled = step.run(exec, rows.data());
    EXPECT_TRUE(same_bits(step.state_after(0), whole.state));
    EXPECT_TRUE(same_bits(step.state_after(1), whole.state));
    const std::size_t n = static_cast<std::size_t>(closed * 128);
    EXPECT_TRUE(same_bits(std::span(pooled).first(n), std::span(whole.pooled).last(n)));
    EXPECT_TRUE(same_bits(std::span(pooled).subspan(n), whole.pooled));
  }
}

// The softmax over a window's slots as docs/models/deepseek_v4.md §6.2 writes it.
double pooled_value(const Sequence& s, int window, int channel) {
  std::vector<std::pair<double, double>> slots;  // logit, value
  const auto add = [&](int token, int column) {
    const std::size_t row = static_cast<std::size_t>(token * 2 * s.width()), c = static_cast<std::size_t>(column);
    const std::size_t ape = static_cast<std::size_t>(token % s.ratio * s.width()) + c;
    slots.emplace_back(
        static_cast<double>(s.rows[row + static_cast<std::size_t>(s.width()) + c]) + static_cast<double>(s.ape[ape]),
        static_cast<double>(s.rows[row + c]));
  };
  for (int i = 0; i < s.ratio; ++i) {
    if (s.overlap && window > 0) add((window - 1) * s.ratio + i, channel);
    add(window * s.ratio + i, s.overlap ? s.dim + channel : channel);
  }
  double max = -1e300, sum = 0.0, value = 0.0;
  for (const auto& [logit, u] : slots) max = std::max(max, logit);
  for (const auto& [logit, u] : slots) {
    sum += std::exp(logit - max);
    value += std::exp(logit - max) * u;
  }
  return value / sum;
}

TEST(Compress, IsASoftmaxPerChannel) {
  Random random = Random::fixed(53);
  for (int ratio : {4, 128}) {
    const Sequence s(random, 48, ratio, 3 * 128);
    ThreadPool pool(1);
    const Compressed found = compress_in_pieces(Exec{&pool, &scalar_kernels()}, s, {s.tokens});
    for (int w = 0; w < s.tokens / ratio; ++w) {
      for (int c = 0; c < s.dim; ++c) {
        ASSERT_NEAR(found.pooled[static_cast<std::size_t>(w * s.dim + c)], pooled_value(s, w, c), 2.3e-5)
            << w << " " << c;
      }
    }
  }
}

TEST(Compress, AtABoundaryNothingIsOpen) {
  Random random(54);
  ThreadPool pool(1);
  const Exec exec{&pool, &scalar_kernels()};
  const Sequence hca(random, 32, 128, 256);
  std::vector<float> empty(96);
  reset_compressor_state(32, false, empty.data());
  EXPECT_TRUE(same_bits(compress_in_pieces(exec, hca, {256}).state, empty));
  const Sequence csa(random, 32, 4, 256);
  const auto state = compress_in_pieces(exec, csa, {256}).state;
  EXPECT_TRUE(same_bits(std::span(state).subspan(96), empty));
}

}  // namespace
}  // namespace sluice::compressor_test
