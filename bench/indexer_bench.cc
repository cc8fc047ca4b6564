// indexer_bench: compares the indexer's scoring, alone and with the exact top-k, with its floor. The floor is the
// larger of two times: its arithmetic at the peak of the fastest instruction that gives its bits, and its keys at the
// read bandwidth.
//
// Every call reads other pages of a pool that exceeds the caches, so one row reads its keys from memory.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "bench/machine_probe.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/ops/indexer.h"
#include "kernels/step/step_builder.h"

namespace sluice {
namespace {

constexpr int kRowsPerPage = 32;
constexpr int kTokensPerRow = 4;

struct Options {
  std::string isa = "auto", kernels, codec = "fp4";
  int threads = 2, heads = 16, dims = 128, top_k = 512, pool_mib = 192;
  double seconds = 0.3;
  std::vector<int> rows{1, 512}, keys{8192, 32768, 131072};

  RowCodec row_codec() const {
    if (codec == "fp4") return RowCodec::kIndexFp4;
    if (codec == "fp8") return RowCodec::kIndexFp8;
    return codec == "bf16" ? RowCodec::kBf16 : RowCodec::kF32;
  }
};

// Keys of normal values, a prime number of different ones over and over.
class KeyPool {
 public:
  explicit KeyPool(const Options& options) {
    view_.format = make_row_format(options.row_codec(), options.dims, 0);
    view_.rows_per_page = kRowsPerPage;
    view_.page_bytes = static_cast<std::size_t>(kRowsPerPage * view_.format.row_bytes());
    const int most = *std::max_element(options.keys.begin(), options.keys.end());
    const std::size_t pages =
        std::max(pages_of(most), (static_cast<std::size_t>(options.pool_mib) << 20) / view_.page_bytes);
    bytes_ = AlignedBytes(pages * view_.page_bytes);
    view_.base = bytes_.data();
    for (std::size_t p = 0; p < pages; ++p) pages_.emplace_back(static_cast<std::int32_t>(p));
    constexpr std::size_t kKeys = 8191;
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<float> key(static_cast<std::size_t>(options.dims));
    for (std::size_t e = 0; e < pages * kRowsPerPage; ++e) {
      if (e < kKeys) {
        for (float& x : key) x = normal(random);
        encode_row(view_.format, key.data(), row(e));
      } else {
        std::memcpy(row(e).data, row(e % kKeys).data, static_cast<std::size_t>(view_.format.data_bytes));
        std::memcpy(row(e).scales, row(e % kKeys).scales, static_cast<std::size_t>(view_.format.scale_bytes));
      }
    }
  }
  const PlaneView& view() const { return view_; }
  // Pages that the last calls have not returned.
  std::span<const LatentPage> next(int keys) {
    if (at_ + pages_of(keys) > pages_.size()) at_ = 0;
    const std::size_t first = at_;
    at_ += pages_of(keys);
    return std::span(pages_).subspan(first, pages_of(keys));
  }

 private:
  static std::size_t pages_of(int keys) { return static_cast<std::size_t>((keys + kRowsPerPage - 1) / kRowsPerPage); }
  RowRef row(std::size_t e) const {
    return view_.row(static_cast<std::int32_t>(e / kRowsPerPage), static_cast<int>(e % kRowsPerPage));
  }

  AlignedBytes bytes_;
  PlaneView view_;
  std::vector<LatentPage> pages_;
  std::size_t at_ = 0;
};

class Bench {
 public:
  Bench(const Options& options, const KernelTable* table)
      : options_(options),
        table_(table),
        pool_(options.threads),
        probe_(&pool_, std::size_t{256} << 20, features_of(*table_)),
        keys_(options) {}

  void run() {
    fmt::print("isa {}, {} threads, {} keys, {} heads x {}, top {}\n", isa_name(*table_), options_.threads,
               options_.codec, options_.heads, options_.dims, options_.top_k);
    fmt::print("{:>6}{:>8}{:>12}{:>10}{:>9}{:>9}{:>12}{:>8}{:>9}\n", "rows", "keys", "scores us", "GOP/s", "GB/s",
               "% floor", "top-k us", "ratio", "% floor");
    for (const int rows : options_.rows) {
      for (const int keys : options_.keys) measure(rows, keys);
    }
  }

 private:
  void measure(int rows, int keys) {
    std::mt19937 random(2);
    std::normal_distribution<float> normal;
    std::vector<float> q(static_cast<std::size_t>(rows * options_.heads * options_.dims));
    std::vector<float> weights(static_cast<std::size_t>(rows * options_.heads));
    for (float& x : q) x = normal(random);
    for (float& x : weights) x = normal(random);
    std::vector<std::int32_t> selected(static_cast<std::size_t>(rows * options_.top_k)), count(weights.size());
    // The last rows of a context of about `visible` keys: each sees at least `keys`.
    const int visible = (keys * kTokensPerRow + rows) / kTokensPerRow;
    StepBuilder builder(TableShape{.ratios = {}, .windows = false});
    const std::vector<TokenId> ids(static_cast<std::size_t>(rows), 0);
    const auto next_step = [&] {
      builder.begin();
      builder.add({.rows = rows, .first_position = keys * kTokensPerRow, .latent_pages = keys_.next(visible)}, ids, {});
      return &builder.finish();
    };
    IndexSelectArgs args;
    args.rows = rows, args.heads = options_.heads, args.dims = options_.dims;
    args.q = q.data(), args.weights = weights.data();
    args.keys = &keys_.view();
    args.tokens_per_row = kTokensPerRow, args.top_k = options_.top_k;
    args.selected = selected.data(), args.count = count.data();
    const MachineSpeed before = probe_.measure();
    std::vector<double> scoring, whole, ratios;
    for (double spent = 0; spent < options_.seconds || scoring.size() < 5;) {
      args.step = next_step();
      scoring.push_back(seconds_of([&] { score(args, visible); }));
      args.step = next_step();
      whole.push_back(seconds_of([&] { index_select({&pool_, table_}, args); }));
      ratios.push_back(whole.back() / scoring.back());
      spent += scoring.back() + whole.back();
    }
    const MachineSpeed machine = mean(before, probe_.measure());
    report(rows, keys, machine, middle(scoring), middle(whole), middle(ratios));
  }

  // Every tile without candidates.
  void score(const IndexSelectArgs& args, int visible) {
    const int tile_keys = args.rows == 1 ? std::max(2048, visible / 8) : visible;
    const int chunks = (visible + tile_keys - 1) / tile_keys, groups = (args.rows + 15) / 16;
    const auto tile = [&](int index, int) {
      IndexCandidates none[16];
      const int begin = index / chunks * 16, first = index % chunks * tile_keys;
      table_->index_scores_of(keys_.view().format.codec)(
          {&args, 0, begin, std::min(args.rows, begin + 16), first, std::min(visible, first + tile_keys), none});
    };
    pool_.run(groups * chunks, std::ref(tile));
  }

  void report(int rows, int keys, const MachineSpeed& machine, double scoring, double whole, double ratio) const {
    const double operations = 2.0 * rows * keys * options_.heads * options_.dims;
    const double bytes = static_cast<double>(keys) * keys_.view().format.row_bytes();
    const double peak = options_.codec == "fp4"   ? machine.int8_gops
                        : options_.codec == "fp8" ? std::max(machine.bf16_gflops, machine.f32_gflops)
                                                  : machine.f32_gflops;
    const double floor = std::max(operations / peak, bytes / machine.read_gbytes) * 1e-9;
    fmt::print("{:>6}{:>8}{:>12.1f}{:>10.0f}{:>9.2f}{:>9.1f}{:>12.1f}{:>8.3f}{:>9.1f}   ({:.0f} GOP/s, {:.1f} GB/s)\n",
               rows, keys, scoring * 1e6, operations / scoring * 1e-9, bytes / scoring * 1e-9, 100 * floor / scoring,
               whole * 1e6, ratio, 100 * floor / whole, peak, machine.read_gbytes);
  }
  static double middle(std::vector<double> values) {
    const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), at, values.end());
    return *at;
  }

  const Options& options_;
  const KernelTable* table_;
  ThreadPool pool_;
  MachineProbe probe_;
  KeyPool keys_;
};

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  sluice::Options options;
  CLI::App app("Times the indexer's scoring, alone and with the exact top-k.");
  app.add_option("--isa", options.isa, "auto, scalar, avx2, avx512 or avx512vbmi")->capture_default_str();
  app.add_option("--kernels", options.kernels, "-amx,-vnni: leaves out kernels (see `sluice kernels`)");
  app.add_option("--threads", options.threads)->check(CLI::Range(1, 1024))->capture_default_str();
  app.add_option("--codec", options.codec, "Of the keys")
      ->check(CLI::IsMember({"fp4", "fp8", "bf16", "f32"}))
      ->capture_default_str();
  app.add_option("--heads", options.heads)->check(CLI::Range(1, 1024))->capture_default_str();
  app.add_option("--dims", options.dims)->check(CLI::Range(1, 1024))->capture_default_str();
  app.add_option("--top-k", options.top_k)->check(CLI::Range(1, 1 << 20))->capture_default_str();
  app.add_option("--pool-mib", options.pool_mib, "Memory of the keys")->capture_default_str();
  app.add_option("--seconds", options.seconds, "For one line")->capture_default_str();
  app.add_option("--rows", options.rows)->capture_default_str();
  app.add_option("--keys", options.keys)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const auto table = sluice::select_kernels(options.isa, options.kernels);
  if (!table.ok()) {
    fmt::print(stderr, "{}\n", table.status().message());
    return 1;
  }
  sluice::Bench(options, *table).run();
  return 0;
}
