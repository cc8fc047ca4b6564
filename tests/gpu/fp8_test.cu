// The FP8 products of the profile sm90 (kernels/cuda/fp8_layout.h): every kernel, cluster, number of rows and place of
// a row gives the bits of a plain kernel that follows the header. Further tests are errors, experts, and times.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/formats/number_formats.h"
#include "kernels/cuda/sm90/fp8_experts.h"
#include "kernels/cuda/sm90/fp8_group.h"
#include "kernels/cuda/sm90/fp8_products.h"
#include "kernels/ops/experts.h"
#include "kernels/weights/linear_inputs.h"
#include "kernels/tests/linear_testing.h"
#include "sm90_testing.h"

namespace sluice::gpu_fp8_test {
namespace {

using namespace sm90_testing;
using cuda_sm90::Fp8Launch;
using cuda_sm90::Fp8Product;
using cuda_sm90::Fp8Rows;

// The header's order for one row and 64 outputs a block: weights and codes as they are stored, nothing loaded ahead,
// one row in the instruction. scales: the weight's, [block][out].
__global__ void plain_product(const std::uint8_t* w, const float* scales, int out, int in, const std::uint8_t* x,
                              const float* x_scales, float* y) {
  __shared__ __align__(1024) std::uint8_t a[kFp8TileBytes];
  __shared__ __align__(1024) std::uint8_t b[8 * kFp8Inputs];
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  float total[4] = {};
  for (int block = 0; block * kFp8Inputs < in; ++block) {
    for (int i = thread; i < kFp8TileBytes; i += 128) {
      const int row = i / kFp8Inputs, k = i % kFp8Inputs, n = static_cast<int>(blockIdx.x) * kFp8Outputs + row,
                at = block * kFp8Inputs + k;
      a[fp8_byte(row, k)] = n < out && at < in ? w[static_cast<std::size_t>(n) * in + at] : 0;
    }
    for (int i = thread; i < 8 * kFp8Inputs; i += 128) {
      const int at = block * kFp8Inputs + i;
      b[fp8_byte(i / kFp8Inputs, i % kFp8Inputs)] = i < kFp8Inputs && at < in ? x[at] : 0;
    }
    cuda_sm90::fence_shared();
    __syncthreads();
    float sums[4];
    cuda_sm90::multiply_fp8_block(sums, cuda_sm90::shared_address(a), cuda_sm90::shared_address(b));
    for (int i = 0; i < 4; i += 2) {
      const int n = static_cast<int>(blockIdx.x) * kFp8Outputs + warp * 16 + lane / 4 + i / 2 * 8;
      if (n < out) total[i] = std::fma(sums[i], scales[static_cast<std::size_t>(block) * out + n] * x_scales[block], total[i]);
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; i += 2) {
    const int n = static_cast<int>(blockIdx.x) * kFp8Outputs + warp * 16 + lane / 4 + i / 2 * 8;
    if (lane % 4 == 0 && n < out) y[n] = total[i];
  }
}

// A row's codes and scales, made by the header's rules.
struct HostRow {
  HostRow(const float* x, int in) {
    for (int begin = 0; begin < in; begin += kFp8Inputs) {
      const int end = std::min(in, begin + kFp8Inputs);
      float largest = 1e-4F;
      for (int k = begin; k < end; ++k) largest = std::max(largest, std::fabs(x[k]));
      scales.push_back(pow2_ceil(largest * (1.0F / 448.0F)));
      for (int k = begin; k < end; ++k) codes.push_back(float_to_e4m3(x[k] / scales.back()));
    }
  }
  double value(int k) const {
    return static_cast<double>(e4m3_to_float(codes[static_cast<std::size_t>(k)])) *
           scales[static_cast<std::size_t>(k / kFp8Inputs)];
  }
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;
};

// A random weight: packed on the device, and as it is stored.
struct TestWeight {
  TestWeight(std::mt19937& random, const WeightForm& form, int out, int in)
      : values(random, form, out, in), view(values.view()), shape(view) {
    const LinearPacking& packing = sm90_fp8_linear_packing().of(view, InputForm::kFp8Blocks);
    std::vector<std::byte> packed(packing.packed_bytes(view), std::byte{0xFF});
    pack_linear_weight(nullptr, packing, view, packed.data());
    EXPECT_EQ(packed.size(), shape.bytes());
    data = std::make_unique<OnDevice<std::byte>>(packed);
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(view.data);
    codes = std::make_unique<OnDevice<std::uint8_t>>(
        std::vector<std::uint8_t>(bytes, bytes + static_cast<std::ptrdiff_t>(out) * in));
    std::vector<float> all;
    for (int k = 0; k < in; k += kFp8Inputs) {
      for (int n = 0; n < out; ++n) all.push_back(view.scale(n, k));
    }
    scales = std::make_unique<OnDevice<float>>(all);
    weight = linear();
  }
  LinearWeight linear() const {
    return LinearWeight::make(view, InputForm::kFp8Blocks, {.packed = data->data(), .packed_bytes = shape.bytes()});
  }
  void plain(const std::uint8_t* x, const float* x_scales, float* y) const {
    plain_product<<<shape.tiles, 128, 0, static_cast<cudaStream_t>(gpu().stream())>>>(
        codes->data(), scales->data(), view.out, view.in, x, x_scales, y);
  }
  double exact(int n, const HostRow& row) const {
    double sum = 0.0;
    for (int k = 0; k < view.in; ++k) {
      sum += static_cast<double>(view.element(n, k)) * view.scale(n, k) * row.value(k);
    }
    return sum;
  }

  RandomWeight values;
  WeightView view;
  Fp8Linear shape;
  LinearWeight weight;
  std::unique_ptr<OnDevice<std::byte>> data;
  std::unique_ptr<OnDevice<std::uint8_t>> codes;
  std::unique_ptr<OnDevice<float>> scales;
};

const WeightForm kForms[] = {{WeightFormat::kFp8, ScaleFormat::kE8m0, 128, 128},
                             {WeightFormat::kFp8, ScaleFormat::kF32, 128, 128},
                             {WeightFormat::kFp8, ScaleFormat::kF32, 16, 256}};

class GpuFp8 : public Sm90Test {};
class GpuSpeedFp8 : public Sm90SpeedTest {};

TEST_F(GpuFp8, EveryKernelAndNumberOfRowsGivesTheBitsOfThePlainOne) {
  constexpr int kRows = 300;
  constexpr struct {
    int out, in;
    bool every_count;
  } kShapes[] = {{40, 192, true},     {256, 1024, true}, {512, 4096, false}, {200, 1100, false},
                 {1024, 2048, false}, {64, 8192, false}, {16, 64, false},    {8200, 1152, false}};
  int products = 0;
  for (const WeightForm& form : kForms) {
    for (const auto& [out, in, every_count] : kShapes) {
      const TestWeight weight(random_, form, out, in);
      const std::vector<float> floats = random_values(random_, static_cast<std::size_t>(kRows) * in);
      std::vector<std::uint8_t> codes;
      std::vector<float> scales;
      for (int r = 0; r < kRows; ++r) {
        const HostRow row(floats.data() + static_cast<std::ptrdiff_t>(r) * in, in);
        codes.insert(codes.end(), row.codes.begin(), row.codes.end());
        scales.insert(scales.end(), row.scales.begin(), row.scales.end());
      }
      const OnDevice<float> x(floats), x_scales(scales);
      const OnDevice<std::uint8_t> x_codes(codes);
      const auto n = static_cast<std::size_t>(kRows) * static_cast<std::size_t>(out);
      const OnDevice<float> expected(n);
      OnDevice<float> y(n);
      for (int r = 0; r < kRows; ++r) {
        weight.plain(x_codes.data() + static_cast<std::ptrdiff_t>(r) * in, x_scales.data() + r * weight.shape.blocks,
                     expected.data() + static_cast<std::ptrdiff_t>(r) * out);
      }
      const std::size_t room = 384 * static_cast<std::size_t>(weight.shape.blocks);
      const OnDevice<std::byte> row_codes(room * kFp8Inputs);
      const OnDevice<float> row_scales(room);
      for (int rows = 1; rows <= kRows; rows += every_count ? 1 : rows < 20 ? 3 : 47) {
        for (const int kernel : {8, 16, 32, 64, cuda_sm90::kFp8TileRows}) {
          for (const int cluster : {0, 1, 2, 4, 8}) {
            if (kernel == cuda_sm90::kFp8TileRows && cluster > 0) continue;
            const int first = (rows * 7) % (kRows - rows + 1);
            y.poison();
            Fp8Product product{.weight = weight.shape, .data = weight.data->data(), .y = y.data(), .ldy = out};
            product.x = {row_codes.data(), row_scales.data(), (rows + 127) / 128 * 128};
            cuda_sm90::make_fp8_rows(exec_, rows, {.x = x.data() + static_cast<std::ptrdiff_t>(first) * in, .ldx = in, .in = in},
                          product.x);
            cuda_sm90::multiply_fp8(exec_, {.rows = rows, .kernel_rows = kernel, .cluster = cluster}, {&product, 1});
            const unsigned count = different(y.data(), expected.data() + static_cast<std::ptrdiff_t>(first) * out,
                                             static_cast<std::size_t>(rows) * out);
            ASSERT_EQ(count, 0U) << describe(form) << " " << out << " x " << in << ", rows " << rows << ", kernel "
                                 << kernel << ", cluster " << cluster;
            ++products;
          }
        }
      }
    }
  }
  RecordProperty("products", products);
}

// Inputs in the forms of callers: gathered, at any address; several jobs at once.
TEST_F(GpuFp8, TheOpIsCloseToF64OnTheSameRoundedInputs) {
  constexpr int kRows = 70, kOut = 72;
  double worst = 0.0;
  for (const WeightForm& form : kForms) {
    for (const int in : {1024, 1100, 4096}) {
      const TestWeight weight(random_, form, kOut, in);
      const int gap = 3;
      const std::vector<float> x = random_values(random_, static_cast<std::size_t>(kRows) * (in + gap));
      std::vector<std::int32_t> list(kRows);
      for (int r = 0; r < kRows; ++r) list[static_cast<std::size_t>(r)] = (r * 29) % kRows;
      const OnDevice<float> floats(x), y(kRows * kOut), z(kRows * kOut), one(kRows * kOut);
      const OnDevice<std::int32_t> rows(list);
      const LinearJob jobs[] = {{&weight.weight, floats.data(), in + gap, y.data(), kOut, rows.data(), false},
                                {&weight.weight, floats.data(), in + gap, z.data(), kOut, rows.data(), false}};
      linear(exec_, {kRows, jobs});
      const auto row_at = [&](int r) { return static_cast<std::ptrdiff_t>(list[static_cast<std::size_t>(r)]) * (in + gap); };
      std::vector<double> exact;
      for (int r = 0; r < kRows; ++r) {
        const LinearJob alone{&weight.weight, floats.data() + row_at(r), in + gap, one.data() + r * kOut, kOut};
        linear(exec_, {1, {&alone, 1}});
        const HostRow row(x.data() + row_at(r), in);
        for (int n = 0; n < kOut; ++n) exact.push_back(weight.exact(n, row));
      }
      EXPECT_EQ(different(y.data(), z.data(), kRows * kOut), 0U) << describe(form) << " " << in;
      EXPECT_EQ(different(y.data(), one.data(), kRows * kOut), 0U) << describe(form) << " " << in;
      const double distance = relative_distance(y.fetch(), exact);
      worst = std::max(worst, distance);
      EXPECT_LT(distance, 1e-3) << describe(form) << " " << in;
    }
  }
  std::printf("worst relative distance from f64: %.2e\n", worst);
}

// Experts in FP8 or MXFP4, the shared one in FP8.
class TestExperts {
 public:
  static constexpr int kExperts = 12, kHidden = 512, kInter = 512, kSlots = 3;

  TestExperts(std::mt19937& random, bool fp4, int rows) : x_(random_values(random, rows * kHidden)) {
    for (int e = 0; e <= kExperts; ++e) {
      for (const auto& [out, in] : {std::pair{kInter, kHidden}, std::pair{kInter, kHidden}, std::pair{kHidden, kInter}}) {
        add(random, e == kExperts || !fp4, out, in);
      }
      const std::size_t at = packed_.size() - 3;
      (e < kExperts ? experts_ : shared_).push_back({linear(at), linear(at + 1), linear(at + 2)});
    }
    for (int r = 0; r < rows; ++r) {
      std::vector<std::int32_t> all(kExperts);
      for (int e = 0; e < kExperts; ++e) all[static_cast<std::size_t>(e)] = e;
      std::ranges::shuffle(all, random);
      ids_.insert(ids_.end(), all.begin(), all.begin() + kSlots);
      for (int s = 0; s < kSlots; ++s) of_slots_.push_back(0.1F + static_cast<float>(random() % 100) * 0.01F);
    }
    std::vector<float> rounded(static_cast<std::size_t>(rows) * kHidden / 2);
    prepare_on_host(InputForm::kFp8, rows, kHidden, x_.data(), kHidden, rounded.data());
    on_device_ = {std::make_unique<OnDevice<float>>(x_), std::make_unique<OnDevice<float>>(rounded),
                  std::make_unique<OnDevice<float>>(of_slots_)};
    ids_on_device_ = std::make_unique<OnDevice<std::int32_t>>(ids_);
  }

  void run(const Exec& exec, int first, int rows, float* y, bool prepared = true) const {
    ExpertsArgs args{.rows = rows, .hidden = kHidden, .slots = kSlots};
    args.x = contiguous_rows(on_device_[0]->data() + std::ptrdiff_t{first} * kHidden, kHidden);
    if (prepared) {
      args.x.forms[static_cast<std::size_t>(InputForm::kFp8)] =
          on_device_[1]->data() + std::ptrdiff_t{first} * kHidden / 2;
    }
    args.expert_ids = ids_on_device_->data() + std::ptrdiff_t{first} * kSlots;
    args.expert_weights = on_device_[2]->data() + std::ptrdiff_t{first} * kSlots;
    args.experts = experts_;
    args.shared = &shared_[0];
    args.activation.limit = 10.0F;
    args.y = y;
    cuda_sm90::experts(exec, args);
  }

  // The exact result in f64, with x and m rounded as the op does.
  std::vector<double> exact(int rows) const {
    std::vector<double> y;
    const auto dot = [](const WeightView& w, int n, const HostRow& row) {
      double sum = 0.0;
      for (int k = 0; k < w.in; ++k) sum += static_cast<double>(w.element(n, k)) * w.scale(n, k) * row.value(k);
      return sum;
    };
    for (int r = 0; r < rows; ++r) {
      const HostRow row(x_.data() + std::ptrdiff_t{r} * kHidden, kHidden);
      std::vector<double> sum(kHidden);
      for (int s = 0; s <= kSlots; ++s) {
        const std::size_t at = static_cast<std::size_t>(r * kSlots + s);
        const std::size_t expert = s < kSlots ? static_cast<std::size_t>(ids_[at]) : kExperts;
        std::vector<float> m;
        for (int n = 0; n < kInter; ++n) {
          const double a = std::min(dot(views_[3 * expert], n, row), 10.0);
          const double b = std::clamp(dot(views_[3 * expert + 1], n, row), -10.0, 10.0);
          m.push_back(round_to_bf16(
              static_cast<float>(a / (1.0 + std::exp(-a)) * b * (s < kSlots ? of_slots_[at] : 1.0F))));
        }
        const HostRow inner(m.data(), kInter);
        for (int n = 0; n < kHidden; ++n) sum[static_cast<std::size_t>(n)] += dot(views_[3 * expert + 2], n, inner);
      }
      y.insert(y.end(), sum.begin(), sum.end());
    }
    return y;
  }

 private:
  void add(std::mt19937& random, bool fp8, int out, int in) {
    static const WeightForm kMxfp4{WeightFormat::kMxfp4, ScaleFormat::kE8m0, 1, 32};
    values_.push_back(std::make_unique<RandomWeight>(random, fp8 ? kForms[0] : kMxfp4, out, in));
    WeightView view = values_.back()->view();
    if (!fp8) {  // larger scales are infinite
      scales_.emplace_back(view.scales, view.scales + static_cast<std::ptrdiff_t>(view.out) * view.scale_columns);
      for (std::byte& scale : scales_.back()) scale = std::min(scale, std::byte{128});
      view.scales = scales_.back().data();
    }
    views_.push_back(view);
    const LinearPacking& packing = sm90_fp8_linear_packing().of(view, InputForm::kFp8Blocks);
    std::vector<std::byte> packed(packing.packed_bytes(view), std::byte{0xFF});
    pack_linear_weight(nullptr, packing, view, packed.data());
    bytes_.push_back(packed.size());
    packed_.push_back(std::make_unique<OnDevice<std::byte>>(packed));
  }
  LinearWeight linear(std::size_t i) const {
    return LinearWeight::make(views_[i], InputForm::kFp8Blocks, {.packed = packed_[i]->data(), .packed_bytes = bytes_[i]});
  }

  std::vector<float> x_, of_slots_;
  std::vector<std::int32_t> ids_;
  std::vector<std::unique_ptr<RandomWeight>> values_;
  std::deque<std::vector<std::byte>> scales_;
  std::vector<WeightView> views_;
  std::vector<std::unique_ptr<OnDevice<std::byte>>> packed_;
  std::vector<std::size_t> bytes_;
  std::vector<ExpertWeights> experts_, shared_;
  std::array<std::unique_ptr<OnDevice<float>>, 3> on_device_;
  std::unique_ptr<OnDevice<std::int32_t>> ids_on_device_;
};

TEST_F(GpuFp8, ARowOfExpertsHasTheSameBitsAmongAnyOthers) {
  constexpr int kRows = 300, kHidden = TestExperts::kHidden;
  for (const bool fp4 : {false, true}) {
    const TestExperts experts(random_, fp4, kRows);
    constexpr std::size_t kCount = std::size_t{kRows} * kHidden;
    const OnDevice<float> alone(kCount);
    OnDevice<float> y(kCount);
    for (int r = 0; r < kRows; ++r) experts.run(exec_, r, 1, alone.data() + std::ptrdiff_t{r} * kHidden);
    for (int rows = 1; rows <= kRows; rows += rows < 70 ? 1 : 23) {
      const int first = (rows * 11) % (kRows - rows + 1);
      y.poison();
      experts.run(exec_, first, rows, y.data(), rows % 5 != 0);
      ASSERT_EQ(different(y.data(), alone.data() + std::ptrdiff_t{first} * kHidden,
                          static_cast<std::size_t>(rows) * kHidden),
                0U)
          << (fp4 ? "MXFP4" : "FP8") << ", rows " << rows;
    }
    std::vector<float> some = alone.fetch();
    some.resize(4 * kHidden);
    const double distance = relative_distance(some, experts.exact(4));
    EXPECT_LT(distance, 2e-2);  // a value of m that falls to the other side of a rounding is an eighth away
    std::printf("experts, %s: relative distance from f64 %.2e\n", fp4 ? "MXFP4" : "FP8", distance);
  }
}

TEST_F(GpuSpeedFp8, Products) {
  const double copy = copy_bytes_a_second();
  std::printf("copy %.0f GB/s\n", copy * 1e-9);
  const struct {
    const char* name;
    int out, in;
  } kCases[] = {{"q_a", 1024, 4096},  {"kv", 512, 4096},    {"q_b", 32768, 1024},
                {"o_b", 4096, 8192},  {"gate", 2048, 4096}, {"V3 o", 7168, 16384}};
  for (const auto& [name, out, in] : kCases) {
    const WeightView view{.format = WeightFormat::kFp8,
                          .out = out,
                          .in = in,
                          .scale_format = ScaleFormat::kF32,
                          .block_out = 128,
                          .scale_columns = in / 128};
    const Fp8Linear shape(view);
    const std::size_t stride = (shape.bytes() + 255) / 256 * 256;
    const int copies = static_cast<int>((std::size_t{400} << 20) / stride) + 1;
    std::vector<std::byte> one(stride);
    std::mt19937 random(7);
    for (std::size_t i = 0; i < shape.scales_at; ++i) one[i] = static_cast<std::byte>(random() & 0xBFU);
    for (std::size_t i = shape.scales_at; i + 4 <= stride; i += 4) std::memcpy(&one[i], "\0\0\0\x3C", 4);
    const OnDevice<std::byte> data(stride * static_cast<std::size_t>(copies));
    for (int c = 0; c < copies; ++c) gpu().upload({data.data() + stride * static_cast<std::size_t>(c), one.data(), stride});
    const int most = out > 30000 ? 4096 : 8192;
    const OnDevice<float> x(random_values(random, static_cast<std::size_t>(most) * in));
    const OnDevice<float> y(static_cast<std::size_t>(most) * out);
    const OnDevice<std::byte> codes(static_cast<std::size_t>(most) * shape.blocks * kFp8Inputs);
    const OnDevice<float> scales(static_cast<std::size_t>(most) * shape.blocks);
    for (const int rows : {1, 8, 16, 32, 64, 128, 256, 1024, 2048, 4096, 8192}) {
      if (rows > most) continue;
      const int times = rows > 1000 ? 4 : 24;
      const auto product = [&](int i, bool makes) {
        Fp8Product made{.weight = shape,
                        .data = data.data() + stride * static_cast<std::size_t>(i % copies),
                        .y = y.data(),
                        .ldy = out};
        made.x = {codes.data(), scales.data(), (rows + 127) / 128 * 128};
        if (makes) cuda_sm90::make_fp8_rows(exec_, rows, {.x = x.data(), .ldx = in, .in = in}, made.x);
        cuda_sm90::multiply_fp8(exec_, rows, {&made, 1});
      };
      const double us = microseconds(times, [&](int i) { product(i, false); });
      const double with_rows = microseconds(times, [&](int i) { product(i, true); });
      std::printf("%-5s %5d rows %9.1f us, weights at %5.1f %% of copy, %6.1f TFLOP/s; with its codes %9.1f us\n", name,
                  rows, us, 100 * static_cast<double>(shape.bytes()) / (us * 1e-6) / copy,
                  2.0 * rows * out * in / us * 1e-6, with_rows);
    }
  }
}

}  // namespace
}  // namespace sluice::gpu_fp8_test
