// Experts of the profile sm90 in shapes that cut their work in every way, with weights of random bytes: a row has the
// same bits alone, with a few others and among many. The last tests are products that follow a kernel which writes
// their rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/formats/number_formats.h"
#include "kernels/cuda/fp8_layout.h"
#include "kernels/cuda/sm90/sm90_ops.h"
#include "kernels/ops/experts.h"
#include "kernels/weights/linear_inputs.h"
#include "kernels/tests/linear_testing.h"
#include "sm90_testing.h"

namespace sluice::gpu_experts_test {
namespace {

using namespace sm90_testing;

const WeightForm kMxfp4{WeightFormat::kMxfp4, ScaleFormat::kE8m0, 1, 32};
const WeightForm kFp8{WeightFormat::kFp8, ScaleFormat::kE8m0, 128, 128};
const WeightForm kBf16{WeightFormat::kBf16, ScaleFormat::kNone};
const WeightForm kScaledFp8{WeightFormat::kFp8, ScaleFormat::kF32, 128, 128};

// Weights in strips, as they are packed.
class PackedWeights {
 public:
  PackedWeights(std::mt19937& random, const WeightForm& form, int out, int in, int count)
      : view_{.format = form.format,
              .out = out,
              .in = in,
              .scale_format = form.scale_format,
              .block_out = form.block_out,
              .block_in = form.format == WeightFormat::kBf16 ? 128 : form.block_in},
        shape_(view_),
        stride_((shape_.bytes() + 255) / 256 * 256) {
    std::vector<std::byte> all(stride_ * static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < all.size(); i += 4) {
      const std::uint32_t word = word_at(i % stride_, static_cast<std::uint32_t>(random()));
      std::memcpy(&all[i], &word, 4);
    }
    data_ = std::make_unique<OnDevice<std::byte>>(all);
  }
  LinearWeight weight(int i) const {
    return LinearWeight::make(view_, InputForm::kBf16, {.packed = data_->data() + stride_ * static_cast<std::size_t>(i), .packed_bytes = shape_.bytes()});
  }

 private:
  // Values of about 1, or scales that keep products at about that size.
  std::uint32_t word_at(std::size_t at, std::uint32_t word) const {
    if (shape_.kind == StripKind::kMxfp4) {
      return at % kFp4PieceBytes < kFp4PieceScalesAt ? word : (word & 0x01010101U) + 0xF8F8F8F8U;
    }
    if (shape_.kind == StripKind::kBf16) return (word & 0x81FF81FFU) | 0x3C003C00U;
    if (at >= shape_.scales_at && shape_.kind == StripKind::kFp8Scaled) return (word & 0x807FFFFFU) | 0x3D000000U;
    return at < shape_.scales_at ? word & 0xBFBFBFBFU : (word & 0x01010101U) + 0xF3F3F3F3U;
  }

  WeightView view_;
  StripLinear shape_;
  std::size_t stride_;
  std::unique_ptr<OnDevice<std::byte>> data_;
};

struct Shape {
  int hidden, inter, slots;
  const WeightForm* shared;  // null: none
  const WeightForm* experts = &kMxfp4;
  bool skewed = false;  // the first expert has all rows
};

// A layer, and rows with their choices.
class Layer {
 public:
  static constexpr int kExperts = 12;
  Layer(std::mt19937& random, const Shape& shape, int rows)
      : shape_(shape),
        gate_(random, *shape.experts, shape.inter, shape.hidden, 2 * kExperts),
        down_(random, *shape.experts, shape.hidden, shape.inter, kExperts) {
    for (int e = 0; e < kExperts; ++e) experts_.push_back({gate_.weight(2 * e), gate_.weight(2 * e + 1), down_.weight(e)});
    if (shape.shared != nullptr) {
      shared_gate_ = std::make_unique<PackedWeights>(random, *shape.shared, shape.inter, shape.hidden, 2);
      shared_down_ = std::make_unique<PackedWeights>(random, *shape.shared, shape.hidden, shape.inter, 1);
      shared_ = {shared_gate_->weight(0), shared_gate_->weight(1), shared_down_->weight(0)};
    }
    std::vector<std::int32_t> ids;
    std::vector<float> of_slots;
    for (int r = 0; r < rows; ++r) {
      std::vector<std::int32_t> all(kExperts);
      std::iota(all.begin(), all.end(), 0);
      std::shuffle(all.begin() + (shape.skewed ? 1 : 0), all.end(), random);
      ids.insert(ids.end(), all.begin(), all.begin() + shape.slots);
      for (int s = 0; s < shape.slots; ++s) of_slots.push_back(0.1F + static_cast<float>(random() % 100) * 0.01F);
    }
    const std::vector<float> x = random_values(random, static_cast<std::size_t>(rows) * shape.hidden);
    std::vector<float> pairs(x.size() / 2);
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const std::uint32_t low = to_bf16(x[2 * i]).bits, high = to_bf16(x[2 * i + 1]).bits;
      pairs[i] = std::bit_cast<float>(low | high << 16);
    }
    x_ = std::make_unique<OnDevice<float>>(x), pairs_ = std::make_unique<OnDevice<float>>(pairs);
    ids_ = std::make_unique<OnDevice<std::int32_t>>(ids), of_slots_ = std::make_unique<OnDevice<float>>(of_slots);
  }

  void run(const Exec& exec, int first, int rows, float* y, bool prepared = true) const {
    ExpertsArgs args{.rows = rows, .hidden = shape_.hidden, .slots = shape_.slots};
    const std::ptrdiff_t values = std::ptrdiff_t{first} * shape_.hidden, pairs = std::ptrdiff_t{first} * shape_.slots;
    args.x = contiguous_rows(x_->data() + values, shape_.hidden);
    if (prepared) args.x.forms[static_cast<std::size_t>(InputForm::kBf16)] = pairs_->data() + values / 2;
    args.expert_ids = ids_->data() + pairs, args.expert_weights = of_slots_->data() + pairs;
    args.experts = experts_;
    args.shared = shape_.shared != nullptr ? &shared_ : nullptr;
    args.activation.limit = 10.0F;
    args.y = y;
    cuda_sm90::experts(exec, args);
  }
  void make_late(LateInputs& late) const { late.add(*x_), late.add(*pairs_), late.add(*ids_), late.add(*of_slots_); }

 private:
  Shape shape_;
  PackedWeights gate_, down_;
  std::unique_ptr<PackedWeights> shared_gate_, shared_down_;
  std::vector<ExpertWeights> experts_;
  ExpertWeights shared_;
  std::unique_ptr<OnDevice<float>> x_, pairs_, of_slots_;
  std::unique_ptr<OnDevice<std::int32_t>> ids_;
};

class GpuStripsOfExperts : public Sm90Test {};

// Strips of the shared expert by two warps and by one, several of them in a team, more units than warps, and segments
// whose number is odd; a shared expert that other kernels multiply, and none.
TEST_F(GpuStripsOfExperts, ARowHasTheSameBitsHoweverTheWorkIsCut) {
  constexpr int kRows = 40;
  static const Shape kShapes[] = {{2048, 1024, 6, &kFp8}, {1024, 4608, 3, &kFp8}, {1024, 2816, 8, &kFp8}, {4608, 768, 7, &kFp8},
                           {4608, 1536, 8, &kFp8}, {1280, 512, 6, &kBf16}, {1280, 512, 6, nullptr}};
  const bool brief = gpu_test_options().managed;
  for (const Shape& shape : kShapes) {
    if (brief && &shape > kShapes) break;
    SCOPED_TRACE(std::to_string(shape.hidden) + " x " + std::to_string(shape.inter) + ", slots " +
                 std::to_string(shape.slots));
    const Layer layer(random_, shape, kRows);
    OnDevice<float> together(static_cast<std::size_t>(kRows) * shape.hidden), some(together.bytes() / sizeof(float));
    together.poison();
    layer.run(exec_, 0, kRows, together.data());
    const std::vector<float> all = together.fetch();
    ASSERT_TRUE(std::ranges::all_of(all, [](float y) { return std::isfinite(y); }));
    const auto same = [&](int first, int rows) {
      return different(some.data(), together.data() + std::ptrdiff_t{first} * shape.hidden,
                       static_cast<std::size_t>(rows) * static_cast<std::size_t>(shape.hidden)) == 0;
    };
    for (const int rows : {1, 2, 3, 4, 5, 8, 17}) {
      for (int first = 0; first + rows <= kRows; first += brief ? kRows : rows == 1 ? 1 : 11) {
        some.poison();
        layer.run(exec_, first, rows, some.data(), first % 4 != 3);
        ASSERT_TRUE(same(first, rows)) << rows << " rows from " << first << " on";
      }
    }
    LateInputs late;
    layer.make_late(late);
    for (const int rows : {1, 2, 5, kRows}) {
      for (const bool prepared : {true, false}) {
        late.try_all(
            exec_, [&] { layer.run(exec_, 0, rows, some.data(), prepared); },
            [&](int time) { ASSERT_TRUE(same(0, rows)) << rows << " rows behind a kernel, time " << time; });
      }
    }
  }
}

// Tiles of every size, in groups of rows that are even and not, with segments of several numbers and lengths; and the
// kernels of few rows.
TEST_F(GpuStripsOfExperts, ARowHasTheSameBitsInTilesOfEverySize) {
  constexpr int kRows = 700;
  if (gpu_test_options().managed) GTEST_SKIP() << "many rows";
  static const Shape kShapes[] = {{2048, 1408, 6, &kBf16, &kBf16}, {2048, 768, 8, nullptr, &kBf16, true},
                                  {448, 320, 3, nullptr, &kBf16}, {4608, 192, 2, nullptr, &kBf16, true},
                                  {1024, 768, 6, &kFp8, &kFp8}, {1152, 640, 3, nullptr, &kFp8, true},
                                  {1024, 768, 6, nullptr, &kScaledFp8}, {1152, 640, 3, nullptr, &kScaledFp8, true}};
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE("shape " + std::to_string(&shape - kShapes));
    const Layer layer(random_, shape, kRows);
    OnDevice<float> alone(static_cast<std::size_t>(kRows) * shape.hidden), some(alone.bytes() / sizeof(float));
    alone.poison();
    for (int first = 0; first < kRows; first += 4) {
      layer.run(exec_, first, 4, alone.data() + std::ptrdiff_t{first} * shape.hidden);
    }
    ASSERT_TRUE(std::ranges::all_of(alone.fetch(), [](float y) { return std::isfinite(y); }));
    for (const int rows : {9, 17, 33, 64, 65, 100, 128, 129, 200, 333, kRows}) {
      for (int first = 0; first + rows <= kRows; first += rows + 61) {
        some.poison();
        layer.run(exec_, first, rows, some.data(), first % 4 != 3);
        ASSERT_EQ(different(some.data(), alone.data() + std::ptrdiff_t{first} * shape.hidden,
                            static_cast<std::size_t>(rows) * static_cast<std::size_t>(shape.hidden)),
                  0)
            << rows << " rows from " << first << " on";
      }
    }
    LateInputs late;
    layer.make_late(late);
    for (const int rows : {40, kRows}) {
      late.try_all(
          exec_, [&] { layer.run(exec_, 0, rows, some.data()); },
          [&](int time) {
            ASSERT_EQ(different(some.data(), alone.data(),
                                static_cast<std::size_t>(rows) * static_cast<std::size_t>(shape.hidden)),
                      0)
                << rows << " rows behind a kernel, time " << time;
          });
    }
  }
}

// A feed-forward without experts, large enough that tiles make m. Rows alone, which other kernels multiply, are equal.
TEST_F(GpuStripsOfExperts, ARowOfADenseLayerHasTheSameBitsHoweverTheWorkIsCut) {
  constexpr int kRows = 300, kHidden = 1024, kInter = 14336;
  if (gpu_test_options().managed) GTEST_SKIP() << "large weights";
  const PackedWeights gate(random_, kBf16, kInter, kHidden, 2), down(random_, kBf16, kHidden, kInter, 1);
  const ExpertWeights dense{gate.weight(0), gate.weight(1), down.weight(0)};
  const OnDevice<float> x(random_values(random_, std::size_t{kRows} * kHidden));
  OnDevice<float> together(std::size_t{kRows} * kHidden), some(std::size_t{kRows} * kHidden);
  const auto run = [&](int first, int rows, float* y) {
    ExpertsArgs args{};
    args.rows = rows, args.hidden = kHidden;
    args.x = contiguous_rows(x.data() + std::ptrdiff_t{first} * kHidden, kHidden);
    args.shared = &dense, args.activation.limit = 10.0F, args.y = y;
    cuda_sm90::experts(exec_, args);
  };
  together.poison();
  run(0, kRows, together.data());
  ASSERT_TRUE(std::ranges::all_of(together.fetch(), [](float y) { return std::isfinite(y); }));
  for (const int rows : {1, 3, 8, 16, 17, 40, 64, 65, 112, 113, 200}) {
    for (int first = 0; first + rows <= kRows; first += std::max(rows, 37)) {
      some.poison();
      run(first, rows, some.data());
      ASSERT_EQ(different(some.data(), together.data() + std::ptrdiff_t{first} * kHidden,
                          static_cast<std::size_t>(rows) * kHidden),
                0)
          << rows << " rows from " << first << " on";
    }
  }
}

// Every kernel of products, with weights in strips, in FP8 tiles and in the CPU's packing.
TEST_F(GpuStripsOfExperts, ProductsReadNoRowBeforeTheKernelAheadHasEnded) {
  const struct {
    const char* name;
    WeightForm form;
    InputForm wanted;
    bool prepared;
  } kKinds[] = {{"strips, bf16", kBf16, InputForm::kBf16, true},
                {"strips, FP8", kFp8, InputForm::kBf16, true},
                {"strips, FP8 of floats", kFp8, InputForm::kBf16, false},
                {"strips, FP8 with f32 scales", {WeightFormat::kFp8, ScaleFormat::kF32, 128, 128}, InputForm::kBf16, true},
                {"strips, MXFP4", kMxfp4, InputForm::kBf16, true},
                {"FP8 tiles", kFp8, InputForm::kFp8Blocks, false},
                {"f32", {WeightFormat::kF32, ScaleFormat::kNone}, InputForm::kF32, false},
                {"bf16", kBf16, InputForm::kF32, false},
                {"MXFP4 by int8", kMxfp4, InputForm::kInt8, true}};
  constexpr int kIn = 1024, kMost = 600;
  for (const auto& [name, form, wanted, prepared] : kKinds) {
    for (const int out : {8, 512}) {
      if (out == 8 && form.format != WeightFormat::kF32) continue;
      const RandomWeight values(random_, form, out, kIn);
      WeightView view = values.view();
      std::vector<std::byte> scales;
      if (form.format == WeightFormat::kMxfp4) {  // larger scales are infinite
        scales.assign(view.scales, view.scales + static_cast<std::ptrdiff_t>(view.out) * view.scale_columns);
        for (std::byte& scale : scales) scale = std::min(scale, std::byte{128});
        view.scales = scales.data();
      }
      const LinearPacking& packing =
          (wanted == InputForm::kFp8Blocks ? sm90_fp8_linear_packing() : sm90_linear_packing()).of(view, wanted);
      std::vector<std::byte> packed(packing.packed_bytes(view), std::byte{0xFF});
      pack_linear_weight(nullptr, packing, view, packed.data());
      const OnDevice<std::byte> data(packed);
      const LinearWeight weight = LinearWeight::make(view, wanted, {.packed = data.data(), .packed_bytes = packed.size()});
      const std::vector<float> floats = random_values(random_, static_cast<std::size_t>(kMost) * kIn);
      const int width = prepared ? input_floats(wanted, kIn) : kIn;
      std::vector<float> rows_of_x(static_cast<std::size_t>(kMost) * static_cast<std::size_t>(width));
      if (prepared) {
        prepare_on_host(wanted, kMost, kIn, floats.data(), kIn, rows_of_x.data());
      } else {
        rows_of_x = floats;
      }
      const OnDevice<float> x(rows_of_x);
      const OnDevice<float> expected(static_cast<std::size_t>(kMost * out));
      OnDevice<float> y(static_cast<std::size_t>(kMost * out));
      LateInputs late;
      late.add(x);
      for (const int rows : {1, 3, 20, 50, 100, kMost}) {
        const auto multiply = [&](const OnDevice<float>& to) {
          const LinearJob job{&weight, x.data(), width, to.data(), out, nullptr, prepared};
          cuda_sm90::linear(exec_, {rows, {&job, 1}});
        };
        multiply(expected);
        late.try_all(
            exec_, [&] { multiply(y); },
            [&](int time) {
              ASSERT_EQ(different(y.data(), expected.data(), static_cast<std::size_t>(rows * out)), 0U)
                  << name << ", " << rows << " rows, time " << time;
              y.poison();
            });
      }
    }
  }
}

}  // namespace
}  // namespace sluice::gpu_experts_test
