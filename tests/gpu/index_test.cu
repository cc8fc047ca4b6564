// The indexer of the profile sm90 (kernels/cuda/sm90/index_rows.h) gives the bits and the choice of a plain kernel of
// that order, whatever rows are computed together; and its distance from f64.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <iterator>
#include <numeric>
#include <vector>

#include "base/formats/number_formats.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/sm90/fragments.h"
#include "kernels/cuda/sm90/sm90_ops.h"
#include "kernels/common/order_key.h"
#include "sm90_testing.h"

namespace sluice::gpu_index_test {
namespace {

using namespace sm90_testing;

constexpr int kDims = 128, kRope = 64, kPageRows = 32;

__device__ std::uint32_t plain_pair(float low, float high) {
  return to_bf16(low).bits | static_cast<std::uint32_t>(to_bf16(high).bits) << 16;
}
// Returns dim i of a step; the dims of a step are ascending.
__device__ int plain_dim(bool fp4, int step, int i) {
  constexpr int kOffsets[4] = {0, 1, 4, 5};
  if (fp4) return 32 * (i / 4) + 8 * (step / 2) + 2 * (step % 2) + kOffsets[i % 4];
  return 64 * (step / 4) + 16 * (i / 4) + 4 * (step % 4) + i % 4;
}

// A warp scores sixteen entries of a row, in the order of the header. keys: those of all rows, from first[row] on.
__global__ void plain_scores(const RowRef* keys, const std::int32_t* first, const std::int32_t* count, bool fp4,
                             const float* q, const float* weights, int heads, int first_entry, float* scores, int ld) {
  const int row = static_cast<int>(blockIdx.y), block = static_cast<int>(blockIdx.x) * 16;
  const int lane = static_cast<int>(threadIdx.x), g = lane / 4, t = lane % 4;
  if (block >= count[row]) return;
  const auto key = [&](int e, int d) {
    if (e >= count[row]) return 0.0F;
    const RowRef at = keys[first[row] + e];
    if (!fp4) return e4m3_to_float(static_cast<std::uint8_t>(at.data[d]));
    const auto code = static_cast<std::uint8_t>(static_cast<unsigned>(at.data[d / 2]) >> (d % 2 * 4) & 15U);
    const int scale = min(max(static_cast<int>(at.scales[d / 32]), 127 - 62), 127 + 52);
    return e2m1_to_float(code) * e8m0_to_float(static_cast<std::uint8_t>(scale));
  };
  float sums[2] = {};
  for (int eight = 0; eight < 64; eight += 8) {
    float dots[4] = {};
    const auto query = [&](int d) {
      return eight + g < heads ? q[(static_cast<std::size_t>(row) * heads + eight + g) * kDims + d] : 0.0F;
    };
    for (int step = 0; step < kDims / 16; ++step) {
      std::uint32_t a[4], b[2];
      for (int r = 0; r < 4; ++r) {
        const int i = fragment_input(lane, 0, r), e = block + fragment_row(lane, r);
        const int d0 = plain_dim(fp4, step, i), d1 = plain_dim(fp4, step, i + 1);
        a[r] = plain_pair(key(e, d0), key(e, d1));
        if (r % 2 == 0) b[r / 2] = plain_pair(query(d0), query(d1));
      }
      cuda_sm90::multiply_step(dots, a, b[0], b[1]);
    }
    for (int i = 0; i < 4; ++i) {
      const int head = eight + 2 * t + i % 2;
      const float weight = head < heads ? weights[static_cast<std::size_t>(row) * heads + head] : 0.0F;
      sums[i / 2] = std::fma(weight, fmaxf(dots[i], 0.0F), sums[i / 2]);
    }
  }
  for (int h = 0; h < 2; ++h) {
    for (const int other : {1, 2}) sums[h] += __shfl_xor_sync(0xFFFFFFFFU, sums[h], other);
    const int e = block + g + 8 * h;
    if (t > 0 || e >= count[row]) continue;
    float scale = 1.0F;
    if (!fp4) memcpy(&scale, keys[first[row] + e].scales, 4);
    scores[static_cast<std::size_t>(row) * ld + e] = e < first_entry ? -INFINITY : sums[h] * scale;
  }
}

enum class Keys { kRandom, kEqual, kFew };
struct Shape {
  RowCodec codec;
  int heads, tokens_per_row, top_k, first_entry = 0;
  Keys keys = Keys::kRandom;
  bool edges = false;  // queries are rounded as they are given: edge_value()
};
// A value halfway between two codes of e2m1, or one of them, or a float next to it; times a power of two.
float edge_value(std::mt19937& random) {
  constexpr float kEdges[] = {0.0F, 0.25F, 0.5F, 0.75F, 1.0F, 1.25F, 1.5F, 1.75F, 2.0F, 2.5F, 3.0F, 3.5F, 4.0F, 5.0F, 6.0F};
  float x = kEdges[random() % std::size(kEdges)];
  if (random() % 3 == 0) x = std::nextafter(x, random() % 2 == 0 ? 0.0F : 8.0F);
  return random() % 2 == 0 ? x : -x;
}
struct TestSpan {
  int rows, entries;  // entries that its last row sees
};

class World {
 public:
  World(std::mt19937& random, const Exec& exec, const Shape& shape, const std::vector<TestSpan>& spans)
      : shape_(shape), random_(random), exec_(exec) {
    for (const TestSpan& span : spans) {
      const int first = span.entries * shape.tokens_per_row - span.rows;
      for (int r = 0; r < span.rows; ++r) {
        singles_.push_back({.rows = 1, .first_position = first + r, .latent_list = static_cast<std::int32_t>(pages_.size())});
        positions_.push_back(first + r);
      }
      spans_.push_back(singles_.back());
      spans_.back().rows = span.rows, spans_.back().first_position = first;
      for (int i = 0; i * kPageRows < span.entries; ++i) pages_.push_back(LatentPage(static_cast<std::int32_t>(pages_.size())));
      most_ = std::max(most_, span.entries);
    }
    std::ranges::shuffle(pages_, random_);
    device_pages_ = std::make_unique<OnDevice<LatentPage>>(pages_);
    device_positions_ = std::make_unique<OnDevice<Position>>(positions_);
    make_keys();
    const std::size_t heads = static_cast<std::size_t>(rows() * shape.heads);
    std::vector<float> q = random_values(random_, heads * kDims), weights = random_values(random_, heads);
    for (float& x : q) x = shape.keys == Keys::kFew ? static_cast<float>(static_cast<int>(random_() % 3) - 1) : x;
    for (std::size_t i = 0; shape.edges && i < q.size(); ++i) {
      q[i] = std::ldexp(edge_value(random_), static_cast<int>(i / 32 % 7) - 3);
    }
    for (float& x : weights) x = shape.keys == Keys::kFew ? static_cast<float>(static_cast<int>(random_() % 3) - 1) : x;
    rope_ = std::make_unique<OnDevice<float>>(
        random_values(random_, static_cast<std::size_t>(most_ * shape.tokens_per_row + 1) * kRope));
    q_ = std::make_unique<OnDevice<float>>(q), weights_ = std::make_unique<OnDevice<float>>(weights);
    formed_q_ = std::make_unique<OnDevice<float>>(q), formed_weights_ = std::make_unique<OnDevice<float>>(weights);
    const std::size_t all = static_cast<std::size_t>(rows());
    selected_ = std::make_unique<OnDevice<std::int32_t>>(all * static_cast<std::size_t>(shape.top_k));
    count_ = std::make_unique<OnDevice<std::int32_t>>(all);
    scores_ = std::make_unique<OnDevice<float>>(all * static_cast<std::size_t>(most_));
    form();
    plain();
  }
  int rows() const { return static_cast<int>(singles_.size()); }

  // Compares rows [first, first + count), in spans or each in one of its own. scored: from formed queries, and the
  // scores as well.
  testing::AssertionResult same(bool singly, int first, int count, bool scored, bool late = false) {
    std::vector<RowSpan> spans;
    int done = 0;
    for (const RowSpan& span : singly ? singles_ : spans_) {
      if (done >= first && done + span.rows <= first + count) {
        spans.push_back(span);
        spans.back().row_begin = done - first;
      }
      done += span.rows;
    }
    const OnDevice<RowSpan> there(spans);
    StepTables step = tables();
    step.positions = step.positions.subspan(static_cast<std::size_t>(first));
    step.host_spans = spans, step.spans = {there.data(), spans.size()};
    IndexSelectArgs args = arguments();
    args.rows = count, args.step = &step;
    args.q = (scored ? formed_q_ : q_)->data() + std::ptrdiff_t{first} * shape_.heads * kDims;
    args.weights = (scored ? formed_weights_ : weights_)->data() + std::ptrdiff_t{first} * shape_.heads;
    if (scored) args.scores = scores_->data(), args.scores_stride = most_;
    selected_->poison(), count_->poison(), scores_->poison();
    LateInputs ahead;
    if (late) ahead.add(*q_), ahead.add(*formed_q_), ahead.add(*weights_), ahead.add(*formed_weights_);
    if (late) ahead.forget(), ahead.write(exec_);
    if (scored) {
      cuda_sm90::select_entries(exec_, args);
    } else {
      if (!shape_.edges) args.query_rope = rope(), args.query_hadamard = true;
      args.query_simulation = shape_.codec;
      args.weight_factor = kFactor;
      cuda_sm90::index_select(exec_, args);
    }
    const std::vector<std::int32_t> selected = selected_->fetch(), counts = count_->fetch();
    const std::vector<float> scores = scored ? scores_->fetch() : std::vector<float>();
    for (int r = 0; r < count; ++r) {
      const int row = first + r, seen = visible(row);
      const std::vector<std::int32_t>& best = best_[static_cast<std::size_t>(row)];
      const auto fail = [&] { return testing::AssertionFailure() << "row " << row << ", " << seen << " entries: "; };
      if (counts[static_cast<std::size_t>(r)] != static_cast<int>(best.size())) return fail() << "the count";
      if (!std::equal(best.begin(), best.end(), selected.begin() + std::ptrdiff_t{r} * shape_.top_k)) return fail() << "the choice";
      if (!scored) continue;
      const float* expected = &plain_[static_cast<std::size_t>(row) * static_cast<std::size_t>(most_)];
      const float* found = &scores[static_cast<std::size_t>(r) * static_cast<std::size_t>(most_)];
      if (std::memcmp(expected, found, static_cast<std::size_t>(seen) * 4) != 0) return fail() << "scores";
      if (std::any_of(found + seen, found + most_, [](float x) { return x != 0.0F; })) return fail() << "behind the last score";
    }
    return testing::AssertionSuccess();
  }

  // Returns the distance from f64 of the plain scores of a row, on the same rounded inputs.
  double distance_from_f64(int row) const {
    const std::vector<float> q = formed_q_->fetch(), weights = formed_weights_->fetch();
    std::vector<float> found;
    std::vector<double> exact;
    for (std::int32_t e = shape_.first_entry; e < visible(row); ++e) {
      float key[kDims];
      decode_row(plane_.format, host_row(row, e), key);
      double score = 0.0;
      for (int h = 0; h < shape_.heads; ++h) {
        const std::size_t head = static_cast<std::size_t>(row * shape_.heads + h);
        double dot = 0.0;
        for (std::size_t d = 0; d < kDims; ++d) dot += static_cast<double>(q[head * kDims + d]) * key[d];
        score += weights[head] * std::max(dot, 0.0);
      }
      exact.push_back(score);
      found.push_back(plain_[static_cast<std::size_t>(row) * static_cast<std::size_t>(most_) + static_cast<std::size_t>(e)]);
    }
    return relative_distance(found, exact);
  }

 private:
  static constexpr float kFactor = 0.011048543F;

  int visible(int row) const { return (positions_[static_cast<std::size_t>(row)] + 1) / shape_.tokens_per_row; }
  // The rotation of V3.2 and of V4.
  Rotation rope() const { return {rope_->data(), kRope, shape_.tokens_per_row == 1 ? 0 : kRope, shape_.tokens_per_row == 1}; }
  StepTables tables() const {
    StepTables step;
    step.latent_pages = device_pages_->data();
    step.positions = {device_positions_->data(), positions_.size()};
    return step;
  }
  IndexSelectArgs arguments() const {
    IndexSelectArgs args;
    args.heads = shape_.heads, args.dims = kDims;
    args.keys = &plane_, args.tokens_per_row = shape_.tokens_per_row, args.top_k = shape_.top_k;
    args.first_entry = shape_.first_entry;
    args.selected = selected_->data(), args.count = count_->data();
    return args;
  }
  RowRef row_in(const PlaneView& plane, int row, std::int32_t e) const {
    const auto list = static_cast<std::size_t>(singles_[static_cast<std::size_t>(row)].latent_list);
    return plane.row(pages_[list + static_cast<std::size_t>(e / kPageRows)].value, e % kPageRows);
  }
  RowRef host_row(int row, std::int32_t e) const {
    PlaneView host = plane_;
    host.base = const_cast<std::byte*>(host_.data());
    return row_in(host, row, e);
  }

  void make_keys() {
    plane_ = {.rows_per_page = kPageRows, .format = make_row_format(shape_.codec, kDims, 0)};
    plane_.page_bytes = static_cast<std::size_t>(kPageRows * plane_.format.row_bytes());
    host_.assign(plane_.page_bytes * pages_.size(), std::byte{0xFF});
    plane_.base = host_.data();
    std::vector<float> key = random_values(random_, kDims);
    for (std::size_t i = 0; i < pages_.size() * kPageRows; ++i) {
      if (shape_.keys == Keys::kFew) {
        std::ranges::fill(key, 0.0F);
        key[random_() % kDims] = 1.0F;
      } else if (shape_.keys == Keys::kRandom) {  // cheaper than normal ones
        for (float& x : key) x = static_cast<float>(static_cast<int>(random_() % 4096) - 2048) * (i % 5 == 0 ? 0x1p-5F : 0x1p-10F);
      }
      encode_row(plane_.format, key.data(), plane_.row(static_cast<std::int32_t>(i / kPageRows), static_cast<int>(i % kPageRows)));
    }
    bytes_ = std::make_unique<OnDevice<std::byte>>(host_);
    plane_.base = bytes_->data();
  }
  // Forms queries by the ops of the CPU's order.
  void form() {
    const Rotation turn = rope();
    if (!shape_.edges) {
      cuda_ops::rope_heads(exec_, {.rows = rows(), .heads = shape_.heads, .head_dim = kDims, .rope_dims = turn.dims, .offset = turn.offset,
                                   .x = formed_q_->data(), .ldx = std::ptrdiff_t{shape_.heads} * kDims,
                                   .positions = device_positions_->data(), .table = turn.table, .half_split = turn.half_split});
      cuda_ops::hadamard(exec_, {rows() * shape_.heads, kDims, formed_q_->data()});
    }
    cuda_ops::simulate_rows(exec_, {shape_.codec, kDims, 0, rows() * shape_.heads, formed_q_->data(), kDims});
    cuda_ops::scale(exec_, {rows(), shape_.heads, kFactor, formed_weights_->data()});
  }
  void plain() {
    std::vector<RowRef> keys;
    std::vector<std::int32_t> first, count;
    for (int r = 0; r < rows(); ++r) {
      const bool shared = r > 0 && singles_[static_cast<std::size_t>(r)].latent_list == singles_[static_cast<std::size_t>(r) - 1].latent_list;
      first.push_back(shared ? first.back() : static_cast<std::int32_t>(keys.size()));
      count.push_back(visible(r));
      for (std::int32_t e = static_cast<std::int32_t>(keys.size()) - first.back(); e < visible(r); ++e) keys.push_back(row_in(plane_, r, e));
    }
    const OnDevice<RowRef> list(keys);
    const OnDevice<std::int32_t> firsts(first), counts(count);
    plain_scores<<<dim3(static_cast<unsigned>(most_ + 15) / 16, static_cast<unsigned>(rows())), 32, 0,
                   static_cast<cudaStream_t>(gpu().stream())>>>(
        list.data(), firsts.data(), counts.data(), shape_.codec == RowCodec::kIndexFp4, formed_q_->data(), formed_weights_->data(),
        shape_.heads, shape_.first_entry, scores_->data(), most_);
    plain_ = scores_->fetch();
    for (int r = 0; r < rows(); ++r) {
      const float* scores = &plain_[static_cast<std::size_t>(r) * static_cast<std::size_t>(most_)];
      std::vector<std::int32_t> best(static_cast<std::size_t>(std::max(0, visible(r) - shape_.first_entry)));
      std::iota(best.begin(), best.end(), shape_.first_entry);
      if (best.size() > static_cast<std::size_t>(shape_.top_k)) {
        std::ranges::stable_sort(best, [&](int a, int b) { return order_key(scores[a]) > order_key(scores[b]); });
        best.resize(static_cast<std::size_t>(shape_.top_k));
        std::ranges::sort(best);
      }
      best_.push_back(best);
    }
  }

  Shape shape_;
  std::mt19937& random_;
  const Exec& exec_;
  int most_ = 1;
  std::vector<RowSpan> spans_, singles_;
  std::vector<Position> positions_;
  std::vector<LatentPage> pages_;
  PlaneView plane_;
  std::vector<std::byte> host_;
  std::vector<float> plain_;
  std::vector<std::vector<std::int32_t>> best_;
  std::unique_ptr<OnDevice<std::byte>> bytes_;
  std::unique_ptr<OnDevice<LatentPage>> device_pages_;
  std::unique_ptr<OnDevice<Position>> device_positions_;
  std::unique_ptr<OnDevice<float>> q_, weights_, formed_q_, formed_weights_, rope_, scores_;
  std::unique_ptr<OnDevice<std::int32_t>> selected_, count_;
};

struct Case {
  const char* name;
  Shape shape;
  std::vector<TestSpan> spans;
};
const std::vector<Case>& cases() {
  constexpr RowCodec kFp4 = RowCodec::kIndexFp4, kFp8 = RowCodec::kIndexFp8;
  static const std::vector<TestSpan> lengths{{1, 1}, {1, 511}, {1, 512}, {1, 513}, {7, 5000}, {1, 70000}, {3, 514}, {1, 9000}};
  static const std::vector<Case> all{
      {"V4", {kFp4, 64, 4, 512}, lengths},
      {"V4-Pro", {kFp4, 64, 4, 1024}, {{1, 1023}, {2, 1025}, {1, 8193}, {1, 33000}}},
      {"V3.2", {kFp8, 64, 1, 2048, 1}, {{1, 2049}, {20, 2055}, {1, 9000}, {5, 70000}}},
      {"FP8, top 512", {kFp8, 64, 4, 512}, lengths},
      {"small", {kFp4, 4, 4, 64}, {{1, 64}, {1, 65}, {40, 300}, {300, 400}}},
      {"prompts", {kFp4, 64, 4, 512}, {{301, 8220}, {281, 530}}},  // rows that are long and rows that are not, together
      {"ties", {kFp4, 64, 4, 512, 3, Keys::kFew}, lengths},
      {"ties, FP8", {kFp8, 5, 1, 100, 0, Keys::kFew}, {{1, 101}, {9, 5000}, {1, 20000}}},
      {"all equal", {kFp4, 64, 4, 512, 0, Keys::kEqual}, lengths},
      {"edges", {kFp4, 64, 4, 512, 0, Keys::kRandom, true}, {{1, 5000}, {5, 2000}}},
      {"edges, FP8", {kFp8, 64, 4, 512, 0, Keys::kRandom, true}, {{1, 5000}, {5, 2000}}}};
  return all;
}

class GpuIndex : public Sm90Test {};

TEST_F(GpuIndex, EveryRowHasTheBitsOfThePlainKernelAloneAndAmongOthers) {
  for (const Case& of : cases()) {
    SCOPED_TRACE(of.name);
    World world(random_, exec_, of.shape, of.spans);
    for (const bool scored : {true, false}) {
      SCOPED_TRACE(scored ? "scored" : "in whole");
      EXPECT_TRUE(world.same(false, 0, world.rows(), scored)) << "all spans";
      EXPECT_TRUE(world.same(true, 0, world.rows(), scored)) << "each row a span";
      for (int r = 0; r < world.rows(); r += r < 15 ? 1 : 37) EXPECT_TRUE(world.same(true, r, 1, scored)) << "alone";
      int row = 0;
      for (const TestSpan& span : of.spans) {
        EXPECT_TRUE(world.same(false, row, span.rows, scored)) << "one span";
        row += span.rows;
      }
    }
    if (HasFailure()) return;
  }
}

TEST_F(GpuIndex, ReadsNothingBeforeTheKernelAheadHasEnded) {
  for (const RowCodec codec : {RowCodec::kIndexFp4, RowCodec::kIndexFp8}) {
    World world(random_, exec_, {codec, 64, 4, 64}, {{1, 700}, {3, 300}, {1, 9000}});
    for (const bool scored : {true, false}) {
      EXPECT_TRUE(world.same(false, 0, world.rows(), scored, true)) << "all spans";
      EXPECT_TRUE(world.same(true, 0, 1, scored, true)) << "one row";
    }
  }
}

TEST_F(GpuIndex, EveryNumberOfRowsGivesTheSameBits) {
  std::vector<TestSpan> spans;
  for (int i = 0; i < 300; ++i) spans.push_back({1, 1 + static_cast<int>(random_() % (i % 50 == 0 ? 12000 : 900))});
  for (const RowCodec codec : {RowCodec::kIndexFp4, RowCodec::kIndexFp8}) {
    World world(random_, exec_, {codec, 64, 4, 512}, spans);
    for (int rows = 1; rows <= 300; ++rows) {
      ASSERT_TRUE(world.same(true, (rows * 7) % (300 - rows + 1), rows, rows % 4 == 0)) << rows << " rows";
    }
  }
}

TEST_F(GpuIndex, IsCloseToF64OnTheSameRoundedInputs) {
  for (const Case& of : cases()) {
    World world(random_, exec_, of.shape, of.spans);
    double worst = 0.0;
    for (int r = 0; r < world.rows(); r += r < 5 ? 1 : 29) {
      const double distance = world.distance_from_f64(r);
      if (of.shape.keys == Keys::kRandom || !std::isnan(distance)) EXPECT_LT(distance, 1e-5) << of.name << ", row " << r;
      worst = std::max(worst, distance);
    }
    std::printf("%s: relative distance from f64 %.2e\n", of.name, worst);
  }
}

}  // namespace
}  // namespace sluice::gpu_index_test
