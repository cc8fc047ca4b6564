// Attention of the profile sm90 over latents and over the rows of grouped-query
// attention (kernels/cuda/sm90/attend_list_parts.h). It gives the bits of a plain kernel of that order, whatever rows
// are computed together and however the work is cut; and its distance from f64.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/formats/number_formats.h"
#include "kernels/cuda/shared/row_codec.h"
#include "kernels/cuda/sm90/attend_list_parts.h"
#include "kernels/cuda/sm90/sm90_ops.h"
#include "plain_list_attention.h"
#include "sm90_testing.h"

namespace sluice::gpu_list_attention_test {
namespace {

using namespace sm90_testing;
using cuda_sm90::ListCut;

// Sequences of random rows in pages all over a pool, and the step that computes some spans.
class World {
 public:
  World(std::mt19937& random, const Shape& shape, const std::vector<TestSpan>& spans)
      : shape_(shape), random_(random), format_(make_row_format(shape.codec, shape.row_dims(), shape.rope)) {
    int pages = 0;
    for (const TestSpan& span : spans) {
      const int end = span.first_position + span.rows, blocks = (end - 1) / kBlockTokens + 1;
      const int first = shape.window_tokens == 0 ? 0 : std::max(0, span.first_position - shape.window_tokens + 1) / kBlockTokens;
      spans_.push_back({.row_begin = rows_,
                        .rows = span.rows,
                        .first_position = span.first_position,
                        .latent_list = pages,
                        .window_list = pages,
                        .first_window_block = first});
      pages += blocks - first;
      rows_ += span.rows;
    }
    for (int i = 0; i < pages; ++i) pages_.push_back(i);
    std::ranges::shuffle(pages_, random_);
    for (int k = 0; k < shape.key_heads; ++k) add_plane(pages);
    q_host_ = random_values(random_, static_cast<std::size_t>(rows_ * shape.heads) * shape.dims);
    q_ = std::make_unique<OnDevice<float>>(q_host_);
    sink_host_ = random_values(random_, static_cast<std::size_t>(shape.heads));
    sink_ = std::make_unique<OnDevice<float>>(sink_host_);
    choose();
    for (int r = 0; r < rows_; ++r) {
      RowSpan one = span_of(r);
      one.first_position += r - one.row_begin;
      one.row_begin = r, one.rows = 1;
      singles_.push_back(one);
    }
    device_spans_ = std::make_unique<OnDevice<RowSpan>>(spans_);
    device_singles_ = std::make_unique<OnDevice<RowSpan>>(singles_);
    device_pages_ = std::make_unique<OnDevice<std::int32_t>>(pages_);
    out_ = std::make_unique<OnDevice<float>>(static_cast<std::size_t>(rows_) * row_values());
  }

  int rows() const { return rows_; }
  int spans() const { return static_cast<int>(spans_.size()); }
  int rows_of_span(int s) const { return spans_[static_cast<std::size_t>(s)].rows; }
  std::size_t row_values() const { return static_cast<std::size_t>(shape_.heads) * static_cast<std::size_t>(shape_.value_dims); }

  // Attends from spans [first, first + count), or from rows, each a span of its own.
  const float* run(const Exec& exec, bool singly, int first, int count, bool with_sink, ListCut cut = ListCut::kFastest,
                   bool late = false) {
    StepTables step;
    const auto& host = singly ? singles_ : spans_;
    step.spans = {(singly ? device_singles_ : device_spans_)->data(), host.size()};
    step.host_spans = host;
    step.latent_pages = reinterpret_cast<const LatentPage*>(device_pages_->data());
    step.window_pages = reinterpret_cast<const WindowPage*>(device_pages_->data());
    AttendArgs args;
    args.rows = rows_, args.heads = shape_.heads, args.key_heads = shape_.key_heads;
    args.dims = shape_.dims, args.value_dims = shape_.value_dims, args.value_offset = shape_.value_offset;
    args.q = q_->data(), args.scale = shape_.scale();
    args.sink = with_sink ? sink_->data() : nullptr;
    (shape_.window_tokens > 0 ? args.window : args.latent) = planes_.data();
    args.window_tokens = shape_.window_tokens, args.first_key = shape_.first_key;
    if (shape_.max_selected > 0) {
      args.selected = selected_->data(), args.selected_count = counts_->data(), args.max_selected = shape_.max_selected;
    }
    args.bf16 = true;
    args.out = out_->data();
    args.step = &step;
    args.spans = step.spans.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
    out_->poison();
    EXPECT_TRUE(cuda_sm90::takes_list(exec, args));
    LateInputs ahead;
    if (late) ahead.add(*q_), ahead.forget(), ahead.write(exec);
    cut == ListCut::kFastest ? cuda_sm90::attend_keys(exec, args) : cuda_sm90::attend_list(exec, args, cut);
    return out_->data();
  }
  // The output of all rows by the plain kernel.
  std::vector<float> plain(bool with_sink) {
    std::vector<RowRef> keys;
    std::vector<PlainRow> lists;
    for (int r = 0; r < rows_; ++r) {
      const auto [begin, items] = items_of(r);
      lists.push_back({begin, static_cast<int>(items.size()), static_cast<int>(keys.size())});
      for (int k = 0; k < shape_.key_heads; ++k) {
        for (const std::int32_t key : items) keys.push_back(row_of(r, k, key));
      }
    }
    keys.push_back({});
    const OnDevice<RowRef> device_keys(keys);
    const OnDevice<PlainRow> device_lists(lists);
    const int tiles = shape_.key_heads * ((shape_.heads / shape_.key_heads + 15) / 16);
    const std::size_t all = static_cast<std::size_t>(rows_ * tiles) * 16 * static_cast<std::size_t>(shape_.value_dims);
    const OnDevice<float> values(all), total(all), out(static_cast<std::size_t>(rows_) * row_values());
    plain_attention<<<dim3(static_cast<unsigned>(rows_), static_cast<unsigned>(tiles)), 32, 0,
                      static_cast<cudaStream_t>(gpu().stream())>>>(
        format_, device_keys.data(), device_lists.data(), shape_, tiles, q_->data(), with_sink ? sink_->data() : nullptr,
        shape_.scale() * kLog2E, values.data(), total.data(), out.data());
    return out.fetch();
  }
  // The exact output of some heads of a row: every `step`-th, with their value dims one after the other.
  std::vector<double> exact(int row, bool with_sink, int step) const {
    std::vector<double> out;
    const auto items = items_of(row).second;
    for (int h = 0; h < shape_.heads; h += step) {
      const float* q = &q_host_[static_cast<std::size_t>(row * shape_.heads + h) * shape_.dims];
      std::vector<std::vector<float>> keys;
      for (const std::int32_t key : items) {
        keys.emplace_back(static_cast<std::size_t>(shape_.row_dims()));
        decode_row(format_, on_host(row, h / (shape_.heads / shape_.key_heads), key), keys.back().data());
      }
      std::vector<double> s, v(static_cast<std::size_t>(shape_.value_dims));
      double most = -INFINITY, sum = 0.0;
      for (const auto& key : keys) {
        double dot = 0.0;
        for (int d = 0; d < shape_.dims; ++d) dot += static_cast<double>(round_to_bf16(q[d])) * key[static_cast<std::size_t>(d)];
        s.push_back(dot * shape_.scale());
        most = std::max(most, s.back());
      }
      if (with_sink) sum = std::exp(sink_host_[static_cast<std::size_t>(h)] - most);
      for (std::size_t i = 0; i < keys.size(); ++i) {
        const double w = std::exp(s[i] - most);
        sum += w;
        for (std::size_t d = 0; d < v.size(); ++d) v[d] += w * keys[i][d + static_cast<std::size_t>(shape_.value_offset)];
      }
      for (const double value : v) out.push_back(keys.empty() ? 0.0 : value / sum);
    }
    return out;
  }

 private:
  RowSpan span_of(int row) const {
    std::size_t i = 0;
    while (row >= spans_[i].row_begin + spans_[i].rows) ++i;
    return spans_[i];
  }
  void add_plane(int pages) {
    PlaneView view{.rows_per_page = kBlockTokens, .format = format_};
    view.page_bytes = static_cast<std::size_t>(kBlockTokens * format_.row_bytes() + 15) / 16 * 16;
    auto& host = hosts_.emplace_back(view.page_bytes * static_cast<std::size_t>(pages));
    view.base = host.data();
    const auto random_word = [&] { return static_cast<std::uint32_t>(random_()); };
    for (int p = 0; p < pages; ++p) {
      for (int r = 0; r < kBlockTokens; ++r) {
        const RowRef row = view.row(p, r);
        const int codes = shape_.codec == RowCodec::kMlaFp8 ? shape_.row_dims() - shape_.rope : 0;
        for (int b = 0; b < format_.data_bytes; b += 4) {  // codes up to 1.9; bf16 up to 2, some small
          const std::uint32_t word = b < codes ? random_word() & 0xBFBFBFBFU : (random_word() & 0x81FF81FFU) | 0x3E003E00U;
          std::memcpy(row.data + b, &word, 4);
        }
        for (int s = 0; s < format_.scale_bytes; s += 4) {  // 2^-2 to 2, one in 40 from 2^-22 to 2^12
          const std::uint32_t e = random_() % 40 == 0 ? 105 + random_word() % 35 : 125 + random_word() % 3;
          const std::uint32_t scale = e << 23;
          std::memcpy(row.scales + s, &scale, 4);
        }
      }
    }
    bytes_.push_back(std::make_unique<OnDevice<std::byte>>(host));
    view.base = bytes_.back()->data();
    planes_.push_back(view);
  }
  // Draws the entries of each row.
  void choose() {
    if (shape_.max_selected == 0) return;
    std::vector<std::int32_t> counts, lists;
    for (int r = 0; r < rows_; ++r) {
      std::vector<std::int32_t> all;
      for (int e = shape_.first_key; e <= position(r); ++e) all.push_back(e);
      std::ranges::shuffle(all, random_);
      const auto limit = static_cast<std::size_t>(shape_.max_selected);
      all.resize(std::min(all.size(), random_() % 4 == 0 ? random_() % 70 % (limit + 1) : limit));
      std::ranges::sort(all);
      chosen_.push_back(all);
      counts.push_back(static_cast<std::int32_t>(all.size()));
      all.resize(limit, -1);
      lists.insert(lists.end(), all.begin(), all.end());
    }
    selected_ = std::make_unique<OnDevice<std::int32_t>>(lists);
    counts_ = std::make_unique<OnDevice<std::int32_t>>(counts);
  }
  Position position(int row) const {
    const RowSpan span = span_of(row);
    return span.first_position + row - span.row_begin;
  }
  // Returns the first item that a row sees, and the positions of all.
  std::pair<int, std::vector<std::int32_t>> items_of(int row) const {
    const int p = position(row);
    if (shape_.max_selected > 0) return {0, chosen_[static_cast<std::size_t>(row)]};
    const int first = shape_.window_tokens > 0 ? std::min(p, std::max(shape_.first_key, p - shape_.window_tokens + 1))
                                               : shape_.first_key;
    std::vector<std::int32_t> items;
    for (int at = first; at <= p; ++at) items.push_back(at);
    return {shape_.window_tokens > 0 ? first : 0, items};
  }
  RowRef row_of(int row, int key_head, std::int32_t key) const {
    const RowSpan span = span_of(row);
    const auto block = static_cast<std::size_t>(span.latent_list + key / kBlockTokens -
                                                (shape_.window_tokens > 0 ? span.first_window_block : 0));
    return planes_[static_cast<std::size_t>(key_head)].row(pages_[block], key % kBlockTokens);
  }
  RowRef on_host(int row, int key_head, std::int32_t key) const {
    const RowRef there = row_of(row, key_head, key);
    const auto k = static_cast<std::size_t>(key_head);
    auto* base = const_cast<std::byte*>(hosts_[k].data());
    return {base + (there.data - bytes_[k]->data()), base + (there.scales - bytes_[k]->data())};
  }

  Shape shape_;
  std::mt19937& random_;
  RowFormat format_;
  int rows_ = 0;
  std::vector<RowSpan> spans_, singles_;
  std::vector<std::int32_t> pages_;
  std::vector<PlaneView> planes_;
  std::vector<std::vector<std::byte>> hosts_;
  std::vector<std::unique_ptr<OnDevice<std::byte>>> bytes_;
  std::vector<float> q_host_, sink_host_;
  std::vector<std::vector<std::int32_t>> chosen_;
  std::unique_ptr<OnDevice<std::int32_t>> selected_, counts_, device_pages_;
  std::unique_ptr<OnDevice<float>> q_, sink_, out_;
  std::unique_ptr<OnDevice<RowSpan>> device_spans_, device_singles_;
};

struct Case {
  const char* name;
  Shape shape;
  std::vector<TestSpan> spans;
};
const std::vector<Case>& cases() {
  constexpr RowCodec kBf16 = RowCodec::kBf16, kFp8 = RowCodec::kMlaFp8;
  static const std::vector<Case> all{
      {"V3", {128, 1, 576, 512, 0, kBf16, 64}, {{1, 0}, {1, 63}, {1, 64}, {3, 1000}, {20, 505}, {1, 9000}, {1, 70000}}},
      {"V3, FP8", {128, 1, 576, 512, 0, kFp8, 64}, {{1, 0}, {1, 63}, {1, 64}, {3, 1000}, {20, 505}, {1, 9000}}},
      {"V3.2", {128, 1, 576, 512, 0, kFp8, 64, 2048}, {{1, 5000}, {1, 100}, {5, 3000}, {9, 2040}, {1, 0}, {1, 511}}},
      {"V3.2, bf16", {128, 1, 576, 512, 0, kBf16, 64, 2048}, {{1, 5000}, {5, 3000}, {1, 64}}},
      {"V2-Lite", {16, 1, 576, 512, 0, kBf16, 64}, {{1, 5}, {1, 3000}, {37, 700}, {1, 0}, {100, 1000}, {1, 8191}}},
      {"Kimi, MTP", {64, 1, 576, 512, 0, kBf16, 64, 0, 0, 1}, {{1, 0}, {1, 1}, {3, 63}, {1, 512}, {1, 5000}}},
      {"20 heads, FP8", {20, 1, 576, 512, 0, kFp8, 64}, {{7, 500}, {1, 1500}, {70, 0}}},
      {"Llama", {32, 8, 128, 128, 128}, {{1, 0}, {1, 511}, {1, 512}, {1, 9000}, {200, 300}, {5, 8190}, {1, 66000}}},
      {"SmolLM2", {9, 3, 64, 64, 64}, {{1, 0}, {1, 700}, {150, 450}, {3, 64}}},
      {"96", {6, 2, 96, 96, 96}, {{1, 0}, {1, 700}, {50, 450}}},
      {"keys are values", {6, 2, 40, 40, 0, kBf16, 8}, {{1, 0}, {1, 600}, {50, 450}}},
      {"window", {14, 2, 64, 64, 64, kBf16, 0, 0, 40}, {{1, 0}, {1, 63}, {1, 500}, {130, 470}, {1, 3000}}},
      {"long window", {28, 4, 128, 128, 128, kBf16, 0, 0, 4096, 3}, {{1, 2}, {1, 6000}, {70, 8150}, {1, 70000}, {1, 4099}}},
      {"small latents", {4, 1, 80, 64, 0, kBf16, 16, 0, 0, 1}, {{1, 0}, {1, 700}, {70, 450}}},
      {"small V3.2", {4, 1, 80, 64, 0, kFp8, 16, 48}, {{1, 30}, {1, 700}, {70, 20}}},
      {"small latents, FP8", {4, 1, 80, 64, 0, kFp8, 16}, {{1, 30}, {1, 700}, {70, 20}}},
      {"many heads", {70, 1, 80, 64, 0, kBf16, 16}, {{1, 30}, {1, 700}, {5, 600}}}};
  return all;
}

class GpuListAttention : public Sm90Test {};

TEST_F(GpuListAttention, EveryRowHasTheBitsOfThePlainKernelHoweverTheWorkIsCut) {
  for (const Case& of : cases()) {
    World world(random_, of.shape, of.spans);
    for (const bool with_sink : {false, true}) {
      const std::vector<float> plain = world.plain(with_sink);
      const OnDevice<float> expected(plain);
      const auto compare = [&](const float* out, int row, int rows, const char* what) {
        const std::size_t at = static_cast<std::size_t>(row) * world.row_values();
        EXPECT_EQ(different(out + at, expected.data() + at, static_cast<std::size_t>(rows) * world.row_values()), 0U)
            << of.name << ", sink " << with_sink << ", " << what << ", rows " << row << " to " << row + rows;
      };
      const int spans = world.spans(), rows = world.rows();
      compare(world.run(exec_, false, 0, spans, with_sink), 0, rows, "all spans");
      compare(world.run(exec_, true, 0, rows, with_sink), 0, rows, "each row a span");
      compare(world.run(exec_, false, 0, spans, with_sink, ListCut::kSegments), 0, rows, "by segments");
      compare(world.run(exec_, false, 0, spans, with_sink, ListCut::kTiles), 0, rows, "by tiles");
      compare(world.run(exec_, true, 0, rows, with_sink, ListCut::kTiles), 0, rows, "each row a span, by tiles");
      if (of.shape.dims <= 128 && of.shape.codec == RowCodec::kBf16 && of.shape.max_selected == 0) {
        compare(world.run(exec_, false, 0, spans, with_sink, ListCut::kWideTiles), 0, rows, "by wide tiles");
      }
      for (int r = 0; r < rows; r += r < 4 ? 1 : 13) compare(world.run(exec_, true, r, 1, with_sink), r, 1, "alone");
      for (int s = 0, row = 0; s < spans; row += world.rows_of_span(s), ++s) {
        compare(world.run(exec_, false, s, 1, with_sink), row, world.rows_of_span(s), "one span");
      }
      if (HasFailure()) break;
    }
    std::printf("%s: compared\n", of.name);
  }
}

TEST_F(GpuListAttention, ReadsNoQueryBeforeTheKernelAheadHasEnded) {
  for (const Case& of : cases()) {
    World world(random_, of.shape, of.spans);
    const std::size_t values = static_cast<std::size_t>(world.rows()) * world.row_values();
    const OnDevice<float> expected(values);
    for (const ListCut cut : {ListCut::kFastest, ListCut::kSegments, ListCut::kTiles}) {
      gpu().copy({reinterpret_cast<std::byte*>(expected.data()),
                  reinterpret_cast<const std::byte*>(world.run(exec_, false, 0, world.spans(), true, cut)), expected.bytes()});
      const float* out = world.run(exec_, false, 0, world.spans(), true, cut, true);
      EXPECT_EQ(different(out, expected.data(), values), 0U) << of.name << ", cut " << static_cast<int>(cut);
    }
  }
}

TEST_F(GpuListAttention, EveryNumberOfRowsGivesTheSameBits) {
  std::vector<TestSpan> spans;
  for (int i = 0; i < 150; ++i) spans.push_back({1, static_cast<int>(random_() % 1600)});
  for (const Shape& shape : {Shape{16, 1, 576, 512, 0, RowCodec::kBf16, 64}, Shape{8, 2, 128, 128, 128}}) {
    World world(random_, shape, spans);
    const OnDevice<float> expected(world.plain(false));
    for (int rows = 1; rows <= 150; ++rows) {
      const int first = (rows * 7) % (150 - rows + 1);
      const float* out = world.run(exec_, false, first, rows, false);
      const std::size_t at = static_cast<std::size_t>(first) * world.row_values();
      ASSERT_EQ(different(out + at, expected.data() + at, static_cast<std::size_t>(rows) * world.row_values()), 0U)
          << rows << " rows";
    }
  }
}

TEST_F(GpuListAttention, IsCloseToF64OnTheSameRoundedInputs) {
  for (const Case& of : cases()) {
    World world(random_, of.shape, of.spans);
    const float* out = world.run(exec_, false, 0, world.spans(), true);
    std::vector<float> all(static_cast<std::size_t>(world.rows()) * world.row_values());
    gpu().download({reinterpret_cast<std::byte*>(all.data()), reinterpret_cast<const std::byte*>(out), all.size() * 4});
    gpu().wait();
    double worst = 0.0;
    const int step = of.shape.dims > 128 ? of.shape.heads / 4 : 1;
    for (int r = 0; r < world.rows(); r += r < 4 ? 1 : 29) {
      std::vector<float> row;
      for (int h = 0; h < of.shape.heads; h += step) {
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(r) * world.row_values()) +
                           static_cast<std::ptrdiff_t>(h) * of.shape.value_dims;
        row.insert(row.end(), begin, begin + of.shape.value_dims);
      }
      const std::vector<double> exact = world.exact(r, true, step);
      if (std::ranges::all_of(exact, [](double value) { return value == 0.0; })) continue;  // the row sees nothing
      const double distance = relative_distance(row, exact);
      worst = std::isnan(distance) ? distance : std::max(worst, distance);
    }
    EXPECT_LT(worst, 2e-3) << of.name;
    std::printf("%s: relative distance from f64 %.2e\n", of.name, worst);
  }
}

}  // namespace
}  // namespace sluice::gpu_list_attention_test
