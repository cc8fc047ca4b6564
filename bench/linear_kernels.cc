// linear, experts and packing, by format and form of inputs.
#include <fmt/format.h>

#include <cstring>
#include <random>
#include <set>

#include "base/aligned.h"
#include "base/storage/large_bytes.h"
#include "kernel_lines.h"
#include "kernels/ops/experts.h"

namespace sluice {
namespace {

struct Shape {
  const char* name;
  WeightFormat format;
  ScaleFormat scale_format;
  int out, in;
  DType codes = DType::kQ8_0;
};

constexpr const char* kInputs[] = {"", " bf16 in", " int8 in", " fp8 in", " tiles in"};

// A weight of random bits, none of them NaN.
struct Weight {
  Weight(const Exec& exec, const Shape& shape, InputForm form) {
    view.format = shape.format;
    view.out = shape.out;
    view.in = shape.in;
    view.scale_format = shape.scale_format;
    set_scale_blocks(view, 128, 128);
    view.codes = shape.codes;
    view.scale_columns = (shape.in + view.block_in - 1) / view.block_in;
    std::mt19937 random(1);
    data.resize(view.row_bytes() * static_cast<std::size_t>(view.transposed() ? shape.in : shape.out));
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(random() & 0x3F);
    const int scale_rows = (shape.out + view.block_out - 1) / view.block_out;
    scales.resize(static_cast<std::size_t>(scale_rows * view.scale_columns) * 4, std::byte{0x3C});
    view.data = data.data();
    view.scales = scales.data();
    packed = LinearWeight::make(view, form, packs_for(exec));
  }
  std::size_t bytes() const { return packed.packed_bytes() > 0 ? packed.packed_bytes() : data.size(); }

  std::vector<std::byte> data, scales;
  WeightView view;
  LinearWeight packed;
};

// The same packed weight at many places of memory.
class Copies {
 public:
  Copies(const KernelBench& bench, const Weight& weight) {
    const std::size_t size = weight.packed.packed_bytes(), stride = (size + 63) / 64 * 64;
    const int count = size > 0 ? bench.copies(size) : 1;  // unpacked weights are used in place
    if (count == 1) {
      weights_.push_back(&weight.packed);
      return;
    }
    memory_ = LargeBytes(stride * static_cast<std::size_t>(count));
    owned_.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) {
      std::byte* at = memory_.data() + stride * static_cast<std::size_t>(i);
      std::memcpy(at, weight.packed.packed(), size);
      owned_.push_back(
          LinearWeight::make(weight.view, weight.packed.input_form(), {.packed = at, .packed_bytes = size}));
      weights_.push_back(&owned_.back());
    }
  }
  const LinearWeight* at(int turn) const { return weights_[static_cast<std::size_t>(turn) % weights_.size()]; }

 private:
  LargeBytes memory_;
  std::vector<LinearWeight> owned_;
  std::vector<const LinearWeight*> weights_;
};

void bench_shape(KernelBench& bench, const Shape& shape, InputForm form) {
  const InputForm inputs = input_form(form, shape.format);
  const std::string name =
      fmt::format("linear {} {}x{}{}", shape.name, shape.out, shape.in, kInputs[static_cast<std::size_t>(inputs)]);
  if (!bench.wants(name)) return;
  const Weight weight(bench.exec(), shape, form);
  const Copies copies(bench, weight);
  for (const int rows : bench.options().rows) {
    const auto x = random_floats(static_cast<std::size_t>(rows) * static_cast<std::size_t>(shape.in));
    std::vector<float> y(static_cast<std::size_t>(rows) * static_cast<std::size_t>(shape.out));
    bench.line(name, rows,
               {.multiply_adds = 1.0 * rows * shape.in * shape.out,
                .inputs = inputs,
                .bytes = static_cast<double>(weight.bytes())},
               [&](int turn) {
                 const LinearJob job{copies.at(turn), x.data(), shape.in, y.data(), shape.out, nullptr};
                 linear(bench.exec(), rows, {&job, 1});
               });
  }
}

// Experts and a shared one; the experts of a row are drawn anew for each call, so few of them stay in the caches.
void bench_experts(KernelBench& bench, int count, int slots, int hidden, int inter, InputForm form) {
  const std::string name = fmt::format("experts mxfp4 {} of {} {}x{}{}", slots, count, inter, hidden,
                                       kInputs[static_cast<std::size_t>(form)]);
  if (!bench.wants(name)) return;
  const Shape up{"", WeightFormat::kMxfp4, ScaleFormat::kE8m0, inter, hidden};
  const Shape down{"", WeightFormat::kMxfp4, ScaleFormat::kE8m0, hidden, inter};
  std::vector<Weight> weights;
  std::vector<ExpertWeights> layer;
  weights.reserve(static_cast<std::size_t>(3 * count));
  double expert_bytes = 0;
  for (int e = 0; e < count; ++e) {
    expert_bytes = 0;
    for (const Shape& shape : {up, up, down}) {
      weights.emplace_back(bench.exec(), shape, form);
      expert_bytes += static_cast<double>(weights.back().bytes());
    }
    auto* last = &weights.back();
    layer.push_back({std::move(last[-2].packed), std::move(last[-1].packed), std::move(last->packed)});
  }
  constexpr int kDraws = 16;
  std::mt19937 random(3);
  for (const int rows : bench.options().rows) {
    const auto pairs = static_cast<std::size_t>(rows) * static_cast<std::size_t>(slots);
    auto x = random_floats(static_cast<std::size_t>(rows) * static_cast<std::size_t>(hidden));
    std::vector<float> y(x.size());
    std::vector<std::vector<std::int32_t>> ids(kDraws);
    double chosen = 0;
    for (auto& draw : ids) {
      for (std::size_t i = 0; i < pairs; ++i) {
        draw.push_back(static_cast<std::int32_t>(random() % static_cast<unsigned>(count)));
      }
      std::set<std::int32_t> different(draw.begin(), draw.end());
      different.insert(0);  // the shared one
      chosen += static_cast<double>(different.size()) / kDraws;
    }
    const std::vector<float> c(pairs, 0.25F);

    bench.line(name, rows,
               {.multiply_adds = 3.0 * rows * (slots + 1) * hidden * inter,
                .inputs = input_form(form, WeightFormat::kMxfp4),
                .bytes = chosen * expert_bytes},
               [&](int turn) {
                 ExpertsArgs args;
                 args.rows = rows, args.hidden = hidden, args.slots = slots;
                 args.x = contiguous_rows(x.data(), hidden), args.y = y.data();
                 args.expert_ids = ids[static_cast<std::size_t>(turn % kDraws)].data(), args.expert_weights = c.data();
                 args.experts = layer, args.shared = layer.data();
                 args.activation.limit = 10.0F;
                 experts(bench.exec(), args);
               });
  }
}

void bench_pack(KernelBench& bench) {
  const Shape shape{"fp8", WeightFormat::kFp8, ScaleFormat::kE8m0, 4096, 2048};
  if (!bench.wants("pack fp8 4096x2048")) return;
  const Weight weight(bench.exec(), shape, InputForm::kF32);
  bench.line("pack fp8 4096x2048", shape.out, {.bytes = static_cast<double>(weight.data.size())},
             [&](int) { LinearWeight::make(weight.view, InputForm::kF32, packs_for(bench.exec())); });
}

}  // namespace

void bench_linear(KernelBench& bench) {
  constexpr auto kF32 = WeightFormat::kF32, kBf16 = WeightFormat::kBf16;
  constexpr auto kFp8 = WeightFormat::kFp8, kMxfp4 = WeightFormat::kMxfp4;
  constexpr auto kCodes = WeightFormat::kCodes;
  for (const Shape& shape : {Shape{"fp8", kFp8, ScaleFormat::kE8m0, 2048, 2048},
                             {"fp8", kFp8, ScaleFormat::kE8m0, 256, 256},
                             {"fp8 f32 scales", kFp8, ScaleFormat::kF32, 2048, 2048},
                             {"mxfp4", kMxfp4, ScaleFormat::kE8m0, 1024, 2048},
                             {"mxfp4", kMxfp4, ScaleFormat::kE8m0, 128, 256},
                             {"bf16", kBf16, ScaleFormat::kNone, 2048, 2048},
                             {"bf16", kBf16, ScaleFormat::kNone, 4096, 256},
                             {"f32", kF32, ScaleFormat::kNone, 24, 8192},
                             {"f32", kF32, ScaleFormat::kNone, 1024, 1024}}) {
    bench_shape(bench, shape, InputForm::kF32);
    if (shape.in != 2048) continue;
    bench_shape(bench, shape, InputForm::kBf16);
    bench_shape(bench, shape, InputForm::kTiles);
    if (shape.format == kMxfp4) bench_shape(bench, shape, InputForm::kInt8);
  }
  for (const Shape& shape : {Shape{"q4_0", kCodes, ScaleFormat::kNone, 1408, 2048, DType::kQ4_0},
                             {"q4_1", kCodes, ScaleFormat::kNone, 1408, 2048, DType::kQ4_1},
                             {"q8_0", kCodes, ScaleFormat::kNone, 1408, 2048, DType::kQ8_0},
                             {"q4_k", kCodes, ScaleFormat::kNone, 1408, 2048, DType::kQ4_K},
                             {"q5_k", kCodes, ScaleFormat::kNone, 1408, 2048, DType::kQ5_K},
                             {"q6_k", kCodes, ScaleFormat::kNone, 1408, 2048, DType::kQ6_K},
                             {"q2_k", kCodes, ScaleFormat::kNone, 1408, 2048, DType::kQ2_K},
                             {"q3_k", kCodes, ScaleFormat::kNone, 1408, 2048, DType::kQ3_K},
                             {"iq4_xs", kCodes, ScaleFormat::kNone, 1408, 2048, DType::kIQ4_XS}}) {
    bench_shape(bench, shape, InputForm::kBf16);
    bench_shape(bench, shape, InputForm::kInt8);
  }
  bench_shape(bench, {"transposed q4_0", WeightFormat::kTransposedCodes, ScaleFormat::kNone, 512, 128, DType::kQ4_0},
              InputForm::kF32);
  for (const InputForm form : {InputForm::kF32, InputForm::kBf16, InputForm::kInt8, InputForm::kTiles}) {
    bench_experts(bench, 16, 4, 256, 128, form);
    bench_experts(bench, 32, 6, 2048, 1024, form);
  }
  bench_pack(bench);
}

}  // namespace sluice
