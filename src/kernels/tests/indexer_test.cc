#include "kernels/ops/indexer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "base/sanitizer_testing.h"
#include "kernels/common/order_key.h"
#include "kernels/tests/op_testing.h"

namespace sluice::indexer_test {
namespace {

struct Selected {
  std::vector<std::int32_t> entries, count;
  std::vector<float> scores;
};

// Two sequences whose index keys lie in one pool.
class Scene {
 public:
  Scene(Random& random, RowCodec codec, int heads, int dims, int tokens_per_row, int tokens, bool few_values)
      : heads_(heads),
        dims_(dims),
        tokens_per_row_(tokens_per_row),
        pages_(2 * ((tokens + 127) / 128) + 2),
        keys_(random, make_row_format(codec, dims, 0), kBlockTokens / tokens_per_row, pages_),
        window_(random, make_row_format(RowCodec::kBf16, 16, 0), kBlockTokens, pages_) {
    auto key_pages = random.permutation(pages_), window_pages = random.permutation(pages_);
    for (int s = 0; s < 2; ++s) {
      sequences_.emplace_back(random, tokens, tokens_per_row, keys_.view(), window_.view(), key_pages, window_pages);
      q_.push_back(random.floats(static_cast<std::size_t>(tokens * heads * dims)));
      for (int i = 0; i < tokens * heads; ++i) simulate_row(codec, dims, 0, q_.back().data() + i * dims);
      weights_.push_back(random.floats(static_cast<std::size_t>(tokens * heads)));
      if (!few_values) continue;  // then many scores tie
      for (float& q : q_.back()) q = static_cast<float>(random.between(-1, 1));
      for (float& w : weights_.back()) w = static_cast<float>(random.between(-1, 1));
      for (std::int32_t e = 0; e < tokens / tokens_per_row; ++e) {
        std::vector<float> key(static_cast<std::size_t>(dims), 0.0F);
        key[static_cast<std::size_t>(random.between(0, dims - 1))] = 1.0F;
        encode_row(keys_.view().format, key.data(), sequences_.back().latent_row(keys_.view(), e));
      }
    }
  }

  // Gives keys and queries all magnitudes that floats have, and queries infinities and NaNs as well.
  void exaggerate(Random& random) {
    const auto scale = [&] { return std::ldexp(1.0F, random.between(-130, 120)); };
    std::vector<float> key(static_cast<std::size_t>(dims_));
    for (std::size_t s = 0; s < 2; ++s) {
      for (std::int32_t e = 0; e < 300 / tokens_per_row_; ++e) {
        for (std::size_t d = 0; d < key.size(); ++d) key[d] = random.normal() * (d % 16 == 0 ? scale() : 1.0F);
        encode_row(keys_.view().format, key.data(), sequences_[s].latent_row(keys_.view(), e));
      }
      for (float& x : q_[s]) {
        x *= 1.01F;  // no value that a codec would leave as it is
        if (random.between(0, 99) == 0) x *= scale();
        if (random.between(0, 999) == 0) x = std::numeric_limits<float>::infinity();
        if (random.between(0, 999) == 0) x = std::numeric_limits<float>::quiet_NaN();
      }
    }
  }

  struct Piece {
    int sequence;
    Position first;
    int rows;
  };

  // Selects entries. With `rope`, the op first rotates queries, multiplies them by Hadamard's matrix, rounds and scales
  // them, and scales the weights.
  Selected select(const Exec& exec, const std::vector<Piece>& pieces, int top_k, bool with_scores,
                  std::int32_t first_entry = 0, const Rotation* rope = nullptr) const {
    std::vector<float> q, weights;
    TestStep step;
    int rows = 0, last = 0;
    for (const Piece& piece : pieces) {
      const std::size_t s = static_cast<std::size_t>(piece.sequence);
      const auto copy = [&](auto& to, const auto& from, int width) {
        to.insert(to.end(), from.begin() + piece.first * width, from.begin() + (piece.first + piece.rows) * width);
      };
      copy(q, q_[s], heads_ * dims_);
      copy(weights, weights_[s], heads_);
      step.add(sequences_[s].span(piece.rows, piece.first));
      rows += piece.rows;
      last = std::max(last, piece.first + piece.rows);
    }
    const int stride = last / tokens_per_row_;
    Selected out;
    out.entries.assign(static_cast<std::size_t>(rows * top_k), -1);
    out.count.assign(static_cast<std::size_t>(rows), -1);
    if (with_scores) out.scores.assign(static_cast<std::size_t>(rows * stride), 7.0F);
    IndexSelectArgs args;
    args.rows = rows, args.heads = heads_, args.dims = dims_;
    args.q = q.data(), args.weights = weights.data();
    args.step = &step.tables(), args.keys = &keys_.view();
    args.tokens_per_row = tokens_per_row_, args.top_k = top_k, args.first_entry = first_entry;
    args.selected = out.entries.data(), args.count = out.count.data();
    if (with_scores) args.scores = out.scores.data(), args.scores_stride = stride;
    if (rope != nullptr) {
      args.query_rope = *rope, args.query_hadamard = true;
      args.query_simulation = RowCodec::kIndexFp8, args.weight_factor = 0.3F;
    }
    index_select(exec, args);
    return out;
  }

  double exact_score(int sequence, Position p, std::int32_t e) const {
    const std::size_t s = static_cast<std::size_t>(sequence);
    std::vector<float> key(static_cast<std::size_t>(dims_));
    decode_row(keys_.view().format, sequences_[s].latent_row(keys_.view(), e), key.data());
    double score = 0.0;
    for (int h = 0; h < heads_; ++h) {
      double dot = 0.0;
      for (int d = 0; d < dims_; ++d) {
        dot += static_cast<double>(q_[s][static_cast<std::size_t>((p * heads_ + h) * dims_ + d)]) *
               static_cast<double>(key[static_cast<std::size_t>(d)]);
      }
      score += static_cast<double>(weights_[s][static_cast<std::size_t>(p * heads_ + h)]) * std::max(0.0, dot);
    }
    return score;
  }

 private:
  int heads_, dims_, tokens_per_row_, pages_;
  TestPlane keys_, window_;
  std::vector<TestSequence> sequences_;
  std::vector<std::vector<float>> q_, weights_;
};

// The k best by a full sort.
std::vector<std::int32_t> sorted_best(std::span<const float> scores, int k) {
  std::vector<std::int32_t> order(scores.size());
  for (std::size_t e = 0; e < scores.size(); ++e) order[e] = static_cast<std::int32_t>(e);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
  });
  order.resize(static_cast<std::size_t>(k));
  std::sort(order.begin(), order.end());
  return order;
}

// The k best of `scores` as a table chooses them: candidates come in pieces, with little room.
class Choice {
 public:
  Choice(const KernelTable* table, int capacity, int k)
      : table_(table), k_(k), keys_(static_cast<std::size_t>(capacity + IndexCandidates::kSlack)), entries_(keys_) {
    candidates_ = {.keys = keys_.data(), .entries = entries_.data(), .capacity = capacity};
  }
  void add(std::span<const float> scores) {
    for (std::size_t e = 0; e < scores.size(); ++e) {
      if (candidates_.count == candidates_.capacity) table_->keep_best(candidates_, k_);
      if (order_key(scores[e]) <= candidates_.bound) continue;
      keys_[static_cast<std::size_t>(candidates_.count)] = order_key(scores[e]);
      entries_[static_cast<std::size_t>(candidates_.count++)] = static_cast<std::int32_t>(e);
    }
  }
  std::vector<std::int32_t> best() {
    table_->keep_best(candidates_, k_);
    return {entries_.begin(), entries_.begin() + candidates_.count};
  }

 private:
  const KernelTable* table_;
  int k_;
  std::vector<std::int32_t> keys_, entries_;
  IndexCandidates candidates_;
};

TEST(KeepBest, IsExactWithTiesToTheLowerEntry) {
  Random random(71);
  for (int round = 0; round < random_cases(400); ++round) {
    const int n = random.between(1, round % 4 == 0 ? 5000 : 100), k = random.between(1, n);
    auto scores = random.floats(static_cast<std::size_t>(n));
    if (round % 3 == 1) {  // few distinct values, both zeros among them
      for (float& score : scores)
        score = static_cast<float>(random.between(-2, 2)) * (random.between(0, 1) == 0 ? 1.0F : -1.0F);
    }
    if (round % 7 == 2) std::sort(scores.begin(), scores.end());
    if (round % 7 == 3) scores[0] = std::numeric_limits<float>::infinity();
    if (round % 7 == 4) scores[0] = -std::numeric_limits<float>::infinity();
    if (round % 7 == 5) std::sort(scores.begin(), scores.end(), std::greater<>());
    const auto expected = sorted_best(scores, k);
    for (const KernelTable* table : all_tables()) {
      for (int capacity : {n, k + random.between(1, 64)}) {
        Choice choice(table, capacity, k);
        choice.add(scores);
        ASSERT_TRUE(same_values(choice.best(), expected))
            << table->name << " " << k << " of " << n << " by " << capacity << " round " << round;
      }
    }
  }
}

TEST(KeepBest, NaNsOfAnySignAreMinusInfinity) {
  Random random = Random::fixed(72);
  for (int round = 0; round < 50; ++round) {
    auto scores = random.floats(100);
    for (int i = 0; i < 20; ++i)
      scores[static_cast<std::size_t>(random.between(0, 99))] =
          std::copysign(std::numeric_limits<float>::quiet_NaN(), random.normal());
    auto numbers = scores;
    for (float& score : numbers) score = std::isnan(score) ? -std::numeric_limits<float>::infinity() : score;
    const int k = random.between(1, 100);
    const std::vector<std::int32_t> expected = sorted_best(numbers, k);
    for (const KernelTable* table : all_tables()) {
      Choice choice(table, k + 10, k);
      choice.add(scores);
      EXPECT_TRUE(same_values(choice.best(), expected)) << table->name;
    }
  }
}

// There are more rows than a piece has, each at its own position.
TEST(IndexSelect, FormsTheQueriesOfEveryRow) {
  Random random(75);
  const Scene scene(random, RowCodec::kIndexFp8, 8, 128, 4, 700, false);
  const std::vector<float> table = random.floats(std::size_t{700} * 64);
  const Rotation rope{.table = table.data(), .dims = 64, .offset = 64};
  expect_same_on_all(
      [&](const Exec& exec) { return scene.select(exec, {{0, 130, 40}, {1, 690, 5}}, 64, true, 0, &rope).scores; });
}

TEST(IndexSelect, SameOnEveryTableAndThreadCount) {
  Random random(73);
  for (const auto& [codec, heads, dims] : std::vector<std::tuple<RowCodec, int, int>>{{RowCodec::kIndexFp4, 4, 128},
                                                                                      {RowCodec::kIndexFp8, 64, 128},
                                                                                      {RowCodec::kBf16, 5, 128},
                                                                                      {RowCodec::kF32, 11, 40}}) {
    for (bool few_values : {false, true}) {
      const Scene scene(random, codec, heads, dims, 4, 700, few_values);
      for (int top_k : {1, 16, 64, 500}) {
        SCOPED_TRACE(::testing::Message() << name(codec) << " " << heads << " heads, top " << top_k);
        const std::vector<Scene::Piece> pieces{{0, 130, 40}, {1, 699, 1}, {1, 0, 9}};
        ThreadPool one(1);
        const Selected expected = scene.select(Exec{&one, &scalar_kernels()}, pieces, top_k, true);
        std::size_t turn = 0;
        for (int threads : {1, 2, 4}) {
          ThreadPool pool(threads);
          std::size_t next = turn++;  // a sanitizer sees each table with one number of threads
          for (const KernelTable* table : all_tables()) {
            if (kSanitized && next++ % 3 != 0) continue;
            const Selected scored = scene.select(Exec{&pool, table}, pieces, top_k, true);
            EXPECT_TRUE(same_bits(scored.scores, expected.scores)) << table->name;
            EXPECT_TRUE(same_values(scored.entries, expected.entries)) << table->name;
            const Selected unscored = scene.select(Exec{&pool, table}, pieces, top_k, false);
            EXPECT_TRUE(same_values(unscored.entries, expected.entries)) << table->name << " without scores";
            EXPECT_TRUE(same_values(unscored.count, expected.count));
          }
        }
      }
    }
  }
}

TEST(IndexSelect, SeesWhatItsPositionSeesAndARowAloneIsTheRowInABatch) {
  Random random(74);
  const int top_k = 32;
  const Scene scene(random, RowCodec::kIndexFp4, 4, 128, 4, 600, false);
  ThreadPool pool(2);
  const Exec exec{&pool, all_tables().back()};
  const Selected batch = scene.select(exec, {{1, 0, 600}}, top_k, false);
  for (Position p = 0; p < 600; ++p) {
    const int visible = (p + 1) / 4;
    ASSERT_EQ(batch.count[static_cast<std::size_t>(p)], std::min(top_k, visible));
    const auto row =
        std::span(batch.entries)
            .subspan(static_cast<std::size_t>(p * top_k), static_cast<std::size_t>(std::min(top_k, visible)));
    if (visible <= top_k) {
      for (std::size_t e = 0; e < row.size(); ++e) ASSERT_EQ(row[e], static_cast<std::int32_t>(e));
    }
    if (p % 7 != 0) continue;
    const Selected alone = scene.select(exec, {{1, p, 1}}, top_k, false);
    ASSERT_TRUE(same_values(std::span(alone.entries).first(row.size()), row)) << "position " << p;
  }
}

// On every table, entries below the first one are never selected, and the others are as if those were not there.
TEST(IndexSelect, BeginsAtItsFirstEntry) {
  Random random(79);
  constexpr int kTopK = 32, kFirst = 3;
  const Scene scene(random, RowCodec::kIndexFp8, 8, 128, 1, 300, false);
  for (const KernelTable* table : all_tables()) {
    ThreadPool pool(2);
    for (const Position p : {0, 2, 3, 20, 34, 35, 36, 120, 299}) {
      SCOPED_TRACE(::testing::Message() << table->name << " position " << p);
      const Selected all = scene.select(Exec{&pool, table}, {{0, p, 1}}, kTopK, true);
      const Selected found = scene.select(Exec{&pool, table}, {{0, p, 1}}, kTopK, false, kFirst);
      const int seen = std::max(0, p + 1 - kFirst);
      ASSERT_EQ(found.count[0], std::min(kTopK, seen));
      auto expected =
          sorted_best(std::span(all.scores).subspan(static_cast<std::size_t>(p + 1 - seen)), std::min(kTopK, seen));
      for (std::int32_t& e : expected) e += kFirst;
      EXPECT_TRUE(same_values(std::span(found.entries).first(expected.size()), expected));
    }
  }
}

TEST(IndexSelect, ScoresAreTheFormula) {
  Random random = Random::fixed(75);
  for (RowCodec codec : {RowCodec::kIndexFp4, RowCodec::kIndexFp8, RowCodec::kBf16}) {
    const Scene scene(random, codec, 4, 128, 4, 300, false);
    ThreadPool pool(1);
    const Selected found = scene.select(Exec{&pool, all_tables().back()}, {{0, 299, 1}}, 10, true);
    for (std::int32_t e = 0; e < 75; ++e) {
      const double exact = scene.exact_score(0, 299, e);
      EXPECT_NEAR(found.scores[static_cast<std::size_t>(e)], exact, 2.3e-6 * (1.0 + std::fabs(exact)));
    }
  }
}

TEST(IndexSelect, LongContextsAreScoredInPieces) {
  Random random(76);
  const Scene scene(random, RowCodec::kIndexFp4, 4, 64, 1, 6000, false);
  expect_same_on_all([&](const Exec& exec) {
    const Selected found = scene.select(exec, {{0, 5990, 3}, {1, 5000, 1}}, 100, false);
    return std::vector<float>(found.entries.begin(), found.entries.end());
  });
}

// One row, for which entry e scores weight * values[e] (a negative value counts as 0).
class GivenScores {
 public:
  GivenScores(Random& random, const std::vector<float>& values)
      : entries_(static_cast<int>(values.size())),
        pages_((entries_ + kBlockTokens - 1) / kBlockTokens),
        keys_(random, make_row_format(RowCodec::kF32, kDims, 0), kBlockTokens, pages_),
        step_({}, false) {
    for (const int page : random.permutation(pages_)) table_.emplace_back(page);
    step_.add({.rows = 1, .first_position = entries_ - 1, .latent_pages = table_});
    const RowSpan& span = step_.tables().spans[0];
    std::vector<float> key(kDims, 0.0F);
    for (std::int32_t e = 0; e < entries_; ++e) {
      key[3] = values[static_cast<std::size_t>(e)];
      encode_row(keys_.view().format, key.data(), latent_row(step_.tables(), span, keys_.view(), e));
    }
  }

  std::vector<std::int32_t> select(const Exec& exec, float weight, int top_k) const {
    std::vector<float> q(kDims, 0.0F);
    q[3] = 1.0F;
    std::vector<std::int32_t> selected(static_cast<std::size_t>(top_k), -1);
    std::int32_t count = 0;
    IndexSelectArgs args;
    args.rows = 1, args.heads = 1, args.dims = kDims;
    args.q = q.data(), args.weights = &weight;
    args.step = &step_.tables(), args.keys = &keys_.view();
    args.tokens_per_row = 1, args.top_k = top_k;
    args.selected = selected.data(), args.count = &count;
    index_select(exec, args);
    selected.resize(static_cast<std::size_t>(count));
    return selected;
  }

 private:
  static constexpr int kDims = 16;
  const int entries_, pages_;
  TestPlane keys_;
  std::vector<LatentPage> table_;
  TestStep step_;
};

TEST(IndexSelect, IsExactInEveryOrderOfScores) {
  Random random(77);
  constexpr int kEntries = 9000;
  std::vector<float> values(kEntries);
  const std::vector<std::pair<const char*, std::function<float(int)>>> orders{
      {"ascending", [](int e) { return static_cast<float>(1 + e); }},
      {"descending", [](int e) { return static_cast<float>(kEntries - e); }},
      {"40 values", [&](int) { return static_cast<float>(random.between(0, 39)); }},
      {"one value", [](int) { return 2.0F; }},
      {"neighbours", [&](int) { return std::bit_cast<float>(0x3F800000 + random.between(0, 30)); }},
      {"few above zero", [&](int e) { return e % 100 == 7 ? random.normal() : -1.0F; }},
      {"infinities", [](int e) { return e % 3 == 0 ? std::numeric_limits<float>::infinity() : 1.0F; }},
  };
  for (const auto& [what, value] : orders) {
    for (int e = 0; e < kEntries; ++e) values[static_cast<std::size_t>(e)] = value(e);
    const GivenScores given(random, values);
    for (const float weight : {1.0F, -0.5F, 0.0F, std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> scores;
      for (const float v : values) {
        const float score = weight * std::max(v, 0.0F);
        scores.push_back(std::isnan(score) ? -std::numeric_limits<float>::infinity() : score);
      }
      for (const int top_k : {1, 100, 2048, 5000, 8999, 9000, 9001}) {
        const auto expected = sorted_best(scores, std::min(top_k, kEntries));
        for (const int threads : {1, 3}) {
          ThreadPool pool(threads);
          const KernelTable* table = all_tables()[static_cast<std::size_t>(top_k % 3) % all_tables().size()];
          ASSERT_TRUE(same_values(given.select(Exec{&pool, table}, weight, top_k), expected))
              << what << " weight " << weight << " top " << top_k << " " << table->name << " threads " << threads;
        }
      }
    }
  }
}

TEST(IndexSelect, SameBitsAtEveryScaleAndShape) {
  Random random(78);
  for (const auto& [codec, heads, dims] : std::vector<std::tuple<RowCodec, int, int>>{{RowCodec::kIndexFp4, 13, 160},
                                                                                      {RowCodec::kIndexFp4, 3, 32},
                                                                                      {RowCodec::kIndexFp8, 7, 64},
                                                                                      {RowCodec::kIndexFp8, 1, 24},
                                                                                      {RowCodec::kF32, 9, 17}}) {
    SCOPED_TRACE(::testing::Message() << name(codec) << " " << heads << " x " << dims);
    Scene scene(random, codec, heads, dims, 1, 300, false);
    scene.exaggerate(random);
    expect_same_on_all(
        [&](const Exec& exec) { return scene.select(exec, {{0, 200, 90}, {1, 299, 1}}, 20, true).scores; });
  }
}

}  // namespace
}  // namespace sluice::indexer_test
