// tile_bench: compares the profile `amx` with the default on one machine, without compiler, network or model. It checks
// that all its kernels give equal bits there. It measures the part of the machine's bare tile products, and of its
// memory's speed, that products and the linears of a step reach. It prints tables, and writes everything as JSON
// (--json).
//
// For each product the bare tile products (or the memory's speed) are measured before and after it, and the two
// profiles in turn. The figures are medians over the rounds, of ratios within a round. Weights come from memory: more
// copies than the caches hold.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <boost/json.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/storage/large_bytes.h"
#include "bench/machine_probe.h"
#include "kernels/device/cpu_features.h"
#include "kernels/device/isa.h"
#include "kernels/ops/linear.h"

namespace sluice {
namespace {

namespace json = boost::json;

struct Shape {
  const char* name;
  WeightFormat format;
  ScaleFormat scales;
  int out, in;
};

// A weight of random bits, none of them NaN; with `any_scale` its e8m0 scales can be any that exist.
struct Weight {
  Weight(std::mt19937& random, const Shape& shape, bool any_scale) {
    view = {.format = shape.format, .out = shape.out, .in = shape.in, .scale_format = shape.scales};
    set_scale_blocks(view, 128, 128);
    view.scale_columns = (shape.in + view.block_in - 1) / view.block_in;
    data.resize(view.row_bytes() * static_cast<std::size_t>(shape.out));
    for (std::byte& byte : data) byte = static_cast<std::byte>(random());
    for (std::size_t i = 0; shape.format == WeightFormat::kFp8 && i < data.size(); ++i) {
      if ((data[i] & std::byte{0x7F}) == std::byte{0x7F}) data[i] = std::byte{0x80};
    }
    for (std::size_t i = 1; shape.format == WeightFormat::kBf16 && i < data.size(); i += 2) {
      data[i] = (data[i] & std::byte{0x87}) | std::byte{0x38};  // 2^-15 to 2^1
    }
    const auto count = static_cast<std::size_t>((shape.out + view.block_out - 1) / view.block_out) *
                       static_cast<std::size_t>(view.scale_columns);
    for (std::size_t i = 0; i < count && shape.scales == ScaleFormat::kE8m0; ++i) {
      scales.push_back(static_cast<std::byte>(any_scale ? random() % 255 : 117 + random() % 8));
    }
    for (std::size_t i = 0; i < count && shape.scales == ScaleFormat::kF32; ++i) {
      const float scale = std::uniform_real_distribution<float>(1e-3F, 0.1F)(random);
      const auto* from = reinterpret_cast<const std::byte*>(&scale);
      scales.insert(scales.end(), from, from + sizeof scale);
    }
    view.data = data.data();
    view.scales = scales.data();
  }

  std::vector<std::byte> data, scales;
  WeightView view;
};

std::vector<float> random_inputs(std::mt19937& random, std::size_t count, bool odd) {
  std::normal_distribution<float> normal;
  std::vector<float> x(count);
  for (float& value : x) {
    value = normal(random);
    if (odd && random() % 16 == 0) {
      constexpr float kOdd[] = {0.0F, -0.0F, 1e-39F, -1e-39F, 1e-37F, -2e-38F, 1e18F, -3e-30F};
      value = kOdd[random() % std::size(kOdd)];
    }
  }
  return x;
}

std::vector<float> product(const Exec& exec, const LinearWeight& weight, const std::vector<float>& x, int rows,
                           const std::int32_t* x_rows = nullptr) {
  std::vector<float> y(static_cast<std::size_t>(rows) * static_cast<std::size_t>(weight.out()));
  const LinearJob job{&weight, x.data(), weight.in(), y.data(), weight.out(), x_rows};
  linear(exec, rows, {&job, 1});
  return y;
}

// Values whose bits differ; a NaN equals any other.
std::size_t differences(const float* a, const float* b, std::size_t count) {
  std::size_t different = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    different += std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i]) ? 1 : 0;
  }
  return different;
}

// Every path of the machine against the best one without tiles, and that one against the scalar kernels for some
// outputs.
json::array compare_bits(ThreadPool& pool) {
  constexpr auto kFp8 = WeightFormat::kFp8, kMxfp4 = WeightFormat::kMxfp4, kBf16 = WeightFormat::kBf16;
  constexpr auto kE8m0 = ScaleFormat::kE8m0;
  const Shape shapes[] = {{"V4 q_a", kFp8, kE8m0, 1536, 4096},
                          {"V4 expert up", kMxfp4, kE8m0, 2048, 4096},
                          {"V4 expert down", kMxfp4, kE8m0, 4096, 2048},
                          {"V4 head, a part", kBf16, ScaleFormat::kNone, 1000, 4096},
                          {"V3 kv_a", kFp8, ScaleFormat::kF32, 576, 7168},
                          {"V3 expert down", kFp8, ScaleFormat::kF32, 7168, 2048},
                          {"V2 expert up", kBf16, ScaleFormat::kNone, 1536, 5120},
                          {"embedded expert", kMxfp4, kE8m0, 128, 256},
                          {"embedded kv", kFp8, kE8m0, 128, 256},
                          {"ragged", kFp8, kE8m0, 77, 131}};
  constexpr int kRows[] = {1, 2, 3, 4, 5, 15, 16, 17, 31, 32, 33, 47, 48, 49, 96, 257, 512}, kMost = 512;
  std::mt19937 random(1);
  json::array found;
  for (const Shape& shape : shapes) {
    for (const bool odd : {false, true}) {
      const Weight weight(random, shape, odd);
      const auto x = random_inputs(random, std::size_t{kMost} * static_cast<std::size_t>(shape.in), odd);
      const Exec plain{&pool, &scalar_kernels()};
      const KernelTable* without = *select_kernels("auto", cpu_features().has(CpuFeature::kAmx) ? "-amx" : "");
      const Exec reference{&pool, without};
      const auto all =
          product(reference, LinearWeight::make(weight.view, InputForm::kTiles, packs_for(reference)), x, kMost);
      std::size_t compared = 0, different = 0, scalar = 0, of_scalar = 0;
      const int outputs = std::min(64, shape.out);
      const WeightView part = slice_rows(weight.view, (shape.out - outputs) / 2 / 16 * 16, outputs);
      const auto few = product(plain, LinearWeight::make(part, InputForm::kTiles, packs_for(plain)), x, 32);
      for (int r = 0; r < 32; ++r, of_scalar += static_cast<std::size_t>(outputs)) {
        scalar += differences(&few[static_cast<std::size_t>(r * outputs)],
                              &all[static_cast<std::size_t>(r * shape.out + (shape.out - outputs) / 2 / 16 * 16)],
                              static_cast<std::size_t>(outputs));
      }
      for (const KernelTable* table : every_path()) {
        if (table == &scalar_kernels()) continue;
        const Exec exec{&pool, table};
        const auto packed = LinearWeight::make(weight.view, InputForm::kTiles, packs_for(exec));
        const bool emulated = std::string(kernels_name(*table)).find("emulated") != std::string::npos;
        for (const int rows : kRows) {
          if (emulated && rows > 49) continue;
          // Rows drawn at random, so that each meets others than its own neighbours.
          std::vector<std::int32_t> chosen(static_cast<std::size_t>(rows));
          for (auto& row : chosen) row = static_cast<std::int32_t>(random() % kMost);
          const auto y = product(exec, packed, x, rows, chosen.data());
          for (std::size_t r = 0; r < chosen.size(); ++r) {
            const auto width = static_cast<std::size_t>(shape.out);
            different += differences(&y[r * width], &all[static_cast<std::size_t>(chosen[r]) * width], width);
            compared += width;
          }
        }
      }
      fmt::print("{:<18}{:<18}{:>12} outputs of {} paths, {} differ; {} of the scalar kernel, {} differ\n", shape.name,
                 odd ? "any scale, odd x" : "", compared, every_path().size() - 1, different, of_scalar, scalar);
      found.push_back({{"shape", shape.name},
                       {"out", shape.out},
                       {"in", shape.in},
                       {"any_scale", odd},
                       {"outputs", compared},
                       {"different", different},
                       {"of_scalar", of_scalar},
                       {"different_from_scalar", scalar}});
    }
  }
  return found;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

// A packed weight at many places of memory, in both forms of inputs.
class Copies {
 public:
  Copies(const Exec& exec, const Weight& weight, std::size_t bytes) {
    const auto first = LinearWeight::make(weight.view, InputForm::kTiles, packs_for(exec));
    const std::size_t size = first.packed_bytes(), stride = (size + 4095) / 4096 * 4096;
    const std::size_t count = std::max<std::size_t>(1, bytes / stride);
    memory_ = LargeBytes(count * stride);
    for (std::size_t i = 0; i < count; ++i) {
      std::byte* at = memory_.data() + i * stride;
      std::memcpy(at, first.packed(), size);
      tiles_.push_back(LinearWeight::make(weight.view, InputForm::kTiles, {.packed = at, .packed_bytes = size}));
      default_.push_back(LinearWeight::make(weight.view, InputForm::kInt8, {.packed = at, .packed_bytes = size}));
    }
  }
  const LinearWeight& next(bool tiles) {
    const auto& weights = tiles ? tiles_ : default_;
    return weights[turn_++ % weights.size()];
  }
  std::size_t count() const { return tiles_.size(); }
  double bytes() const { return static_cast<double>(tiles_.front().packed_bytes()); }

 private:
  LargeBytes memory_;
  std::vector<LinearWeight> tiles_, default_;
  std::size_t turn_ = 0;
};

struct Options {
  int threads = 0, rounds = 9;
  std::string out, parts = "bits,one,all";
  std::vector<int> rows{1, 4, 5, 8, 16, 32, 48, 96, 512};
  double megabytes = 1000;
};

// Products of `rows` rows: medians over rounds.
void bench_product(const Exec& exec, const Options& options, const Shape& shape, json::array& lines) {
  const int threads = exec.pool->threads();
  std::mt19937 random(2);
  Copies copies(exec, Weight(random, shape, false), static_cast<std::size_t>(options.megabytes * 1e6));
  const MachineProbe probe(exec.pool, std::min(probe_bytes_per_thread(threads), std::size_t{128} << 20),
                           features_of(*exec.kernels));
  for (const int rows : options.rows) {
    const auto x = random_inputs(random, static_cast<std::size_t>(rows) * static_cast<std::size_t>(shape.in), false);
    std::vector<float> y(static_cast<std::size_t>(rows) * static_cast<std::size_t>(shape.out));
    const double flops = 2.0 * rows * shape.out * shape.in;
    const auto time = [&](bool tiles) {
      const int calls = std::max(2, static_cast<int>((threads > 1 ? 4e9 : 1e9) / flops / 8));
      const int most = std::min<int>(calls, static_cast<int>(copies.count()));
      return seconds_of([&] {
               for (int i = 0; i < most; ++i) {
                 const LinearJob job{&copies.next(tiles), x.data(), shape.in, y.data(), shape.out, nullptr};
                 linear(exec, rows, {&job, 1});
               }
             }) /
             most;
    };
    std::vector<double> seconds, of_tiles, of_read, of_default, bare, read;
    time(true), time(false);
    double tiles_before = probe.peak(BareKind::kTiles);
    for (int round = 0; round < options.rounds; ++round) {
      const double ours = time(true), theirs = time(false), tiles_after = probe.peak(BareKind::kTiles);
      const double peak = (tiles_before + tiles_after) / 2 * 1e9;
      if (rows <= 16) read.push_back(probe.read_gbytes());
      seconds.push_back(ours);
      bare.push_back(peak);
      of_default.push_back(theirs / ours);
      if (peak > 0) of_tiles.push_back(flops / ours / peak);
      if (rows <= 16) of_read.push_back(copies.bytes() / ours / read.back() * 1e-9);
      tiles_before = tiles_after;
    }
    const double s = median(seconds);
    fmt::print(
        "{:<16}{:>4} threads {:>4} rows {:>9.1f} us {:>8.0f} GFLOP/s = {:>5.1f} % of tiles ({:.0f}), {:>6.1f} GB/s "
        "= {:>5.1f} % of read, {:.2f} x default\n",
        shape.name, threads, rows, s * 1e6, flops / s * 1e-9, 100 * median(of_tiles), median(bare) * 1e-9,
        copies.bytes() / s * 1e-9, 100 * median(of_read), median(of_default));
    std::fflush(stdout);
    lines.push_back({{"weight", shape.name},
                     {"threads", threads},
                     {"rows", rows},
                     {"us", s * 1e6},
                     {"gflops", flops / s * 1e-9},
                     {"of_tiles", median(of_tiles)},
                     {"tiles_gflops", median(bare) * 1e-9},
                     {"gbytes", copies.bytes() / s * 1e-9},
                     {"of_read", median(of_read)},
                     {"times_default", median(of_default)}});
  }
}

int run(const Options& options) {
  const int threads = options.threads > 0 ? options.threads : take_fingerprint().cores;
  const auto has = [&](const char* part) {
    return ("," + options.parts + ",").find("," + std::string(part) + ",") != std::string::npos;
  };
  json::object report{{"machine", to_json(take_fingerprint())}};
  const KernelTable* best = *select_kernels("auto");
  fmt::print("kernels {}, {} threads\n", kernels_name(*best), threads);
  if (has("bits")) {
    ThreadPool pool(threads);
    report["bits"] = compare_bits(pool);
  }
  json::array lines;
  const Shape shapes[] = {{"fp8", WeightFormat::kFp8, ScaleFormat::kE8m0, 2048, 2048},
                          {"mxfp4", WeightFormat::kMxfp4, ScaleFormat::kE8m0, 2048, 2048},
                          {"fp8 f32 scales", WeightFormat::kFp8, ScaleFormat::kF32, 2048, 2048},
                          {"bf16", WeightFormat::kBf16, ScaleFormat::kNone, 2048, 2048}};
  for (const bool all : {false, true}) {
    if (!has(all ? "all" : "one")) continue;
    ThreadPool pool(all ? threads : 1);
    const Exec exec{&pool, best};
    for (const Shape& shape : shapes) bench_product(exec, options, shape, lines);
  }
  report["products"] = lines;
  if (!options.out.empty()) std::ofstream(options.out) << json::serialize(report) << "\n";
  return 0;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  CLI::App app{"The profile amx beside the default: bits and speed"};
  sluice::Options options;
  app.add_option("--threads", options.threads, "0: all");
  app.add_option("--rounds", options.rounds)->capture_default_str();
  app.add_option("--rows", options.rows)->delimiter(',')->capture_default_str();
  app.add_option("--parts", options.parts)->capture_default_str();
  app.add_option("--megabytes", options.megabytes, "Of weights in memory")->capture_default_str();
  app.add_option("--json", options.out);
  CLI11_PARSE(app, argc, argv);
  return sluice::run(options);
}
