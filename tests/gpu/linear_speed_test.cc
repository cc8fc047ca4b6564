// The time of one row through the linears of V4 Flash, compared with a copy within the device.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <random>
#include <vector>

#include "gpu_testing.h"
#include "kernels/cuda/linear_layout.h"
#include "kernels/weights/input_forms.h"
#include "kernels/weights/linear_inputs.h"

namespace sluice::gpu_linear_speed_test {
namespace {

// Weights without meaning. There are enough of each kind that each call reads them from memory.
class Weights {
 public:
  static constexpr std::size_t kBytes = std::size_t{256} << 20;  // several times the L2 cache

  Weights(const WeightForm& spec, InputForm form, int out, int in, int of_call) : of_call_(of_call) {
    const WeightView view{.format = spec.format,
                          .out = out,
                          .in = in,
                          .scale_format = spec.scale_format,
                          .block_out = spec.block_out,
                          .block_in = spec.block_in,
                          .scale_columns = (in + spec.block_in - 1) / spec.block_in};
    bytes_ = CudaLinear(view).bytes();
    const std::size_t stride = (bytes_ + 255) / 256 * 256;
    calls_ = static_cast<int>(kBytes / (stride * static_cast<std::size_t>(of_call)) + 1);
    memory_ = gpu().map(stride * static_cast<std::size_t>(calls_ * of_call), "a test").value();
    gpu().fill(memory_.data(), std::byte{0x31}, memory_.size());
    for (int i = 0; i < calls_ * of_call; ++i) {
      weights_.push_back(LinearWeight::make(
          view, form, {.packed = memory_.data() + stride * static_cast<std::size_t>(i), .packed_bytes = bytes_}));
    }
  }
  double bytes_of_call() const { return static_cast<double>(bytes_) * of_call_; }
  std::span<const LinearWeight> of(int call) const {
    return std::span(weights_).subspan(static_cast<std::size_t>(call % calls_ * of_call_),
                                       static_cast<std::size_t>(of_call_));
  }

 private:
  int of_call_, calls_ = 0;
  std::size_t bytes_ = 0;
  DeviceMemory memory_;
  std::vector<LinearWeight> weights_;
};

// The time of a call, the least of three tries.
struct Took {
  double seconds = 1e9, enqueueing = 1e9;
};
template <class Call>
Took time_of(int calls, const Call& call) {
  const auto since = [](auto begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  Took least;
  for (int turn = 0; turn < 4; ++turn) {
    gpu().wait();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call(i);
    const double enqueueing = since(begin);
    gpu().wait();
    const double seconds = since(begin);
    if (turn == 0) continue;
    least.seconds = std::min(least.seconds, seconds / calls);
    least.enqueueing = std::min(least.enqueueing, enqueueing / calls);
  }
  return least;
}

struct Part {
  WeightForm spec;
  int out, in;
  int count = 1;
};

// The linears of one op's call, on the same row.
struct Linears {
  const char* name;
  std::vector<Part> parts;
  double a_step;  // calls
};

const WeightForm kFp8{WeightFormat::kFp8, ScaleFormat::kE8m0, 128, 128},
    kMxfp4{WeightFormat::kMxfp4, ScaleFormat::kE8m0, 1, 32}, kBf16{WeightFormat::kBf16, ScaleFormat::kNone};
// The calls of model/deepseek_v4: of 43 layers 2 have a window alone, 20 are HCA, 21 are CSA and past its top-k. The
// experts are jobs of their own here, in groups there.
const Linears kFlash[] = {
    {"from_x", {{kFp8, 1024, 4096}, {kFp8, 512, 4096}}, 2},
    {"from_x_hca", {{kFp8, 1024, 4096}, {kFp8, 512, 4096}, {kBf16, 512, 4096, 2}}, 20},
    {"from_x_csa",
     {{kFp8, 1024, 4096}, {kFp8, 512, 4096}, {kBf16, 1024, 4096, 2}, {kBf16, 256, 4096, 2}, {kBf16, 64, 4096}},
     21},
    {"from_q_a", {{kFp8, 32768, 1024}}, 22},
    {"from_q_a_csa", {{kFp8, 32768, 1024}, {kFp8, 8192, 1024}}, 21},
    {"o_a", {{kFp8, 1024, 4096, 8}}, 43},
    {"o_b", {{kFp8, 4096, 8192}}, 43},
    {"router", {{kBf16, 256, 4096}}, 43},
    {"experts_gate_up", {{kMxfp4, 2048, 4096, 12}}, 43},
    {"experts_down", {{kMxfp4, 4096, 2048, 6}}, 43},
    {"shared_gate_up", {{kFp8, 2048, 4096, 2}}, 43},
    {"shared_down", {{kFp8, 4096, 2048}}, 43},
    {"head", {{kBf16, 129280, 4096}}, 1}};

// Inputs are f32, or, as in the default profile, prepared by the op before.
class GpuSpeedOfLinears : public ::testing::TestWithParam<InputForm> {
 protected:
  static constexpr std::size_t kCopied = std::size_t{1} << 30;
  void SetUp() override {
    memory_ = gpu().map(2 * kCopied, "a test").value();
    const auto copy = [&](int) { gpu().copy({memory_.data() + kCopied, memory_.data(), kCopied}); };
    copied_ = 2.0 * kCopied / time_of(8, copy).seconds;
    std::vector<float> x(kMostInputs);
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (float& value : x) value = normal(random);
    gpu().upload({memory_.data(), reinterpret_cast<const std::byte*>(x.data()), x.size() * sizeof(float)});
  }

  Took time_of_row(const Linears& linears, const std::vector<Weights>& weights) {
    auto* const values = reinterpret_cast<float*>(memory_.data());
    auto* const y = reinterpret_cast<float*>(memory_.data() + kCopied);
    const int in = linears.parts[0].in;
    std::vector<const float*> x;  // in the form of each part
    for (const Weights& part : weights) {
      const InputForm form = part.of(0)[0].input_form();
      x.push_back(values);
      if (form == InputForm::kF32) continue;
      float* to = values + x.size() * kMostInputs;
      prepare_rows(exec_, {form, 1, in, values, in, to, input_floats(form, in)});
      x.back() = to;
    }
    return time_of(gpu_test_options().repeat, [&](int call) {
      std::vector<LinearJob> jobs;
      float* to = y;
      for (std::size_t part = 0; part < weights.size(); ++part) {
        for (const LinearWeight& weight : weights[part].of(call)) {
          jobs.push_back({&weight, x[part], in, to, weight.out()});
          jobs.back().x_prepared = x[part] != values;
          to += weight.out();
        }
      }
      linear(exec_, LinearArgs{1, jobs});
    });
  }

  static constexpr int kMostInputs = 8192;
  ThreadPool one_{1};
  const Exec exec_{&one_, &scalar_kernels(), &cuda_op_table(), &gpu()};
  DeviceMemory memory_;
  double copied_ = 0;  // bytes read and written in a second
};

TEST_P(GpuSpeedOfLinears, OneRowOfV4Flash) {
  double all_bytes = 0, all_seconds = 0;
  for (const Linears& linears : kFlash) {
    std::vector<Weights> weights;
    double bytes = 0;
    for (const Part& part : linears.parts) {
      const bool quantized = part.spec.format != WeightFormat::kBf16;
      weights.emplace_back(part.spec, quantized ? GetParam() : float_inputs(GetParam()), part.out, part.in, part.count);
      bytes += weights.back().bytes_of_call();
    }
    const auto [took, enqueueing] = time_of_row(linears, weights);
    const double rate = bytes / took;
    std::printf("%-20s %9.2f us %8.1f GB/s, %3.0f %% of a copy; enqueued in %.2f us\n", linears.name, took * 1e6,
                rate / 1e9, 100 * rate / copied_, enqueueing * 1e6);
    RecordProperty(fmt::format("{}_us", linears.name), fmt::format("{:.2f}", took * 1e6));
    all_bytes += bytes * linears.a_step;
    all_seconds += took * linears.a_step;
  }
  const double share = all_bytes / all_seconds / copied_;
  std::printf("a step: %.2f GB in %.2f ms, %.0f GB/s, %.0f %% of a copy's %.0f GB/s\n", all_bytes / 1e9,
              all_seconds * 1e3, all_bytes / all_seconds / 1e9, 100 * share, copied_ / 1e9);
  RecordProperty("step_ms", fmt::format("{:.3f}", all_seconds * 1e3));
  RecordProperty("step_share_of_copy", fmt::format("{:.3f}", share));
  ASSERT_TRUE(gpu().status().ok()) << gpu().status().message();
  EXPECT_GE(share, 0.5);
}

INSTANTIATE_TEST_SUITE_P(GpuSpeed, GpuSpeedOfLinears, ::testing::Values(InputForm::kF32, InputForm::kInt8),
                         [](const auto& info) { return info.param == InputForm::kF32 ? "floats" : "default"; });

}  // namespace
}  // namespace sluice::gpu_linear_speed_test
