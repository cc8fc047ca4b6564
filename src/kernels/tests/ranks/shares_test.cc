// Several ranks, each with a share of the weights' outputs, compute the bits of the whole weights: the packed forms of
// all CUDA kernels, and the kernels of the shared orders on the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "base/sanitizer_testing.h"
#include "kernels/cuda/fp8_layout.h"
#include "kernels/cuda/linear_layout.h"
#include "kernels/cuda/op_cases_testing.h"
#include "kernels/cuda/shared/expert_pairs.h"
#include "kernels/cuda/shares_testing.h"
#include "kernels/cuda/strip_layout.h"
#include "kernels/device/host_exchange.h"

namespace sluice::shares_test {
namespace {

constexpr WeightForm kBf16{WeightFormat::kBf16, ScaleFormat::kNone},
    kE8m0{WeightFormat::kFp8, ScaleFormat::kE8m0, 128, 128},
    kF32Scales{WeightFormat::kFp8, ScaleFormat::kF32, 128, 128},
    kMxfp4{WeightFormat::kMxfp4, ScaleFormat::kE8m0, 1, 32}, kQ8{.format = WeightFormat::kCodes, .codes = DType::kQ8_0};
constexpr int kRanks[] = {2, 4, 8};
constexpr InputForm kForms[] = {InputForm::kF32, InputForm::kBf16, InputForm::kInt8, InputForm::kFp8};

LinearWeight packed_weight(const WeightView& view, InputForm form) {
  return LinearWeight::make(view, form, {.packing = &cuda_linear_packing()});
}

// y of the rows of x.
std::vector<float> multiply(const WeightView& view, InputForm form, int rows, std::vector<float>& x) {
  ThreadPool one(1);
  const Exec exec{&one, &scalar_kernels(), &cuda_emulated_op_table()};
  const LinearWeight weight = packed_weight(view, form);
  std::vector<float> y(static_cast<std::size_t>(rows * view.out));
  project(exec, rows, contiguous_rows(x.data(), view.in), weight, contiguous_rows(y.data(), view.out));
  return y;
}

// The index in `share`, [rows, columns], of the first value that differs from `whole`, [rows, ranks * columns], at the
// rank's place; -1: none.
std::ptrdiff_t first_other(const std::vector<float>& share, const std::vector<float>& whole, int rows, int rank,
                           int ranks) {
  const std::size_t columns = share.size() / static_cast<std::size_t>(rows);
  for (std::size_t i = 0; i < share.size(); ++i) {
    const std::size_t at = i / columns * columns * static_cast<std::size_t>(ranks) +
                           static_cast<std::size_t>(rank) * columns + i % columns;
    if (std::memcmp(&share[i], &whole[at], sizeof(float)) != 0) return static_cast<std::ptrdiff_t>(i);
  }
  return -1;
}

void expect_shares_of(const WeightView& whole, InputForm form, int rows, std::mt19937& random, int ranks) {
  std::vector<float> x = random_inputs(random, static_cast<std::size_t>(rows * whole.in));
  const std::vector<float> y = multiply(whole, form, rows, x);
  for (int rank = 0; rank < ranks; ++rank) {
    EXPECT_EQ(first_other(multiply(share_of(whole, rank, ranks), form, rows, x), y, rows, rank, ranks), -1)
        << "rank " << rank << " of " << ranks << ", " << rows << " rows as " << static_cast<int>(form);
  }
}

TEST(SharesOfWeights, HaveTheBitsOfTheWholeInEveryFormat) {
  std::mt19937 random(21);
  for (const WeightForm& form : weight_forms()) {
    SCOPED_TRACE(describe(form));
    const RandomWeight weight(random, form, 384, 160);  // shares of 48 begin inside a scale's rows
    for (const InputForm inputs : kForms) {
      const int ranks = kRanks[random() % std::size(kRanks)], rows = random() % 2 == 0 ? 1 : 9;
      expect_shares_of(weight.view(), inputs, rows, random, ranks);
    }
    expect_shares_of(RandomWeight(random, form, kWideOutputs, 32).view(), InputForm::kBf16, 1, random, 8);
  }
}

// Every format that strips can hold, once with a whole weight that is wide although its shares are not, and once with
// one that is not.
TEST(SharesOfStrips, HaveTheSegmentsOfTheWhole) {
  for (const WeightForm& form : {kBf16, kE8m0, kF32Scales, kMxfp4}) {
    for (const int out : {kWideOutputs, 1024}) {
      WeightView whole{.format = form.format, .out = out, .in = 1100, .scale_format = form.scale_format};
      whole.block_in = form.block_in;
      const StripLinear of_whole(whole);
      for (const int ranks : kRanks) {
        const StripLinear share(share_of(whole, ranks - 1, ranks));
        EXPECT_EQ(share.segments, of_whole.segments) << describe(form) << ", " << out << " in " << ranks;
        EXPECT_EQ(share.segment_cells, of_whole.segment_cells);
        EXPECT_EQ(share.strips * ranks, of_whole.strips);
      }
    }
  }
}

std::vector<std::byte> packed(const LinearPacking& packing, const WeightView& view) {
  std::vector<std::byte> bytes(packing.packed_bytes(view), std::byte{0xFF});
  pack_linear_weight(nullptr, packing, view, bytes.data());
  return bytes;
}

TEST(SharesOfStrips, ArePartsOfTheWhole) {
  std::mt19937 random(22);
  for (const WeightForm& form : {kBf16, kE8m0, kF32Scales, kMxfp4}) {
    const TrainedWeight weight(random, form, 384, 200);
    const WeightView& whole = weight.view();
    const LinearPacking& packing = sm90_linear_packing().of(whole, InputForm::kBf16);
    const std::vector<std::byte> all = packed(packing, whole);
    const StripLinear shape(whole);
    for (const int ranks : kRanks) {
      for (int rank = 0; rank < ranks; ++rank) {
        const std::vector<std::byte> share = packed(packing, share_of(whole, rank, ranks));
        const std::size_t cells = shape.scales_at / static_cast<std::size_t>(ranks), scales = share.size() - cells,
                          r = static_cast<std::size_t>(rank);
        EXPECT_EQ(std::memcmp(share.data(), all.data() + r * cells, cells), 0) << describe(form) << " " << rank;
        EXPECT_EQ(std::memcmp(share.data() + cells, all.data() + shape.scales_at + r * scales, scales), 0);
      }
    }
  }
}

TEST(SharesOfFp8Tiles, HaveTheCodesAndScalesOfTheWhole) {
  std::mt19937 random(23);
  const LinearPacking& packing = *sm90_fp8_linear_packing().fp8_blocks;
  for (const WeightForm& form : {kE8m0, kF32Scales}) {
    const RandomWeight weight(random, form, 384, 256);
    for (const int ranks : kRanks) {  // shares of 192, 96 and 48: not all whole tiles
      for (int rank = 0; rank < ranks; ++rank) {
        const WeightView view = share_of(weight.view(), rank, ranks);
        ASSERT_TRUE(Fp8Linear::takes(view));
        const Fp8Linear shape(view);
        const std::vector<std::byte> bytes = packed(packing, view);
        for (int row = 0; row < view.out; ++row) {
          for (int k = 0; k < view.in; k += 37) {
            const auto block = static_cast<std::size_t>(row / kFp8Outputs * shape.blocks + k / kFp8Inputs);
            const std::byte code =
                bytes[block * kFp8TileBytes + static_cast<std::size_t>(fp8_byte(row % kFp8Outputs, k % kFp8Inputs))];
            const int in_whole = view.first_out + row;
            ASSERT_EQ(code, weight.view().data[static_cast<std::ptrdiff_t>(in_whole) * view.in + k]);
            float scale;
            const std::size_t of_block = block * kFp8TileScales + static_cast<std::size_t>(row % kFp8Outputs / 16);
            std::memcpy(&scale, bytes.data() + shape.scales_at + of_block * 4, 4);
            ASSERT_EQ(scale, weight.view().scale(in_whole, k)) << describe(form) << " row " << in_whole;
          }
        }
      }
    }
  }
}

// Pairs lie in an expert's rows in one order, whatever its threads do. There are more pairs than a team has threads,
// which reserve places in any order.
TEST(PairsOfRanks, AreInTheOrderOfTheirNumbers) {
  constexpr int kExperts = 7, kSlots = 3, kRows = 517, kPairs = kRows * kSlots;
  std::mt19937 random(24);
  const std::vector<ExpertWeights> experts(kExperts);
  std::vector<std::int32_t> ids(kPairs), rows(kPairs), positions(kPairs),
      used(cuda_emulated_ops::GroupSizes::kMost + 2);
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random() % (kExperts - 1));  // the last has none
  std::vector<float> given(kPairs), weights(kPairs);
  for (std::size_t p = 0; p < given.size(); ++p) given[p] = static_cast<float>(p);
  ExpertsArgs args;
  args.rows = kRows, args.slots = kSlots, args.expert_ids = ids.data(), args.expert_weights = given.data();
  args.experts = experts;
  std::vector<cuda_emulated_ops::RowGroup> groups[3];
  for (auto& list : groups) list.resize(static_cast<std::size_t>(cuda_emulated_ops::groups_of(args, kRows, 8)));
  const Exec exec{.kernels = &scalar_kernels(), .group = {.rank = 0, .ranks = 2}};
  cuda_emulated_ops::list_pairs(exec, args, 0, kRows, 8,
                                {.rows = rows.data(),
                                 .positions = positions.data(),
                                 .weights = weights.data(),
                                 .gate = groups[0].data(),
                                 .up = groups[1].data(),
                                 .down = groups[2].data(),
                                 .used = used.data()});
  for (std::size_t at = 0; at < weights.size(); ++at) {
    const auto pair = static_cast<std::size_t>(weights[at]);
    ASSERT_EQ(positions[pair], static_cast<std::int32_t>(at));
    ASSERT_EQ(rows[at], static_cast<std::int32_t>(pair) / kSlots);
    if (at == 0) continue;
    const auto before = static_cast<std::size_t>(weights[at - 1]);
    ASSERT_TRUE(ids[before] < ids[pair] || (ids[before] == ids[pair] && before < pair)) << at;
  }
}

// The experts of a layer, of which ranks have shares.
struct Layer {
  int experts, slots, hidden, inter;
  int shared_inter = 0;       // 0: no shared expert
  bool shared_whole = false;  // every rank has all of the shared expert's gate and up
  std::vector<RandomWeight> weights = {};
  std::vector<float> gate_bias = {}, up_bias = {}, down_bias = {};

  void make(std::mt19937& random, const WeightForm& form) {
    const auto add = [&](const WeightForm& of, int width) {
      weights.emplace_back(random, of, width, hidden);
      weights.emplace_back(random, of, width, hidden);
      weights.emplace_back(random, of, hidden, width);
    };
    for (int e = 0; e < experts; ++e) add(form, inter);
    if (shared_inter > 0) add(kE8m0, shared_inter);
    const auto bias = [&](int width) { return random_inputs(random, static_cast<std::size_t>(experts * width)); };
    gate_bias = bias(inter), up_bias = bias(inter), down_bias = bias(hidden);
  }
  // Rank `rank`'s share of biases, of `width` outputs each.
  std::vector<float> share(const std::vector<float>& all, int width, int rank, int ranks) const {
    std::vector<float> own;
    for (int e = 0; e < experts; ++e) {
      const auto begin = all.begin() + e * width + width / ranks * rank;
      own.insert(own.end(), begin, begin + width / ranks);
    }
    return own;
  }
};

struct Inputs {
  int rows;
  std::vector<float> x, weights;
  std::vector<std::int32_t> ids;
};

std::vector<float> run_rank(const Layer& layer, const Inputs& of, InputForm form, bool biased, RankGroup group) {
  ThreadPool one(1);
  OpTable ops = cuda_emulated_op_table();
  ops.all_gather = composed::all_gather;  // through HostExchange
  const Exec exec{.pool = &one, .kernels = &scalar_kernels(), .ops = &ops, .group = group};
  std::vector<ExpertWeights> all;
  for (std::size_t i = 0; i < layer.weights.size(); i += 3) {
    const bool whole = layer.shared_whole && i == layer.weights.size() - 3 && layer.shared_inter > 0;
    const auto weight = [&](std::size_t k) {
      const WeightView& view = layer.weights[i + k].view();
      return packed_weight(whole && k < 2 ? view : share_of(view, group.rank, group.ranks), form);
    };
    all.push_back({weight(0), weight(1), weight(2)});
  }
  const auto share = [&](const std::vector<float>& bias, int width) {
    return layer.share(bias, width, group.rank, group.ranks);
  };
  const std::vector<float> gate = share(layer.gate_bias, layer.inter), up = share(layer.up_bias, layer.inter),
                           down = share(layer.down_bias, layer.hidden);
  std::vector<float> x = of.x, y(static_cast<std::size_t>(of.rows * layer.hidden / group.ranks), NAN);
  ExpertsArgs args;
  args.rows = of.rows, args.hidden = layer.hidden, args.slots = layer.slots;
  args.x = contiguous_rows(x.data(), layer.hidden);
  args.expert_ids = of.ids.data(), args.expert_weights = of.weights.data();
  args.experts = std::span(all).first(static_cast<std::size_t>(layer.experts));
  args.shared = layer.shared_inter > 0 ? &all.back() : nullptr;
  if (biased) args.biases = {gate.data(), up.data(), down.data()};
  args.y = y.data();
  experts(exec, args);
  return y;
}

void expect_ranks_agree(const Layer& layer, const Inputs& inputs, InputForm form, bool biased, int ranks) {
  const std::vector<float> whole = run_rank(layer, inputs, form, biased, {});
  ASSERT_TRUE(std::ranges::none_of(whole, [](float y) { return std::isnan(y); }));
  HostExchange exchange(ranks, std::chrono::seconds(60));
  std::vector<std::vector<float>> shares(static_cast<std::size_t>(ranks));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        shares[static_cast<std::size_t>(rank)] = run_rank(layer, inputs, form, biased, {rank, ranks, &exchange});
      });
    }
  }
  ASSERT_TRUE(exchange.status().ok()) << exchange.status().message();
  for (int rank = 0; rank < ranks; ++rank) {
    EXPECT_EQ(first_other(shares[static_cast<std::size_t>(rank)], whole, inputs.rows, rank, ranks), -1)
        << "rank " << rank << " of " << ranks << ", " << inputs.rows << " rows as " << static_cast<int>(form);
  }
}

TEST(SharesOfExperts, HaveTheBitsOfTheWhole) {
  std::mt19937 random(25);
  const Layer kLayers[] = {{5, 3, 128, 256, 128},     {5, 3, 128, 256, 256, true}, {9, 2, 64, 384},
                           {3, 2, 160, 96, 64, true}, {4, 0, 128, 128, 256},       {6, 4, 256, 128, 384}};
  for (const WeightForm& form : {kMxfp4, kE8m0, kF32Scales, kBf16, kQ8}) {
    SCOPED_TRACE(describe(form));
    for (Layer layer : kLayers) {
      SCOPED_TRACE(layer.inter);
      layer.make(random, form);
      for (int i = 0; i < (kSanitized ? 1 : 2); ++i) {
        const InputForm inputs = kForms[random() % std::size(kForms)];
        const int ranks = kRanks[random() % (layer.hidden % 128 == 0 ? 3 : 1)], rows = random() % 2 == 0 ? 1 : 13;
        Inputs of{rows, random_inputs(random, static_cast<std::size_t>(rows * layer.hidden)), {}, {}};
        for (float& value : of.x) value = std::min(value, 4.0F) * 0.05F;
        for (int pair = 0; pair < rows * layer.slots; ++pair) {
          of.ids.push_back(static_cast<std::int32_t>(random() % static_cast<unsigned>(layer.experts)));
          of.weights.push_back(0.1F + static_cast<float>(random() % 100) * 0.01F);
        }
        expect_ranks_agree(layer, of, inputs, random() % 3 == 0, ranks);
      }
    }
  }
}

}  // namespace
}  // namespace sluice::shares_test
