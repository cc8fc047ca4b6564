// Shares of weights on a GPU: each of several ranks computes the bits that the whole weight gives its outputs. One GPU
// is all ranks, one after the other. They exchange the values that they gave when they ran before.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/fp8_layout.h"
#include "kernels/cuda/shares_testing.h"
#include "kernels/cuda/sm90/sm90_ops.h"
#include "kernels/ops/ops.h"
#include "sm90_testing.h"

namespace sluice::gpu_shares_test {
namespace {

using namespace sm90_testing;

const WeightForm kMxfp4{WeightFormat::kMxfp4, ScaleFormat::kE8m0, 1, 32};
const WeightForm kFp8{WeightFormat::kFp8, ScaleFormat::kE8m0, 128, 128};
const WeightForm kScaledFp8{WeightFormat::kFp8, ScaleFormat::kF32, 128, 128};
const WeightForm kBf16{WeightFormat::kBf16, ScaleFormat::kNone};
const WeightForm kF32{WeightFormat::kF32, ScaleFormat::kNone};
const WeightForm kQ8{.format = WeightFormat::kCodes, .codes = DType::kQ8_0};

// A weight, or a share of it, packed for the profile sm90.
class Packed {
 public:
  Packed(const WeightView& view, InputForm form) : view_(view), form_(form) {
    const LinearPacking& packing = sm90_fp8_linear_packing().of(view, form);
    std::vector<std::byte> bytes(packing.packed_bytes(view));
    pack_linear_weight(nullptr, packing, view, bytes.data());
    bytes_ = std::make_unique<OnDevice<std::byte>>(bytes);
    gpu().wait();  // until the bytes are there
  }
  LinearWeight weight() const {
    return LinearWeight::make(view_, form_, {.packed = bytes_->data(), .packed_bytes = bytes_->bytes()});
  }

 private:
  WeightView view_;
  InputForm form_;
  std::unique_ptr<OnDevice<std::byte>> bytes_;
};

struct CopyWords {
  static constexpr int kThreads = 1;
  const float* from;
  float* to;
  std::ptrdiff_t ld_from, ld_to;
  int columns;

  SLUICE_DEVICE void operator()(const cuda_ops::Team<kThreads>& team) const {
    const int row = team.index / columns, i = team.index % columns;
    to[row * ld_to + i] = from[row * ld_from + i];
  }
};
void copy_words(const Exec& exec, int rows, const Rows& from, const Rows& to, int columns) {
  cuda_ops::launch(exec, std::int64_t{rows} * columns, CopyWords{from.values, to.values, from.ld, to.ld, columns});
}

// The values that the ranks gave to their gathers when each ran alone, and the rank whose turn it is. Later runs gather
// these values.
struct Exchanged {
  struct Share {
    std::unique_ptr<OnDevice<float>> words;
    int rows, columns;
  };
  std::vector<std::vector<Share>> of_ranks;  // by rank and gather
  bool records = true;
  std::size_t next = 0;
};
Exchanged* exchanged = nullptr;

void gather_from_before(const Exec& exec, const AllGatherArgs& args) {
  const int columns = args.from.columns;
  ASSERT_EQ(columns * exec.group.ranks, args.to.columns);
  if (exchanged->records) {
    auto words = std::make_unique<OnDevice<float>>(static_cast<std::size_t>(args.rows) * columns);
    copy_words(exec, args.rows, args.from, contiguous_rows(words->data(), columns), columns);
    exchanged->of_ranks[static_cast<std::size_t>(exec.group.rank)].push_back({std::move(words), args.rows, columns});
    return;
  }
  Rows to = args.to;
  for (const auto& of_rank : exchanged->of_ranks) {
    ASSERT_LT(exchanged->next, of_rank.size());
    const Exchanged::Share& share = of_rank[exchanged->next];
    ASSERT_TRUE(share.rows == args.rows && share.columns == columns) << "ranks gather the same";
    copy_words(exec, args.rows, contiguous_rows(share.words->data(), columns), to, columns);
    to.values += columns;
  }
  ++exchanged->next;
}

// Returns the number of values of rank `rank` in `share` that differ from those at its place in rows of the whole.
std::size_t differing(const std::vector<float>& share, const std::vector<float>& whole, int rows, int rank, int ranks) {
  const std::size_t columns = share.size() / static_cast<std::size_t>(rows);
  std::size_t count = 0;
  for (std::size_t i = 0; i < share.size(); ++i) {
    const std::size_t at = (i / columns * ranks + rank) * columns + i % columns;
    count += std::bit_cast<std::uint32_t>(share[i]) != std::bit_cast<std::uint32_t>(whole[at]);
  }
  return count;
}

class GpuShares : public Sm90Test {
 protected:
  std::vector<float> multiply(const Packed& packed, int rows, float* x) {
    const LinearWeight weight = packed.weight();
    OnDevice<float> y(static_cast<std::size_t>(rows) * weight.out());
    y.poison();
    project(exec_, rows, contiguous_rows(x, weight.in()), weight, contiguous_rows(y.data(), weight.out()));
    return y.fetch();
  }
};

// Some weights are wide while their shares are not; others have shares that begin inside a scale's rows.
TEST_F(GpuShares, OfLinearsHaveTheBitsOfTheWhole) {
  const bool brief = gpu_test_options().managed;
  struct Case {
    WeightForm form;
    InputForm inputs;
  };
  const Case cases[] = {{kBf16, InputForm::kBf16},      {kFp8, InputForm::kBf16},       {kScaledFp8, InputForm::kBf16},
                        {kMxfp4, InputForm::kBf16},     {kMxfp4, InputForm::kFp8},      {kFp8, InputForm::kFp8Blocks},
                        {kScaledFp8, InputForm::kFp8Blocks}, {kMxfp4, InputForm::kInt8}, {kQ8, InputForm::kInt8},
                        {kF32, InputForm::kF32},        {kBf16, InputForm::kF32}};
  for (const Case& of : cases) {
    for (const int out : {8192, 1152}) {
      SCOPED_TRACE(describe(of.form) + " as " + std::to_string(static_cast<int>(of.inputs)) + ", " + std::to_string(out));
      const TrainedWeight weight(random_, of.form, out, 1600);
      const Packed whole(weight.view(), of.inputs);
      const int ranks = out == 1152 ? 8 : random_() % 2 == 0 ? 2 : 4;
      std::vector<Packed> shares;
      for (int rank = 0; rank < ranks; ++rank) shares.emplace_back(share_of(weight.view(), rank, ranks), of.inputs);
      for (const int rows : {1, 8, 13, 60, 200}) {
        if (brief && rows > 8) break;
        const OnDevice<float> x(random_values(random_, static_cast<std::size_t>(rows) * 1600));
        const std::vector<float> y = multiply(whole, rows, x.data());
        ASSERT_TRUE(std::ranges::all_of(y, [](float value) { return std::isfinite(value); }));
        for (int rank = 0; rank < ranks; ++rank) {
          ASSERT_EQ(differing(multiply(shares[static_cast<std::size_t>(rank)], rows, x.data()), y, rows, rank, ranks), 0U)
              << rows << " rows, rank " << rank << " of " << ranks;
        }
      }
    }
  }
}

struct Shape {
  int hidden, inter, slots, ranks;
  const WeightForm* experts;
  const WeightForm* shared = nullptr;  // null: none
  InputForm inputs = InputForm::kBf16;
  bool shared_whole = false;  // every rank has all of the shared expert's gate and up
};

// A layer, and its rows.
class Layer {
 public:
  static constexpr int kExperts = 10;
  Layer(std::mt19937& random, const Shape& shape, int rows) : shape_(shape), random_(random) {
    for (int e = 0; e < kExperts; ++e) add(*shape.experts);
    if (shape.shared != nullptr) add(*shape.shared);
    std::vector<std::int32_t> ids;
    std::vector<float> of_slots;
    std::vector<std::int32_t> all(kExperts);
    std::iota(all.begin(), all.end(), 0);
    for (int i = 0; i < rows * shape.slots; ++i) {
      if (i % shape.slots == 0) std::shuffle(all.begin(), all.end(), random);
      ids.push_back(all[static_cast<std::size_t>(i % shape.slots)]);
      of_slots.push_back(0.1F + static_cast<float>(random() % 100) * 0.01F);
    }
    x_ = std::make_unique<OnDevice<float>>(random_values(random, static_cast<std::size_t>(rows) * shape.hidden));
    ids_ = std::make_unique<OnDevice<std::int32_t>>(ids), of_slots_ = std::make_unique<OnDevice<float>>(of_slots);
    gpu().wait();
  }
  // Packs the whole weights, or a rank's shares.
  std::vector<Packed> pack(int rank, int ranks) const {
    std::vector<Packed> all;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      const bool whole = shape_.shared_whole && i >= 3 * kExperts && i % 3 < 2;
      all.emplace_back(whole ? weights_[i].view() : share_of(weights_[i].view(), rank, ranks), shape_.inputs);
    }
    return all;
  }
  std::vector<float> run(const Exec& exec, const std::vector<Packed>& packed, int rows) const {
    std::vector<ExpertWeights> experts;
    for (std::size_t i = 0; i < packed.size(); i += 3) {
      experts.push_back({packed[i].weight(), packed[i + 1].weight(), packed[i + 2].weight()});
    }
    OnDevice<float> y(static_cast<std::size_t>(rows) * (shape_.hidden / exec.group.ranks));
    y.poison();
    ExpertsArgs args;
    args.rows = rows, args.hidden = shape_.hidden, args.slots = shape_.slots;
    args.x = contiguous_rows(x_->data(), shape_.hidden);
    args.expert_ids = ids_->data(), args.expert_weights = of_slots_->data();
    args.experts = std::span(experts).first(kExperts);
    args.shared = shape_.shared != nullptr ? &experts.back() : nullptr;
    args.activation.limit = 10.0F;
    args.y = y.data();
    cuda_sm90::experts(exec, args);
    return y.fetch();
  }

 private:
  void add(const WeightForm& form) {
    weights_.emplace_back(random_, form, shape_.inter, shape_.hidden);
    weights_.emplace_back(random_, form, shape_.inter, shape_.hidden);
    weights_.emplace_back(random_, form, shape_.hidden, shape_.inter);
  }

  Shape shape_;
  std::mt19937& random_;
  std::vector<TrainedWeight> weights_;
  std::unique_ptr<OnDevice<float>> x_, of_slots_;
  std::unique_ptr<OnDevice<std::int32_t>> ids_;
};

// All kernels of experts run: pairs, streams, tiles and groups; whole cells and not; FP8 rows; those of the CPU's
// orders.
TEST_F(GpuShares, OfExpertsHaveTheBitsOfTheWhole) {
  const bool brief = gpu_test_options().managed;
  constexpr InputForm kRounded = InputForm::kBf16, kValues = InputForm::kFp8, kBlocks = InputForm::kFp8Blocks,
                      kIntegers = InputForm::kInt8;
  const Shape shapes[] = {{1024, 512, 6, 2, &kMxfp4, &kFp8},
                          {1024, 512, 6, 8, &kMxfp4, &kFp8},
                          {512, 256, 3, 4, &kMxfp4, &kBf16},
                          {512, 512, 4, 4, &kMxfp4, &kFp8, kRounded, true},
                          {512, 512, 4, 2, &kMxfp4, nullptr, kValues},
                          {512, 320, 4, 2, &kMxfp4},
                          {640, 416, 4, 2, &kBf16, &kBf16},
                          {1024, 1024, 4, 8, &kBf16, &kBf16},
                          {1024, 1024, 4, 4, &kFp8, &kFp8},
                          {1024, 1024, 4, 4, &kScaledFp8, &kScaledFp8},
                          {1024, 512, 4, 2, &kFp8, &kFp8, kBlocks},
                          {1024, 512, 4, 8, &kScaledFp8, &kScaledFp8, kBlocks},
                          {1024, 512, 4, 4, &kMxfp4, &kFp8, kBlocks},
                          {512, 256, 4, 4, &kMxfp4, &kFp8, kIntegers},
                          {512, 256, 4, 8, &kQ8, nullptr, kIntegers}};
  for (const Shape& shape : shapes) {
    SCOPED_TRACE("shape " + std::to_string(&shape - shapes));
    constexpr int kRows = 300;
    const Layer layer(random_, shape, brief ? 9 : kRows);
    const std::vector<Packed> whole = layer.pack(0, 1);
    std::vector<std::vector<Packed>> shares;
    for (int rank = 0; rank < shape.ranks; ++rank) shares.push_back(layer.pack(rank, shape.ranks));
    OpTable ops = cuda_sm90_op_table();
    ops.all_gather = gather_from_before;
    for (const int rows : {1, 2, 8, 9, 24, 100, kRows}) {
      if (brief && rows > 9) break;
      Exchanged all{.of_ranks = std::vector<std::vector<Exchanged::Share>>(static_cast<std::size_t>(shape.ranks))};
      exchanged = &all;
      const std::vector<float> y = layer.run(exec_, whole, rows);
      ASSERT_TRUE(std::ranges::all_of(y, [](float value) { return std::isfinite(value); }));
      for (const bool records : {true, false}) {
        for (int rank = 0; rank < shape.ranks; ++rank) {
          Exec exec = exec_;
          exec.ops = &ops, exec.group = {.rank = rank, .ranks = shape.ranks};
          all.records = records, all.next = 0;
          const std::vector<float> share = layer.run(exec, shares[static_cast<std::size_t>(rank)], rows);
          if (records) continue;
          ASSERT_EQ(differing(share, y, rows, rank, shape.ranks), 0U) << rows << " rows, rank " << rank;
        }
      }
      EXPECT_EQ(all.next, all.of_ranks[0].size()) << "gathers";
    }
    exchanged = nullptr;
  }
}

}  // namespace
}  // namespace sluice::gpu_shares_test
