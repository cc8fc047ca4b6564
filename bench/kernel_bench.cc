// kernel_bench: the time of the linear kernels and of the experts op, beside what the machine can do.
//
// One line a kernel, shape and number of rows: microseconds, GFLOP/s and percent of the f32 FMA peak, GB/s of packed
// weights and percent of the read bandwidth. Weights stay in the caches unless they exceed them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <random>
#include <string>
#include <vector>

#include "kernels/experts.h"
#include "kernels/kernel_table.h"
#include "machine_probe.h"

namespace sluice {
namespace {

struct Options {
  std::string isa = "auto", filter;
  int threads = 2;
  double seconds = 0.05;
  std::vector<int> rows{1, 8, 96, 512};
};

struct Bench {
  Options options;
  ThreadPool pool{options.threads};
  const KernelTable* table = nullptr;
  double gflops = 0, gbytes = 0;

  Exec exec() { return {&pool, table}; }

  void print_header() {
    gflops = fma_gflops(pool);
    gbytes = read_gbytes(pool, std::size_t{16} << 20);
    fmt::print("isa {}, {} threads; f32 FMA {:.0f} GFLOP/s; read {:.1f} GB/s of 16 MiB, {:.1f} of 256 MiB\n",
               table->isa, options.threads, gflops, gbytes, read_gbytes(pool, std::size_t{256} << 20));
    fmt::print("{:<34}{:>6}{:>11}{:>10}{:>7}{:>9}{:>7}\n", "kernel", "rows", "us", "GFLOP/s", "%", "GB/s", "%");
  }
  void print(const std::string& name, int rows, double seconds, double macs, double bytes) const {
    const double flops = 2 * macs / seconds * 1e-9;
    const double rate = bytes / seconds * 1e-9;
    fmt::print("{:<34}{:>6}{:>11.2f}{:>10.1f}{:>7.1f}{:>9.2f}{:>7.1f}\n", name, rows, seconds * 1e6, flops,
               100 * flops / gflops, rate, 100 * rate / gbytes);
  }
};

struct Shape {
  const char* name;
  WeightFormat format;
  ScaleFormat scale_format;
  int out, in;
};

// A weight of random bits, none of them NaN.
struct Weight {
  Weight(const Exec& exec, const Shape& shape, InputForm form) {
    const int block = shape.format == WeightFormat::kMxfp4 ? 32 : 128;
    view = {
        .format = shape.format, .out = shape.out, .in = shape.in, .data = nullptr, .scale_format = shape.scale_format};
    view.block_out = shape.format == WeightFormat::kMxfp4 ? 1 : block;
    view.block_in = block;
    view.scale_columns = (shape.in + block - 1) / block;
    std::mt19937 random(1);
    data.resize(view.row_bytes() * static_cast<std::size_t>(shape.out));
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(random() & 0x3F);
    const int scale_rows = (shape.out + view.block_out - 1) / view.block_out;
    scales.resize(static_cast<std::size_t>(scale_rows * view.scale_columns) * 4, std::byte{0x3C});
    view.data = data.data();
    view.scales = scales.data();
    packed = LinearWeight::pack(exec, view, form);
  }
  std::vector<std::byte> data, scales;
  WeightView view;
  LinearWeight packed;
};

std::vector<float> random_floats(std::size_t count) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  std::vector<float> x(count);
  for (float& value : x) value = normal(random);
  return x;
}

void bench_linear(Bench& bench, const Shape& shape, InputForm form) {
  constexpr const char* kInputs[] = {"", " bf16 in", " int8 in"};
  const std::string name = fmt::format("linear {} {}x{}{}", shape.name, shape.out, shape.in,
                                       kInputs[static_cast<std::size_t>(input_form(form, shape.format))]);
  if (name.find(bench.options.filter) == std::string::npos) return;
  const Weight weight(bench.exec(), shape, form);
  const std::size_t bytes = weight.packed.packed_bytes() > 0 ? weight.packed.packed_bytes() : weight.data.size();
  for (const int rows : bench.options.rows) {
    const auto x = random_floats(static_cast<std::size_t>(rows) * static_cast<std::size_t>(shape.in));
    std::vector<float> y(static_cast<std::size_t>(rows) * static_cast<std::size_t>(shape.out));
    const LinearJob job{&weight.packed, x.data(), shape.in, y.data(), shape.out, nullptr};
    const double seconds =
        median_seconds(bench.options.seconds, [&] { linear(bench.exec(), rows, std::span(&job, 1)); });
    bench.print(name, rows, seconds, 1.0 * rows * shape.in * shape.out, static_cast<double>(bytes));
  }
}

void bench_experts(Bench& bench, int count, int slots, int hidden, int inter, InputForm form) {
  const std::string name = fmt::format("experts mxfp4 {} of {} {}x{}{}", slots, count, inter, hidden,
                                       form == InputForm::kInt8 ? " int8 in" : "");
  if (name.find(bench.options.filter) == std::string::npos) return;
  const Shape up{"", WeightFormat::kMxfp4, ScaleFormat::kE8m0, inter, hidden};
  const Shape down{"", WeightFormat::kMxfp4, ScaleFormat::kE8m0, hidden, inter};
  std::vector<Weight> weights;
  std::vector<ExpertWeights> experts_of_layer;
  weights.reserve(static_cast<std::size_t>(3 * count));
  for (int e = 0; e < count; ++e) {
    for (const Shape& shape : {up, up, down}) weights.emplace_back(bench.exec(), shape, form);
    auto* last = &weights.back();
    experts_of_layer.push_back({std::move(last[-2].packed), std::move(last[-1].packed), std::move(last->packed)});
  }
  std::mt19937 random(3);
  for (const int rows : bench.options.rows) {
    const auto x = random_floats(static_cast<std::size_t>(rows) * static_cast<std::size_t>(hidden));
    std::vector<float> y(x.size());
    std::vector<std::int32_t> ids;
    for (int i = 0; i < rows * slots; ++i)
      ids.push_back(static_cast<std::int32_t>(random() % static_cast<unsigned>(count)));
    const std::vector<float> c(ids.size(), 0.25F);
    ExpertsScratch scratch;
    const ExpertsArgs args{.rows = rows,
                           .hidden = hidden,
                           .slots = slots,
                           .x = x.data(),
                           .expert_ids = ids.data(),
                           .expert_weights = c.data(),
                           .experts = experts_of_layer,
                           .shared = &experts_of_layer[0],
                           .limit = 10.0F,
                           .y = y.data()};
    const double seconds = median_seconds(bench.options.seconds, [&] { experts(bench.exec(), args, scratch); });
    const double active = std::min(count, rows * slots + 1);
    const double bytes =
        static_cast<double>(experts_of_layer[0].gate.packed_bytes() * 2 + experts_of_layer[0].down.packed_bytes());
    bench.print(name, rows, seconds, 3.0 * rows * (slots + 1) * hidden * inter, active * bytes);
  }
}

void bench_pack(Bench& bench) {
  const Shape shape{"fp8", WeightFormat::kFp8, ScaleFormat::kE8m0, 4096, 2048};
  if (std::string("pack").find(bench.options.filter) == std::string::npos) return;
  const Weight weight(bench.exec(), shape, InputForm::kF32);
  const double seconds =
      median_seconds(bench.options.seconds, [&] { LinearWeight::pack(bench.exec(), weight.view, InputForm::kF32); });
  fmt::print("pack fp8 4096x2048: {:.2f} ms, {:.2f} GB/s\n", seconds * 1e3, 4096 * 2048 / seconds * 1e-9);
}

void run(Bench& bench) {
  constexpr auto kF32 = WeightFormat::kF32, kBf16 = WeightFormat::kBf16;
  constexpr auto kFp8 = WeightFormat::kFp8, kMxfp4 = WeightFormat::kMxfp4;
  bench.print_header();
  for (const Shape& shape : {Shape{"fp8", kFp8, ScaleFormat::kE8m0, 2048, 2048},
                             {"fp8", kFp8, ScaleFormat::kE8m0, 1024, 128},
                             {"fp8", kFp8, ScaleFormat::kE8m0, 256, 256},
                             {"fp8 f32 scales", kFp8, ScaleFormat::kF32, 2048, 2048},
                             {"mxfp4", kMxfp4, ScaleFormat::kE8m0, 2048, 2048},
                             {"mxfp4", kMxfp4, ScaleFormat::kE8m0, 128, 256},
                             {"bf16", kBf16, ScaleFormat::kNone, 2048, 2048},
                             {"bf16", kBf16, ScaleFormat::kNone, 4096, 256},
                             {"f32", kF32, ScaleFormat::kNone, 24, 1024},
                             {"f32", kF32, ScaleFormat::kNone, 16, 256},
                             {"f32", kF32, ScaleFormat::kNone, 1024, 1024}}) {
    bench_linear(bench, shape, InputForm::kF32);
    if (shape.in != 2048) continue;
    bench_linear(bench, shape, InputForm::kBf16);
    if (shape.format == kMxfp4) bench_linear(bench, shape, InputForm::kInt8);
  }
  for (const InputForm form : {InputForm::kF32, InputForm::kInt8}) {
    bench_experts(bench, 16, 4, 256, 128, form);
    bench_experts(bench, 32, 4, 2048, 512, form);
  }
  bench_pack(bench);
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  sluice::Options options;
  CLI::App app("Times the linear kernels and the experts op.");
  app.add_option("--isa", options.isa, "auto, scalar, avx2 or avx512")->capture_default_str();
  app.add_option("--threads", options.threads)->check(CLI::Range(1, 1024))->capture_default_str();
  app.add_option("--seconds", options.seconds, "For one measurement")->capture_default_str();
  app.add_option("--rows", options.rows)->capture_default_str();
  app.add_option("--filter", options.filter, "Only kernels whose name contains this");
  bool processor_time = false;
  app.add_flag("--processor-time", processor_time, "Time the processor instead of the clock; forces one thread");
  CLI11_PARSE(app, argc, argv);
  if (processor_time) {
    options.threads = 1;
    sluice::measure_with(sluice::TimeKind::kProcessor);
  }
  const auto table = sluice::select_kernels(options.isa);
  if (!table.ok()) {
    fmt::print(stderr, "{}\n", table.status().message());
    return 1;
  }
  sluice::Bench bench{.options = options, .table = *table};
  sluice::run(bench);
  return 0;
}
