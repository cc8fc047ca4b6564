#include "kernels/compressor.h"

#include <cmath>

#include "kernels/op_testing.h"

namespace sluice::compressor_test {
namespace {

// The compressor's input for one sequence, rows [tokens, 2 * width] with kv and gate side by side.
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

// Feeds the tokens in pieces of the given sizes.
Compressed compress_in_pieces(const Exec& exec, const Sequence& s, const std::vector<int>& pieces) {
  Compressed result;
  result.state.resize(static_cast<std::size_t>(s.state_floats()));
  reset_compressor_state(s.dim, s.overlap, result.state.data());
  Position p = 0;
  for (int rows : pieces) {
    std::vector<float> next(result.state.size(), 7.0F);
    std::vector<float> pooled(static_cast<std::size_t>(windows_closed(p, rows, s.ratio) * s.dim), 7.0F);
    const CompressSpan span{0, rows, p, result.state.data(), next.data(), 0};
    const float* kv = s.rows.data() + static_cast<std::ptrdiff_t>(p) * 2 * s.width();
    compress(exec,
             {s.dim, s.ratio, s.overlap, kv, kv + s.width(), 2 * s.width(), s.ape.data(), {&span, 1}, pooled.data()});
    result.state = next;
    result.pooled.insert(result.pooled.end(), pooled.begin(), pooled.end());
    p += rows;
  }
  return result;
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
        EXPECT_TRUE(same_bits(found.pooled, expected.pooled)) << table->isa << " pooled";
        EXPECT_TRUE(same_bits(found.state, expected.state)) << table->isa << " state";
      }
    }
  }
}

// Pieces of one sequence's tokens, each a span with rows and states of its own, in one batch.
struct PieceBatch {
  struct Piece {
    Position first;
    int rows;
  };
  const Sequence& s;
  std::vector<Piece> pieces;
  std::vector<float> rows;
  std::vector<std::vector<float>> states;  // before each piece
  std::vector<CompressSpan> spans;
  int windows = 0, blocks = 0;  // that close in the pieces

  PieceBatch(const Sequence& sequence, std::vector<Piece> given) : s(sequence), pieces(std::move(given)) {
    for (const Piece& piece : pieces) states.push_back(state_at(piece.first));
    int total = 0;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const Piece& piece = pieces[i];
      const auto begin = s.rows.begin() + static_cast<std::ptrdiff_t>(piece.first) * 2 * s.width();
      rows.insert(rows.end(), begin, begin + static_cast<std::ptrdiff_t>(piece.rows) * 2 * s.width());
      spans.push_back({total, piece.rows, piece.first, states[i].data(), nullptr, windows, blocks});
      total += piece.rows;
      windows += windows_closed(piece.first, piece.rows, s.ratio);
      blocks += windows_closed(piece.first, piece.rows, kBlockTokens);
    }
  }

  std::vector<float> state_at(Position p) const {
    ThreadPool one(1);
    return compress_in_pieces(Exec{&one, &scalar_kernels()}, s, p > 0 ? std::vector{p} : std::vector<int>{}).state;
  }

  // The pooled rows, then the state after each span.
  std::vector<float> run(const Exec& exec, float* const* boundaries) {
    const auto pooled = static_cast<std::size_t>(windows * s.dim), state = static_cast<std::size_t>(s.state_floats());
    std::vector<float> result(pooled + spans.size() * state);
    for (std::size_t i = 0; i < spans.size(); ++i) spans[i].state_out = result.data() + pooled + i * state;
    compress(exec, {s.dim, s.ratio, s.overlap, rows.data(), rows.data() + s.width(), 2 * s.width(), s.ape.data(), spans,
                    result.data(), boundaries});
    return result;
  }
};

// At each block that ends in a span, the destination receives the first accumulator of what a span that ends there
// leaves; nothing else is written, and without destinations all else is equal.
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
      PieceBatch batch(s, pieces);
      std::vector<float> expected(static_cast<std::size_t>(batch.blocks + 1) * stride, 7.0F);
      std::vector<std::size_t> places;  // of the boundaries: backwards, with gaps
      for (const auto& piece : pieces) {
        for (Position end = (piece.first / 128 + 1) * 128; end <= piece.first + piece.rows; end += 128) {
          places.push_back((static_cast<std::size_t>(batch.blocks) - places.size()) * stride);
          std::copy_n(batch.state_at(end).begin(), accumulator, expected.data() + places.back());
        }
      }
      ASSERT_EQ(places.size(), static_cast<std::size_t>(batch.blocks));
      ThreadPool pool(2);
      for (const KernelTable* table : all_tables()) {
        std::vector<float> memory(expected.size(), 7.0F);
        std::vector<float*> boundaries;
        for (const std::size_t place : places) boundaries.push_back(memory.data() + place);
        const auto with = batch.run(Exec{&pool, table}, boundaries.data());
        EXPECT_TRUE(same_bits(memory, expected)) << table->isa << " round " << round;
        EXPECT_TRUE(same_bits(batch.run(Exec{&pool, table}, nullptr), with)) << table->isa << " round " << round;
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
    // Two sequences with the same tokens, the second one in the rows before the first, resumed in the middle.
    const Compressed whole = compress_in_pieces(exec, s, {64});
    const Compressed half = compress_in_pieces(exec, s, {30});
    std::vector<float> rows(s.rows.begin() + 30 * 2 * s.width(), s.rows.end());
    rows.insert(rows.end(), s.rows.begin(), s.rows.end());
    std::vector<float> fresh(half.state.size()), state_a(fresh.size()), state_b(fresh.size());
    reset_compressor_state(128, true, fresh.data());
    const int closed = windows_closed(30, 34, 4);
    const std::vector<CompressSpan> spans{{0, 34, 30, half.state.data(), state_a.data(), 0},
                                          {34, 64, 0, fresh.data(), state_b.data(), closed}};
    std::vector<float> pooled(static_cast<std::size_t>((closed + 16) * 128));
    compress(exec,
             {128, 4, true, rows.data(), rows.data() + s.width(), 2 * s.width(), s.ape.data(), spans, pooled.data()});
    EXPECT_TRUE(same_bits(state_a, whole.state));
    EXPECT_TRUE(same_bits(state_b, whole.state));
    const std::size_t n = static_cast<std::size_t>(closed * 128);
    EXPECT_TRUE(same_bits(std::span(pooled).first(n), std::span(whole.pooled).last(n)));
    EXPECT_TRUE(same_bits(std::span(pooled).subspan(n), whole.pooled));
  }
}

// The softmax over a window's slots as the specification writes it.
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
