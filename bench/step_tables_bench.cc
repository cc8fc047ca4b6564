// What the tables of a step cost (kernels/step_tables.h), beside what lists of rows made by every layer cost: an
// address for each row that is written and the spans of each compressor, for 43 layers of DeepSeek-V4-Flash. One
// thread.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <vector>

#include "kernels/plane.h"
#include "kernels/step_builder.h"

namespace sluice {
namespace {

constexpr int kRatios[] = {0, 4, 128};
constexpr int kLayers[] = {2, 21, 20};  // of a window, CSA, HCA

// `sequences` sequences, each with `rows` rows from `first` on.
struct Step {
  int sequences, rows;
  Position first;
};

class Bench {
 public:
  explicit Bench(const Step& step) : step_(step) {
    const int blocks = (step.first + step.rows + kBlockTokens - 1) / kBlockTokens;
    const int first_block = std::max(0, step.first - kBlockTokens + 1) / kBlockTokens;
    for (int s = 0; s < step.sequences; ++s) {
      for (int b = 0; b < blocks; ++b) latents_.emplace_back(s + b * step.sequences);
      for (int b = first_block; b < blocks; ++b) windows_.emplace_back(s + b * step.sequences);
    }
    ids_.resize(static_cast<std::size_t>(step.rows));
    for (int s = 0; s < step.sequences; ++s) {
      spans_.push_back(
          {.rows = step.rows,
           .first_position = step.first,
           .latent_pages =
               std::span(latents_).subspan(static_cast<std::size_t>(s * blocks), static_cast<std::size_t>(blocks)),
           .window_pages = std::span(windows_).subspan(static_cast<std::size_t>(s * (blocks - first_block)),
                                                       static_cast<std::size_t>(blocks - first_block)),
           .first_window_block = first_block,
           .state_in = 2 * s,
           .first_state = 2 * s});
    }
  }

  void tables() {
    const int last = step_.rows - 1;
    builder_.begin();
    for (const BatchSpan& span : spans_) builder_.add(span, ids_, {&last, 1});
    kept_ += builder_.finish().rows();
  }
  void lists() {
    for (std::size_t kind = 0; kind < std::size(kRatios); ++kind) {
      for (int layer = 0; layer < kLayers[kind]; ++layer) {
        window_list();
        if (kRatios[kind] != 0) entry_lists(kRatios[kind]);
        if (kRatios[kind] == 4) entry_lists(4);  // the indexer's
      }
    }
  }
  std::size_t kept() const { return kept_; }

 private:
  void window_list() {
    rows_.clear();
    for (const BatchSpan& span : spans_) {
      for (Position p = span.first_position; p < span.first_position + span.rows; ++p) {
        const auto block = static_cast<std::size_t>(p / kBlockTokens - span.first_window_block);
        rows_.push_back(window_.row(span.window_pages[block].value, p % kBlockTokens));
      }
    }
    kept_ += rows_.size();
  }
  void entry_lists(int ratio) {
    const PlaneView entries{memory_, 65536, kBlockTokens / ratio, window_.format};
    rows_.clear(), positions_.clear(), begins_.clear(), boundaries_.clear();
    for (const BatchSpan& span : spans_) {
      begins_.push_back(static_cast<int>(positions_.size()));
      const Position end = span.first_position + span.rows;
      for (int e = span.first_position / ratio; e < end / ratio; ++e) {
        const auto block = static_cast<std::size_t>(e / entries.rows_per_page);
        rows_.push_back(entries.row(span.latent_pages[block].value, e % entries.rows_per_page));
        positions_.push_back(e * ratio);
      }
      for (int block = span.first_position / kBlockTokens; block < end / kBlockTokens; ++block) {
        const auto at = static_cast<std::size_t>(block - span.first_window_block);
        boundaries_.push_back(window_.row(span.window_pages[at].value, 0).data);
      }
    }
    kept_ += rows_.size() + boundaries_.size();
  }

  Step step_;
  std::vector<LatentPage> latents_;
  std::vector<WindowPage> windows_;
  std::vector<TokenId> ids_;
  std::vector<BatchSpan> spans_;
  StepBuilder builder_{TableShape{.ratios = {4, 128}, .windows = true}};
  std::byte memory_[1] = {};  // addresses are made, not used
  PlaneView window_{memory_, 74752, kBlockTokens, make_row_format(RowCodec::kV4Fp8, 512, 64)};
  std::vector<RowRef> rows_;
  std::vector<Position> positions_;
  std::vector<int> begins_;
  std::vector<std::byte*> boundaries_;
  std::size_t kept_ = 0;
};

// The best of many, in microseconds.
template <class Run>
double best_of(const Run& run) {
  double best = 1e9;
  for (int i = 0; i < 2000; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    best = std::min(best, std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

}  // namespace
}  // namespace sluice

int main() {
  fmt::print("{:<34} {:>10} {:>10} {:>8}\n", "a step", "tables us", "lists us", "ratio");
  for (const sluice::Step step : {sluice::Step{1, 512, 0}, {1, 512, 32768}, {8, 64, 4096}, {512, 1, 4099}}) {
    sluice::Bench bench(step);
    const double tables = sluice::best_of([&] { bench.tables(); }), lists = sluice::best_of([&] { bench.lists(); });
    fmt::print("{:<34} {:>10.2f} {:>10.2f} {:>8.3f}\n",
               fmt::format("{} x {} rows from {}", step.sequences, step.rows, step.first), tables, lists,
               tables / lists);
    if (bench.kept() == 0) return 1;  // what was made is used
  }
  return 0;
}
