// kernel_bench: compares every kernel with the machine: with the peak of the instruction that its arithmetic uses, and
// with the read bandwidth.
//
// It prints a line for each kernel, shape and number of rows: microseconds; GFLOP/s, and percent of that peak; GB/s,
// and percent of the read bandwidth. Weights and cached rows come from memory: calls take turns with copies of them
// that together exceed the caches (--rotate 0: one copy). The lines of "cached" work, whose inputs are activations,
// have no percent of the bandwidth. "x first" is the time relative to the first number of rows, "bytes x" the same for
// the bytes read: with --rows 1,2,3,4,5 these show the cost of further rows. The indexer has a benchmark of its own
// (indexer_bench).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <random>

#include "kernel_lines.h"

namespace sluice {

KernelBench::KernelBench(const KernelBenchOptions& options, const KernelTable* table)
    : options_(options), pool_(options.threads), table_(table) {}

int KernelBench::copies(std::size_t bytes) const {
  constexpr std::size_t kMost = 4096;
  const std::size_t count = (options_.rotated_bytes + bytes - 1) / std::max<std::size_t>(bytes, 1);
  return static_cast<int>(std::clamp<std::size_t>(count, 1, kMost));
}

void KernelBench::print_header() {
  const MachineProbe probe(&pool_, probe_bytes_per_thread(options_.threads), features_of(*table_));
  speed_ = probe.measure();
  fmt::print(
      "kernels {}, {} threads; read {:.1f} GB/s, f32 {:.0f} GFLOP/s, bf16 dot {:.0f} GFLOP/s, int8 {:.0f} GOP/s, tiles "
      "{:.0f} "
      "GFLOP/s\n",
      kernels_name(*table_), options_.threads, speed_.read_gbytes, speed_.f32_gflops, speed_.bf16_gflops,
      speed_.int8_gops, speed_.tiles_gflops);
  fmt::print("{:<40}{:>6}{:>12}{:>10}{:>7}{:>9}{:>7}{:>9}{:>9}\n", "kernel", "rows", "us", "GFLOP/s", "%", "GB/s", "%",
             "x first", "bytes x");
}

void KernelBench::line(const std::string& name, int rows, const KernelWork& work,
                       const std::function<void(int turn)>& call) {
  int turn = 0;
  const double seconds = median_seconds(options_.seconds, [&] { call(turn++); });
  if (name != first_.name) first_ = {name, seconds, work.bytes};
  const double flops = 2 * work.multiply_adds / seconds * 1e-9, rate = work.bytes / seconds * 1e-9;
  const auto percent = [](double part, double whole) {
    return part > 0 && whole > 0 ? fmt::format("{:.1f}", 100 * part / whole) : std::string("-");
  };
  fmt::print("{:<40}{:>6}{:>12.2f}{:>10}{:>7}{:>9.2f}{:>7}{:>9.2f}{:>9.2f}\n", name, rows, seconds * 1e6,
             flops > 0 ? fmt::format("{:.1f}", flops) : "-", percent(flops, speed_.peak(work.inputs)), rate,
             work.cached ? "-" : percent(rate, speed_.read_gbytes), seconds / first_.seconds,
             work.bytes / first_.bytes);
}

std::vector<float> random_floats(std::size_t count) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  std::vector<float> x(count);
  for (float& value : x) value = normal(random);
  return x;
}

}  // namespace sluice

int main(int argc, char** argv) {
  sluice::KernelBenchOptions options;
  CLI::App app("Times every kernel beside the machine's peaks.");
  app.add_option("--isa", options.isa, "auto, scalar, avx2, avx512 or avx512vbmi")->capture_default_str();
  app.add_option("--kernels", options.kernels, "-amx,-vnni: leaves out kernels (see `sluice kernels`)");
  app.add_option("--threads", options.threads)->check(CLI::Range(1, 1024))->capture_default_str();
  app.add_option("--seconds", options.seconds, "For one measurement")->capture_default_str();
  app.add_option("--rows", options.rows)->delimiter(',')->capture_default_str();
  app.add_option("--filter", options.filter, "Only kernels whose name contains this");
  app.add_option("--rotate", options.rotated_bytes, "Bytes of copies that calls take turns with; 0: from the caches")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  bool processor_time = false;
  app.add_flag("--processor-time", processor_time, "Time the processor instead of the clock; forces one thread");
  CLI11_PARSE(app, argc, argv);
  if (processor_time) {
    options.threads = 1;
    sluice::measure_with(sluice::TimeKind::kProcessor);
  }
  const auto table = sluice::select_kernels(options.isa, options.kernels);
  if (!table.ok()) {
    fmt::print(stderr, "{}\n", table.status().message());
    return 1;
  }
  sluice::KernelBench bench(options, *table);
  bench.print_header();
  sluice::bench_linear(bench);
  sluice::bench_attention(bench);
  sluice::bench_rows(bench);
  return 0;
}
