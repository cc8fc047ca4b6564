// The products of the profile sm90 (kernels/cuda/strip_layout.h), if the GPU has it: every kernel, cut, number of rows
// and place of a row gives the bits of a plain kernel that follows the header. Further tests are errors, experts, and
// times.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/formats/number_formats.h"
#include "kernels/cuda/sm90/fragments.h"
#include "kernels/cuda/sm90/sm90_ops.h"
#include "kernels/ops/experts.h"
#include "kernels/weights/linear_inputs.h"
#include "kernels/tests/linear_testing.h"
#include "sm90_testing.h"

namespace sluice::gpu_strips_test {
namespace {

using namespace sm90_testing;
using cuda_sm90::StripProduct;
using cuda_sm90::StripRows;

// The header's order for one row, one strip a warp: weights as values, nothing loaded ahead, one row in the
// instruction.
__global__ void plain_product(const std::uint16_t* w, const float* scales, StripLinear shape, const std::uint16_t* x,
                              float* y) {
  const int strip = static_cast<int>(blockIdx.x), lane = static_cast<int>(threadIdx.x),
            width = shape.cells * kCellInputs;
  float total[4] = {}, chain[4] = {};
  for (int cell = 0; cell < shape.cells; ++cell) {
    for (int step = 0; step < kCellSteps; ++step) {
      std::uint32_t a[4], b[2];
      for (int r = 0; r < 4; ++r) {
        const int at = cell * kCellInputs + fragment_input(lane, step, r);
        const std::uint16_t* pair =
            w + static_cast<std::size_t>(strip * kStripOutputs + fragment_row(lane, r)) * width + at;
        a[r] = pair[0] | static_cast<std::uint32_t>(pair[1]) << 16;
        if (r % 2 == 0) b[r / 2] = lane / 4 == 0 ? x[at] | static_cast<std::uint32_t>(x[at + 1]) << 16 : 0U;
      }
      cuda_sm90::multiply_step(chain, a, b[0], b[1]);
    }
    if ((cell + 1) % shape.segment_cells != 0 && cell + 1 != shape.cells) continue;
    const int segment = cell / shape.segment_cells;
    for (int i = 0; i < 4; ++i) {
      const int output = strip * kStripOutputs + lane / 4 + i / 2 * 8;
      total[i] = std::fma(chain[i], scales[static_cast<std::size_t>(segment) * shape.strips * kStripOutputs + output],
                          total[i]);
      chain[i] = 0.0F;
    }
  }
  for (int i = 0; i < 4; i += 2) {
    const int output = strip * kStripOutputs + lane / 4 + i / 2 * 8;
    if (lane % 4 == 0 && output < shape.out) y[output] = total[i];
  }
}

// A random weight: packed on the device, and as values.
struct TestWeight {
  TestWeight(std::mt19937& random, const WeightForm& form, int out, int in)
      : values(random, form, out, in), view(values.view()), shape(view) {
    if (form.format == WeightFormat::kMxfp4) {  // larger scales are infinite
      scales.assign(view.scales, view.scales + static_cast<std::ptrdiff_t>(view.out) * view.scale_columns);
      for (std::byte& scale : scales) scale = std::min(scale, std::byte{128});
      view.scales = scales.data();
    }
    const LinearPacking& packing = sm90_linear_packing().of(view, InputForm::kBf16);
    std::vector<std::byte> packed(packing.packed_bytes(view), std::byte{0xFF});
    pack_linear_weight(nullptr, packing, view, packed.data());
    data = std::make_unique<OnDevice<std::byte>>(packed);
    packed_bytes = packed.size();
    weight = linear();
  }
  LinearWeight linear() const { return LinearWeight::make(view, InputForm::kBf16, {.packed = data->data(), .packed_bytes = packed_bytes}); }
  // y of one row of x, [padded in].
  void plain(const std::uint16_t* x, float* y) {
    if (bits == nullptr) {
      const bool later = shape.kind == StripKind::kFp8Scaled;
      const auto rows = static_cast<std::size_t>(shape.strips) * kStripOutputs,
                 width = static_cast<std::size_t>(shape.padded_in());
      std::vector<std::uint16_t> all(rows * width);
      std::vector<float> scales(static_cast<std::size_t>(shape.segments) * rows, 1.0F);
      for (int n = 0; n < view.out; ++n) {
        for (int k = 0; k < view.in; ++k) {
          const float scale = later ? 1.0F : view.scale(n, k);
          all[static_cast<std::size_t>(n) * width + static_cast<std::size_t>(k)] =
              to_bf16(view.element(n, k) * scale).bits;
        }
        for (int s = 0; later && s < shape.segments; ++s) {
          scales[static_cast<std::size_t>(s) * rows + static_cast<std::size_t>(n)] =
              view.scale(n, s * shape.segment_cells * kCellInputs);
        }
      }
      bits = std::make_unique<OnDevice<std::uint16_t>>(all);
      segment_scales = std::make_unique<OnDevice<float>>(scales);
    }
    plain_product<<<shape.strips, 32, 0, static_cast<cudaStream_t>(gpu().stream())>>>(
        bits->data(), segment_scales->data(), shape, x, y);
  }

  RandomWeight values;
  std::vector<std::byte> scales;
  WeightView view;
  StripLinear shape;
  LinearWeight weight;
  std::size_t packed_bytes = 0;
  std::unique_ptr<OnDevice<std::byte>> data;
  std::unique_ptr<OnDevice<std::uint16_t>> bits;
  std::unique_ptr<OnDevice<float>> segment_scales;
};

const WeightForm kForms[] = {{WeightFormat::kBf16, ScaleFormat::kNone},
                             {WeightFormat::kFp8, ScaleFormat::kE8m0, 128, 128},
                             {WeightFormat::kFp8, ScaleFormat::kF32, 128, 128},
                             {WeightFormat::kMxfp4, ScaleFormat::kE8m0, 1, 32}};

class GpuStrips : public Sm90Test {};
class GpuSpeedStrips : public Sm90SpeedTest {};

TEST_F(GpuStrips, EveryKernelAndNumberOfRowsGivesTheBitsOfThePlainOne) {
  constexpr int kRows = 300;
  constexpr struct {
    int out, in;
    bool every_count;
  } kShapes[] = {{40, 192, true},     {256, 1024, true}, {512, 4096, false}, {200, 1100, false},
                 {1024, 2048, false}, {64, 8192, false}, {16, 64, false}, {8200, 1152, false},
                 {4608, 4096, false}};  // the last: two strips to a team of several rows
  int products = 0;
  for (const WeightForm& form : kForms) {
    for (const auto& [out, in, every_count] : kShapes) {
      if (form.format != WeightFormat::kBf16 && in % 128 != 0 && in != 1100) continue;
      TestWeight weight(random_, form, out, in);
      const int width = weight.shape.padded_in(), real_in = weight.view.in;
      std::vector<std::uint16_t> values(static_cast<std::size_t>(kRows) * static_cast<std::size_t>(width));
      const std::vector<float> floats = random_values(random_, values.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<int>(i) % width < real_in ? to_bf16(floats[i]).bits : 0;
      }
      const OnDevice<std::uint16_t> x(values);
      const auto n = static_cast<std::size_t>(kRows) * static_cast<std::size_t>(out);
      const OnDevice<float> expected(n);
      OnDevice<float> y(n);
      for (int r = 0; r < kRows; ++r) {
        weight.plain(x.data() + static_cast<std::ptrdiff_t>(r) * width,
                     expected.data() + static_cast<std::ptrdiff_t>(r) * out);
      }
      StripProduct product{
          .weight = weight.shape, .data = weight.data->data(), .ldx = width, .y = y.data(), .ldy = out};
      for (int rows = 1; rows <= kRows; rows += every_count ? 1 : rows < 20 ? 3 : 47) {
        for (const int kernel : {cuda_sm90::kFewRows, cuda_sm90::kSomeRows, cuda_sm90::kManyRows, cuda_sm90::kTileRows}) {
          for (const auto cut :
               {StripRows::Cut::kAny, StripRows::Cut::kNarrow, StripRows::Cut::kSegments, StripRows::Cut::kPlain,
                StripRows::Cut::kWide}) {
            const int first = (rows * 7) % (kRows - rows + 1);
            product.x = x.data() + static_cast<std::ptrdiff_t>(first) * width;
            y.poison();
            cuda_sm90::multiply_strips(
                exec_, {.rows = rows, .kernel_rows = kernel, .cut = cut, .workspace_used = 0}, {&product, 1});
            const unsigned count = different(y.data(), expected.data() + static_cast<std::ptrdiff_t>(first) * out,
                                             static_cast<std::size_t>(rows) * out);
            ASSERT_EQ(count, 0U) << describe(form) << " " << out << " x " << in << ", rows " << rows << ", kernel "
                                 << kernel << ", cut " << static_cast<int>(cut);
            ++products;
          }
        }
      }
    }
  }
  RecordProperty("products", products);
}

// Inputs in the forms of callers: floats or prepared, gathered, at any address; several jobs at once.
TEST_F(GpuStrips, TheOpIsCloseToF64OnTheSameRoundedInputs) {
  constexpr int kRows = 70;
  double worst = 0.0;
  for (const WeightForm& form : kForms) {
    for (const int in : {1024, 1100, 4096}) {
      TestWeight weight(random_, form, 72, in);
      const int width = weight.view.in, gap = 3;
      const std::vector<float> x = random_values(random_, static_cast<std::size_t>(kRows) * (width + gap));
      std::vector<std::int32_t> list(kRows);
      for (int r = 0; r < kRows; ++r) list[static_cast<std::size_t>(r)] = (r * 29) % kRows;
      const int prepared_width = input_floats(InputForm::kBf16, width);
      std::vector<float> prepared(static_cast<std::size_t>(kRows) * prepared_width);
      prepare_on_host(InputForm::kBf16, kRows, width, x.data(), width + gap, prepared.data());
      const OnDevice<float> floats(x), rounded(prepared), y(kRows * 72), z(kRows * 72), one(kRows * 72);
      const OnDevice<std::int32_t> rows(list);
      const LinearJob jobs[] = {{&weight.weight, floats.data(), width + gap, y.data(), 72, rows.data(), false},
                                {&weight.weight, rounded.data(), prepared_width, z.data(), 72, rows.data(), true}};
      linear(exec_, {kRows, jobs});
      for (int r = 0; r < kRows; ++r) {
        const LinearJob alone{
            &weight.weight,
            floats.data() + static_cast<std::ptrdiff_t>(list[static_cast<std::size_t>(r)]) * (width + gap), width + gap,
            one.data() + r * 72, 72};
        linear(exec_, {1, {&alone, 1}});
      }
      EXPECT_EQ(different(y.data(), z.data(), kRows * 72), 0U) << describe(form) << " " << in;
      EXPECT_EQ(different(y.data(), one.data(), kRows * 72), 0U) << describe(form) << " " << in;
      std::vector<double> exact;
      for (int r = 0; r < kRows; ++r) {
        for (int n = 0; n < 72; ++n) {
          double sum = 0.0;
          for (int k = 0; k < width; ++k) {
            sum += static_cast<double>(weight.view.element(n, k)) * weight.view.scale(n, k) *
                   round_to_bf16(x[static_cast<std::size_t>(list[static_cast<std::size_t>(r)]) * (width + gap) +
                                   static_cast<std::size_t>(k)]);
          }
          exact.push_back(sum);
        }
      }
      const double distance = relative_distance(y.fetch(), exact);
      worst = std::max(worst, distance);
      EXPECT_LT(distance, 1e-5) << describe(form) << " " << in;
    }
  }
  std::printf("worst relative distance from f64: %.2e\n", worst);
}

// A layer of experts, routed and shared.
class TestExperts {
 public:
  TestExperts(std::mt19937& random, const WeightForm& form, const WeightForm& shared_form, int experts, int hidden,
              int inter, int slots, int rows)
      : hidden_(hidden), slots_(slots) {
    const auto add = [&](const WeightForm& of) {
      for (const auto& [out, in] : {std::pair{inter, hidden}, std::pair{inter, hidden}, std::pair{hidden, inter}}) {
        weights_.push_back(std::make_unique<TestWeight>(random, of, out, in));
      }
      const std::size_t at = weights_.size() - 3;
      return ExpertWeights{weights_[at]->linear(), weights_[at + 1]->linear(), weights_[at + 2]->linear()};
    };
    for (int e = 0; e < experts; ++e) experts_.push_back(add(form));
    shared_ = add(shared_form);
    const std::vector<float> x = random_values(random, static_cast<std::size_t>(rows) * hidden);
    x_ = std::make_unique<OnDevice<float>>(x);
    std::vector<float> rounded(static_cast<std::size_t>(rows) * input_floats(InputForm::kBf16, hidden));
    prepare_on_host(InputForm::kBf16, rows, hidden, x.data(), hidden, rounded.data());
    rounded_ = std::make_unique<OnDevice<float>>(rounded);
    std::vector<std::int32_t> ids;
    std::vector<float> of_slots;
    for (int r = 0; r < rows; ++r) {
      std::vector<std::int32_t> all(static_cast<std::size_t>(experts));
      for (int e = 0; e < experts; ++e) all[static_cast<std::size_t>(e)] = e;
      std::ranges::shuffle(all, random);
      if (r % 7 < 2) std::fill(all.begin(), all.begin() + slots, all[0]);  // an expert has more pairs than rows
      ids.insert(ids.end(), all.begin(), all.begin() + slots);
      for (int s = 0; s < slots; ++s) of_slots.push_back(0.1F + static_cast<float>(random() % 100) * 0.01F);
    }
    ids_ = std::make_unique<OnDevice<std::int32_t>>(ids);
    of_slots_ = std::make_unique<OnDevice<float>>(of_slots);
  }

  void run(const Exec& exec, int first, int rows, float* y, bool prepared = true) const {
    ExpertsArgs args{.rows = rows, .hidden = hidden_, .slots = slots_};
    args.x = contiguous_rows(x_->data() + static_cast<std::ptrdiff_t>(first) * hidden_, hidden_);
    if (prepared) {
      args.x.forms[static_cast<std::size_t>(InputForm::kBf16)] =
          rounded_->data() + static_cast<std::ptrdiff_t>(first) * input_floats(InputForm::kBf16, hidden_);
    }
    args.expert_ids = ids_->data() + static_cast<std::ptrdiff_t>(first) * slots_;
    args.expert_weights = of_slots_->data() + static_cast<std::ptrdiff_t>(first) * slots_;
    args.experts = experts_;
    args.shared = &shared_;
    args.activation.limit = 10.0F;
    args.y = y;
    cuda_sm90::experts(exec, args);
  }

  // The exact result in f64, with m rounded to bf16 as the op does.
  std::vector<double> exact(int rows) const {
    const std::vector<float> x = x_->fetch(), of_slots = of_slots_->fetch();
    const std::vector<std::int32_t> ids = ids_->fetch();
    std::vector<double> y;
    const auto dot = [](const TestWeight& w, int n, const std::vector<double>& v) {
      double sum = 0.0;
      for (int k = 0; k < w.view.in; ++k)
        sum += static_cast<double>(w.view.element(n, k)) * w.view.scale(n, k) * v[static_cast<std::size_t>(k)];
      return sum;
    };
    for (int r = 0; r < rows; ++r) {
      std::vector<double> row, sum(static_cast<std::size_t>(hidden_));
      for (int k = 0; k < hidden_; ++k)
        row.push_back(round_to_bf16(x[static_cast<std::size_t>(r) * hidden_ + static_cast<std::size_t>(k)]));
      for (int s = 0; s <= slots_; ++s) {
        const std::size_t at = static_cast<std::size_t>(r) * slots_ + static_cast<std::size_t>(s);
        const std::size_t expert = s < slots_ ? static_cast<std::size_t>(ids[at]) : experts_.size();
        std::vector<double> m;
        for (int n = 0; n < weights_[3 * expert]->view.out; ++n) {
          const double a = std::min(dot(*weights_[3 * expert], n, row), 10.0);
          const double b = std::clamp(dot(*weights_[3 * expert + 1], n, row), -10.0, 10.0);
          m.push_back(
              round_to_bf16(static_cast<float>(a / (1.0 + std::exp(-a)) * b * (s < slots_ ? of_slots[at] : 1.0F))));
        }
        for (int n = 0; n < hidden_; ++n) sum[static_cast<std::size_t>(n)] += dot(*weights_[3 * expert + 2], n, m);
      }
      y.insert(y.end(), sum.begin(), sum.end());
    }
    return y;
  }

 private:
  int hidden_, slots_;
  std::vector<std::unique_ptr<TestWeight>> weights_;
  std::vector<ExpertWeights> experts_;
  ExpertWeights shared_;
  std::unique_ptr<OnDevice<float>> x_, rounded_, of_slots_;
  std::unique_ptr<OnDevice<std::int32_t>> ids_;
};

TEST_F(GpuStrips, ARowOfExpertsHasTheSameBitsAloneAndAmongOthers) {
  constexpr int kRows = 300;
  for (const auto& [which, hidden, inter] : {std::tuple{0, 256, 128}, {1, 256, 128}, {2, 256, 128}, {3, 256, 128},
                                             {3, 1792, 768}}) {  // the last: rings that come round
    const WeightForm& form = kForms[which];
    const int kHidden = hidden;
    const TestExperts experts(random_, form, kForms[which == 3 ? 1 : 0], 8, hidden, inter, 3, kRows);
    const auto kCount = static_cast<std::size_t>(kRows) * static_cast<std::size_t>(hidden);
    const OnDevice<float> alone(kCount);
    OnDevice<float> y(kCount);
    for (int r = 0; r < kRows; ++r) experts.run(exec_, r, 1, alone.data() + static_cast<std::ptrdiff_t>(r) * kHidden);
    for (int rows = 1; rows <= kRows; rows += rows < 70 ? 1 : 23) {
      const int first = (rows * 11) % (kRows - rows + 1);
      y.poison();
      experts.run(exec_, first, rows, y.data(), rows % 5 != 0);
      ASSERT_EQ(different(y.data(), alone.data() + static_cast<std::ptrdiff_t>(first) * kHidden,
                          static_cast<std::size_t>(rows) * kHidden),
                0U)
          << describe(form) << ", rows " << rows;
    }
    std::vector<float> some = alone.fetch();
    some.resize(4 * kHidden);
    const double distance = relative_distance(some, experts.exact(4));
    EXPECT_LT(distance, 2e-3) << describe(form);
    std::printf("experts, %s: relative distance from f64 %.2e\n", describe(form).c_str(), distance);
  }
}

// Random packed bytes of a weight, in `least` copies or more, which fill 400 MB.
struct SpeedWeight {
  SpeedWeight(const WeightForm& form, int out, int in, int least)
      : view{.format = form.format,
             .out = out,
             .in = in,
             .scale_format = form.scale_format,
             .block_out = form.block_out,
             .block_in = form.block_in},
        shape(view) {
    view.block_in = form.format == WeightFormat::kBf16 ? 128 : view.block_in;
    stride = (shape.bytes() + 255) / 256 * 256;
    copies = std::max<int>(least, static_cast<int>((std::size_t{400} << 20) / stride) + 1);
    std::vector<std::byte> one(stride);
    std::mt19937 random(7);
    for (std::size_t i = 0; i + 4 <= one.size(); i += 4) {
      auto word = static_cast<std::uint32_t>(random());
      if (i >= shape.scales_at || (shape.kind == StripKind::kMxfp4 && i % kFp4PieceBytes >= kFp4PieceScalesAt))
        word = shape.kind == StripKind::kFp8Scaled ? 0x3C000000U : 0xF0F0F0F0U;
      else if (shape.kind == StripKind::kBf16)
        word = (word & 0x81FF81FFU) | 0x3C003C00U;
      else if (shape.kind != StripKind::kMxfp4)
        word &= 0xBFBFBFBFU;
      std::memcpy(&one[i], &word, 4);
    }
    data = std::make_unique<OnDevice<std::byte>>(stride * static_cast<std::size_t>(copies));
    gpu().upload({data->data(), one.data(), stride});
    for (int c = 1; c < copies; ++c)
      gpu().copy({data->data() + stride * static_cast<std::size_t>(c), data->data(), stride});
  }
  const std::byte* copy(int i) const { return data->data() + stride * static_cast<std::size_t>(i % copies); }
  LinearWeight weight(int i) const { return LinearWeight::make(view, InputForm::kBf16, {.packed = copy(i), .packed_bytes = shape.bytes()}); }
  WeightView view;
  StripLinear shape;
  std::size_t stride = 0;
  int copies = 0;
  std::unique_ptr<OnDevice<std::byte>> data;
};

int most_rows() {  // that are measured
  const char* most = std::getenv("SLUICE_MOST_ROWS");
  return most != nullptr ? std::atoi(most) : 8192;
}

TEST_F(GpuSpeedStrips, Products) {
  const double copy = copy_bytes_a_second();
  std::printf("copy %.0f GB/s\n", copy * 1e-9);
  const struct {
    const char* name;
    int form, out, in, groups;
  } kCases[] = {{"q_a", 1, 1024, 4096, 1},  {"kv", 1, 512, 4096, 1},   {"q_b", 1, 32768, 1024, 1},
                {"o_a", 1, 1024, 4096, 8},  {"o_b", 1, 4096, 8192, 1}, {"head", 0, 129280, 4096, 1},
                {"V3 o", 2, 7168, 16384, 1}};
  for (const auto& of : kCases) {
    const SpeedWeight weight(kForms[of.form], of.out, of.in, of.groups);
    constexpr int kMost = 4096;
    const bool head = of.out > 100000;
    std::vector<std::uint16_t> values(static_cast<std::size_t>(kMost) * of.in * (of.groups > 1 ? 1 : 1));
    std::mt19937 random(3);
    for (auto& value : values) value = static_cast<std::uint16_t>((random() & 0x81FFU) | 0x3E00U);
    const OnDevice<std::uint16_t> x(values);
    const OnDevice<float> y(static_cast<std::size_t>(head ? 256 : kMost) * of.out * of.groups);
    for (const int rows : {1, 2, 3, 4, 5, 8, 16, 32, 64, 128, 256, 2048, 4096}) {
      if ((head && rows > 256) || rows > most_rows()) continue;
      const int times = rows > 1000 ? 4 : 24;
      const double us = microseconds(times, [&](int i) {
        std::vector<StripProduct> products;
        for (int g = 0; g < of.groups; ++g) {
          products.push_back({.weight = weight.shape,
                              .data = weight.copy(i * of.groups + g),
                              .x = x.data(),
                              .ldx = of.in,
                              .y = y.data() + static_cast<std::ptrdiff_t>(g) * of.out,
                              .ldy = static_cast<std::ptrdiff_t>(of.out) * of.groups});
        }
        StripRows of_strips = StripRows::of(rows);
        of_strips.workspace_used = 0;
        cuda_sm90::multiply_strips(exec_, of_strips, products);
      });
      const double bytes = static_cast<double>(weight.shape.bytes()) * of.groups;
      const double flops = 2.0 * rows * of.out * of.in * of.groups;
      std::printf("%-5s %5d rows %9.1f us, weights at %5.1f %% of copy, %6.1f TFLOP/s, %4.0f MHz\n", of.name, rows, us,
                  100 * bytes / (us * 1e-6) / copy, flops / us * 1e-6, megahertz());
    }
  }
}

TEST_F(GpuSpeedStrips, Experts) {
  constexpr int kExperts = 256, kHidden = 4096, kInter = 2048, kSlots = 6, kMost = 8192;
  const double copy = copy_bytes_a_second();
  const SpeedWeight gate(kForms[3], kInter, kHidden, 2 * kExperts), down(kForms[3], kHidden, kInter, kExperts);
  const SpeedWeight shared_gate(kForms[1], kInter, kHidden, 2), shared_down(kForms[1], kHidden, kInter, 1);
  std::vector<ExpertWeights> experts;
  for (int e = 0; e < kExperts; ++e) experts.push_back({gate.weight(2 * e), gate.weight(2 * e + 1), down.weight(e)});
  const ExpertWeights shared{shared_gate.weight(0), shared_gate.weight(1), shared_down.weight(0)};
  std::mt19937 random(5);
  std::vector<float> pairs(static_cast<std::size_t>(kMost) * kHidden / 2);
  for (float& pair : pairs)
    pair = std::bit_cast<float>((static_cast<std::uint32_t>(random()) & 0x81FF81FFU) | 0x3E003E00U);
  const OnDevice<float> x(pairs), y(static_cast<std::size_t>(kMost) * kHidden);
  const OnDevice<float> of_slots(std::vector<float>(static_cast<std::size_t>(kMost) * kSlots, 0.2F));
  std::printf("copy %.0f GB/s\n", copy * 1e-9);
  for (const int rows : {1, 2, 3, 4, 5, 8, 16, 32, 64, 128, 256, 512, 2048, 8192}) {
    if (rows > most_rows()) continue;
    const int lists = rows >= 512 ? 1 : 8;  // lists of choices, so that few rows read other experts each time
    std::vector<std::int32_t> ids;
    double bytes = 0.0;
    for (int l = 0; l < lists; ++l) {
      std::vector<bool> used(kExperts);
      for (int r = 0; r < rows; ++r) {
        std::vector<std::int32_t> of_row;
        while (of_row.size() < kSlots) {
          const auto id = static_cast<std::int32_t>(random() % kExperts);
          if (std::ranges::find(of_row, id) == of_row.end())
            of_row.push_back(id), used[static_cast<std::size_t>(id)] = true;
        }
        ids.insert(ids.end(), of_row.begin(), of_row.end());
      }
      bytes +=
          std::ranges::count(used, true) * static_cast<double>(2 * gate.shape.bytes() + down.shape.bytes()) / lists;
    }
    const OnDevice<std::int32_t> chosen(ids);
    for (const bool with_shared : {false, true}) {
      const double us = microseconds(lists, [&](int i) {
        ExpertsArgs args{.rows = rows, .hidden = kHidden, .slots = kSlots};
        args.x = contiguous_rows(y.data(), kHidden);
        args.x.forms[static_cast<std::size_t>(InputForm::kBf16)] = x.data();
        args.expert_ids = chosen.data() + static_cast<std::ptrdiff_t>(i) * rows * kSlots;
        args.expert_weights = of_slots.data();
        args.experts = experts;
        args.shared = with_shared ? &shared : nullptr;
        args.activation.limit = 10.0F;
        args.y = y.data();
        cuda_sm90::experts(exec_, args);
      });
      const double all = bytes + (with_shared ? 2.0 * static_cast<double>(shared_gate.shape.bytes()) +
                                                    static_cast<double>(shared_down.shape.bytes())
                                              : 0.0);
      const double flops = 2.0 * rows * (kSlots + (with_shared ? 1 : 0)) * 3.0 * kHidden * kInter;
      std::printf("experts%s %5d tokens %9.1f us, weights at %5.1f %% of copy, %6.1f TFLOP/s, %4.0f MHz\n",
                  with_shared ? " and shared" : "", rows, us, 100 * all / (us * 1e-6) / copy, flops / us * 1e-6,
                  megahertz());
    }
  }
}

}  // namespace
}  // namespace sluice::gpu_strips_test
