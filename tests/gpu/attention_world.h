// Attention of the profile sm90 over official FP8 rows on random sequences, by its kernels, by a plain one and in f64.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "base/formats/number_formats.h"
#include "kernels/composed/composed_rows.h"
#include "kernels/cuda/sm90/attend_rows.h"
#include "kernels/cuda/sm90/sm90_ops.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/ops.h"
#include "plain_attention.h"
#include "sm90_testing.h"

namespace sluice::gpu_attention_test {
namespace {

using namespace sm90_testing;

struct Shape {
  int heads, dims, tokens_per_row, max_selected;  // tokens_per_row 0: a window alone; max_selected 0: all entries
  int wild_rows = 0;                              // one row in this many has scales of any size, and so do queries
};
struct TestSpan {
  int rows, first_position;
};

// Sequences of random rows in pages all over a pool, and the step that computes some spans.
class World {
 public:
  World(std::mt19937& random, const Shape& shape, const std::vector<TestSpan>& spans)
      : shape_(shape), random_(random), format_(make_row_format(RowCodec::kV4Fp8, shape.dims, kRope)) {
    const int ratio = shape.tokens_per_row;
    for (const TestSpan& span : spans) {
      const int end = span.first_position + span.rows;
      const int first_block = std::max(0, span.first_position - 127) / kBlockTokens;
      const int blocks = (end - 1) / kBlockTokens + 1;
      spans_.push_back({.row_begin = rows_,
                        .rows = span.rows,
                        .first_position = span.first_position,
                        .latent_list = static_cast<std::int32_t>(latent_pages_.size()),
                        .window_list = static_cast<std::int32_t>(window_pages_.size()),
                        .first_window_block = first_block});
      for (int b = 0; b < blocks; ++b)
        latent_pages_.push_back(LatentPage(static_cast<std::int32_t>(latent_pages_.size())));
      for (int b = first_block; b < blocks; ++b)
        window_pages_.push_back(WindowPage(static_cast<std::int32_t>(window_pages_.size())));
      rows_ += span.rows;
    }
    std::ranges::shuffle(latent_pages_, random_);
    std::ranges::shuffle(window_pages_, random_);
    window_ = plane(kBlockTokens, window_pages_.size(), &window_host_, &window_bytes_);
    if (ratio > 0) latent_ = plane(kBlockTokens / ratio, latent_pages_.size(), &latent_host_, &latent_bytes_);
    q_host_ = random_values(random_, static_cast<std::size_t>(rows_) * shape.heads * shape.dims);
    for (std::size_t i = 0; shape.wild_rows > 0 && i < q_host_.size(); ++i) {
      q_host_[i] *= i / static_cast<std::size_t>(shape.dims) % 3 == 1 ? 0x1p-30F : 0x1p-12F;
    }
    sink_host_ = random_values(random_, static_cast<std::size_t>(shape.heads));
    choose();
    q_ = std::make_unique<OnDevice<float>>(q_host_);
    sink_ = std::make_unique<OnDevice<float>>(sink_host_);
    device_spans_ = std::make_unique<OnDevice<RowSpan>>(spans_);
    device_latents_ = std::make_unique<OnDevice<LatentPage>>(latent_pages_);
    device_windows_ = std::make_unique<OnDevice<WindowPage>>(window_pages_);
    for (int r = 0; r < rows_; ++r) {
      const RowSpan span = span_of(r);
      RowSpan one = span;
      one.row_begin = r, one.rows = 1, one.first_position = position(r);
      singles_.push_back(one);
    }
    device_singles_ = std::make_unique<OnDevice<RowSpan>>(singles_);
    out_ = std::make_unique<OnDevice<float>>(q_host_.size());
  }

  int rows() const { return rows_; }
  std::size_t row_values() const {
    return static_cast<std::size_t>(shape_.heads) * static_cast<std::size_t>(shape_.dims);
  }

  // Attends from spans [first, first + count), or from rows, each a span of its own, with `cluster` blocks for a
  // row (0: as it is chosen).
  const float* run(const Exec& exec, bool singly, int first, int count, bool with_sink, int cluster = 0) {
    StepTables step;
    const auto& host = singly ? singles_ : spans_;
    step.spans = {(singly ? device_singles_ : device_spans_)->data(), host.size()};
    step.host_spans = host;
    step.latent_pages = device_latents_->data(), step.window_pages = device_windows_->data();
    AttendArgs args = arguments(with_sink);
    args.step = &step;
    args.spans = step.spans.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
    args.rows = rows_;
    out_->poison();
    cluster == 0 ? cuda_sm90::attend_keys(exec, args) : void(cuda_sm90::attend_official(exec, args, cluster));
    return out_->data();
  }
  // The output of all rows by attend() of the profile, or by rope_heads(), attend_keys(), rope_heads()
  // and prepare_rows() one after the other: values, then bf16.
  std::vector<std::vector<float>> finished(const Exec& exec, int cluster, bool one_by_one, bool forms_only = false,
                                           bool late = false) {
    std::vector<Position> positions;
    for (int r = 0; r < rows_; ++r) positions.push_back(position(r));
    const OnDevice<Position> of_rows(positions);
    std::mt19937 random(23);
    const int last = *std::ranges::max_element(positions);
    const OnDevice<float> table(random_values(random, static_cast<std::size_t>(last + 1) * kRope));
    OnDevice<float> pairs(q_host_.size() / 2), fp8(late ? q_host_.size() / 2 : 0);
    pairs.poison(), fp8.poison();
    const OnDevice<TokenId> ids(static_cast<std::size_t>(rows_));
    StepTables step;
    step.ids = {ids.data(), static_cast<std::size_t>(rows_)};
    step.positions = {of_rows.data(), positions.size()};
    step.spans = {device_spans_->data(), spans_.size()};
    step.host_spans = spans_;
    step.latent_pages = device_latents_->data(), step.window_pages = device_windows_->data();
    AttendArgs args = arguments(true);
    args.step = &step, args.spans = step.spans, args.rows = rows_;
    args.out_rope = {table.data(), kRope, shape_.dims - kRope};
    args.out_rows = contiguous_rows(args.out, shape_.heads * shape_.dims);
    args.out_rows.columns = shape_.dims, args.out_rows.parts = shape_.heads, args.out_rows.part_step = shape_.dims;
    args.out_rows.forms[static_cast<std::size_t>(InputForm::kBf16)] = pairs.data();
    if (late) args.out_rows.forms[static_cast<std::size_t>(InputForm::kFp8)] = fp8.data();
    args.forms_only = forms_only;
    const OnDevice<float> q(q_host_);  // a copy, as it is normed and rotated there
    args.q = q.data();
    args.query = {nullptr, 1e-6F, args.out_rope};
    out_->poison();
    LateInputs ahead;
    if (late) ahead.add(q), ahead.forget(), ahead.write(exec);
    if (one_by_one) {
      composed::attend(exec, args);
    } else if (cluster == 0) {
      cuda_sm90::attend(exec, args);
    } else if (forms_only) {
      cuda_sm90::form_queries(
          exec,
          {args.q, reinterpret_cast<std::byte*>(args.q), shape_.dims * std::ptrdiff_t{sizeof(float)}, rows_,
           shape_.heads, args.query.eps, args.query.rope.table, step.positions.data()},
          shape_.dims);
      cuda_sm90::attend_official(exec, args, cluster, true);
    } else {
      composed::form_heads(exec, args.query, rows_, shape_.heads, shape_.dims, args.q,
                           std::ptrdiff_t{shape_.heads} * shape_.dims, step.positions.data());
      cuda_sm90::attend_official(exec, args, cluster);
    }
    return {out_->fetch(), pairs.fetch(), fp8.fetch()};
  }
  // The output of all rows by the plain kernel, padded to 16 heads.
  std::vector<float> plain(bool with_sink) {
    std::vector<RowRef> keys;
    std::vector<std::int32_t> first, count;
    for (int r = 0; r < rows_; ++r) {
      first.push_back(static_cast<std::int32_t>(keys.size()));
      for (const RowRef& key : keys_of(r)) keys.push_back(key);
      count.push_back(static_cast<std::int32_t>(keys.size()) - first.back());
    }
    const OnDevice<RowRef> list(keys);
    const OnDevice<std::int32_t> firsts(first), counts(count);
    const int tiles = (shape_.heads + 15) / 16;
    const std::size_t all =
        static_cast<std::size_t>(rows_) * static_cast<std::size_t>(tiles) * 16 * static_cast<std::size_t>(shape_.dims);
    const OnDevice<float> values(all), total(all);
    plain_attention<<<dim3(static_cast<unsigned>(rows_), static_cast<unsigned>(tiles)), 32, 0,
                      static_cast<cudaStream_t>(gpu().stream())>>>(
        {list.data(), firsts.data(), counts.data()}, q_->data(), with_sink ? sink_->data() : nullptr, shape_.heads,
        shape_.dims, scale() * kLog2E, values.data(), total.data());
    const std::vector<float> padded = total.fetch();
    std::vector<float> result;
    for (std::size_t r = 0; r < static_cast<std::size_t>(rows_); ++r) {
      const auto begin =
          padded.begin() + static_cast<std::ptrdiff_t>(r * static_cast<std::size_t>(tiles * 16 * shape_.dims));
      result.insert(result.end(), begin, begin + static_cast<std::ptrdiff_t>(row_values()));
    }
    return result;
  }
  std::vector<double> exact(int row, bool with_sink) const {
    std::vector<std::vector<float>> keys;
    for (const RowRef& key : keys_of(row)) {
      keys.emplace_back(static_cast<std::size_t>(shape_.dims));
      decode_row(format_, on_host(key), keys.back().data());
    }
    std::vector<double> out;
    for (int h = 0; h < shape_.heads; ++h) {
      const float* q =
          &q_host_[static_cast<std::size_t>(row) * row_values() + static_cast<std::size_t>(h * shape_.dims)];
      float largest = 0x1p-64F;
      for (int d = 0; d < shape_.dims; ++d) largest = std::max(largest, std::fabs(q[d]));
      const int power = std::ilogb(largest);
      const auto rounded = [&](float x) {
        return std::ldexp(static_cast<double>(to_float(to_f16(std::ldexp(x, -power)))), power);
      };
      std::vector<double> s, v(static_cast<std::size_t>(shape_.dims));
      double most = -INFINITY, sum = 0.0;
      for (const auto& key : keys) {
        double dot = 0.0;
        for (int d = 0; d < shape_.dims; ++d) dot += rounded(q[d]) * key[static_cast<std::size_t>(d)];
        s.push_back(dot * scale());
        most = std::max(most, s.back());
      }
      if (with_sink) sum = std::exp(sink_host_[static_cast<std::size_t>(h)] - most);
      for (std::size_t i = 0; i < keys.size(); ++i) {
        const double w = std::exp(s[i] - most);
        sum += w;
        for (std::size_t d = 0; d < v.size(); ++d) v[d] += w * keys[i][d];
      }
      for (const double value : v) out.push_back(value / sum);
    }
    return out;
  }

 private:
  float scale() const { return 1.0F / std::sqrt(static_cast<float>(shape_.dims)); }
  RowSpan span_of(int row) const {
    std::size_t i = 0;
    while (row >= spans_[i].row_begin + spans_[i].rows) ++i;
    return spans_[i];
  }
  Position position(int row) const {
    const RowSpan span = span_of(row);
    return span.first_position + row - span.row_begin;
  }

  PlaneView plane(int rows_per_page, std::size_t pages, std::vector<std::byte>* host,
                  std::unique_ptr<OnDevice<std::byte>>* device) {
    PlaneView view{.rows_per_page = rows_per_page, .format = format_};
    view.page_bytes = (static_cast<std::size_t>(rows_per_page * format_.row_bytes()) + 15) / 16 * 16;
    host->assign(view.page_bytes * pages, std::byte{0xFF});
    view.base = host->data();
    for (std::size_t p = 0; p < pages; ++p) {
      for (int r = 0; r < rows_per_page; ++r) fill(view.row(static_cast<std::int32_t>(p), r));
    }
    *device = std::make_unique<OnDevice<std::byte>>(*host);
    view.base = (*device)->data();
    return view;
  }
  void fill(const RowRef& row) {
    const int codes = shape_.dims - kRope;
    for (int d = 0; d < codes; d += 4) {
      const auto word = static_cast<std::uint32_t>(random_()) & 0xBFBFBFBFU;  // up to 1.875 in size
      std::memcpy(row.data + d, &word, 4);
    }
    for (int d = 0; d < kRope; d += 2) {
      const auto pair = (static_cast<std::uint32_t>(random_()) & 0x81FF81FFU) | 0x3E003E00U;
      std::memcpy(row.data + codes + 2 * d, &pair, 4);
    }
    const bool wild = shape_.wild_rows > 0 && random_() % static_cast<unsigned>(shape_.wild_rows) == 0;
    for (int i = 0; i < format_.scale_bytes; ++i) {
      const auto usual = static_cast<std::uint32_t>(124 + random_() % 4);
      row.scales[i] = static_cast<std::byte>(!wild || random_() % 3 != 0 ? usual : 105 + random_() % 36);
    }
  }
  // Draws the entries of each row.
  void choose() {
    if (shape_.max_selected == 0) return;
    std::vector<std::int32_t> counts, lists;
    for (int r = 0; r < rows_; ++r) {
      std::vector<std::int32_t> all(static_cast<std::size_t>((position(r) + 1) / shape_.tokens_per_row));
      for (std::size_t e = 0; e < all.size(); ++e) all[e] = static_cast<std::int32_t>(e);
      std::ranges::shuffle(all, random_);
      const auto limit = static_cast<std::size_t>(shape_.max_selected);
      const std::size_t most = random_() % 4 == 0 ? random_() % 70 % (limit + 1) : limit;
      all.resize(std::min(all.size(), most));
      std::ranges::sort(all);
      chosen_.push_back(all);
      counts.push_back(static_cast<std::int32_t>(all.size()));
      all.resize(static_cast<std::size_t>(shape_.max_selected), -1);
      lists.insert(lists.end(), all.begin(), all.end());
    }
    selected_ = std::make_unique<OnDevice<std::int32_t>>(lists);
    counts_ = std::make_unique<OnDevice<std::int32_t>>(counts);
  }
  // The keys of a row on the device: the window, then the entries.
  std::vector<RowRef> keys_of(int row) const {
    const RowSpan span = span_of(row);
    const Position p = position(row);
    std::vector<RowRef> keys;
    for (Position at = std::max(0, p - 127); at <= p; ++at) {
      const auto block = static_cast<std::size_t>(span.window_list + at / kBlockTokens - span.first_window_block);
      keys.push_back(window_.row(window_pages_[block].value, at % kBlockTokens));
    }
    if (shape_.tokens_per_row == 0) return keys;
    const auto add = [&](std::int32_t e) {
      const auto block = static_cast<std::size_t>(span.latent_list + e / latent_.rows_per_page);
      keys.push_back(latent_.row(latent_pages_[block].value, e % latent_.rows_per_page));
    };
    if (shape_.max_selected > 0) {
      for (const std::int32_t e : chosen_[static_cast<std::size_t>(row)]) add(e);
    } else {
      for (std::int32_t e = 0; e < (p + 1) / shape_.tokens_per_row; ++e) add(e);
    }
    return keys;
  }
  RowRef on_host(const RowRef& key) const {
    const bool of_window = key.data >= window_bytes_->data() && key.data < window_bytes_->data() + window_host_.size();
    const auto& host = of_window ? window_host_ : latent_host_;
    const std::byte* device = (of_window ? window_bytes_ : latent_bytes_)->data();
    auto* base = const_cast<std::byte*>(host.data());
    return {base + (key.data - device), base + (key.scales - device)};
  }
  AttendArgs arguments(bool with_sink) const {
    AttendArgs args;
    args.heads = shape_.heads, args.dims = args.value_dims = shape_.dims;
    args.q = q_->data();
    args.scale = scale();
    args.sink = with_sink ? sink_->data() : nullptr;
    args.window = &window_, args.window_tokens = 128;
    if (shape_.tokens_per_row > 0) args.latent = &latent_, args.tokens_per_row = shape_.tokens_per_row;
    if (shape_.max_selected > 0) {
      args.selected = selected_->data(), args.selected_count = counts_->data(), args.max_selected = shape_.max_selected;
    }
    args.bf16 = true;
    args.out = out_->data();
    return args;
  }

  Shape shape_;
  std::mt19937& random_;
  RowFormat format_;
  int rows_ = 0;
  std::vector<RowSpan> spans_, singles_;
  std::vector<LatentPage> latent_pages_;
  std::vector<WindowPage> window_pages_;
  PlaneView window_, latent_;
  std::vector<std::byte> window_host_, latent_host_;
  std::unique_ptr<OnDevice<std::byte>> window_bytes_, latent_bytes_;
  std::vector<float> q_host_, sink_host_;
  std::vector<std::vector<std::int32_t>> chosen_;
  std::unique_ptr<OnDevice<std::int32_t>> selected_, counts_;
  std::unique_ptr<OnDevice<float>> q_, sink_, out_;
  std::unique_ptr<OnDevice<RowSpan>> device_spans_, device_singles_;
  std::unique_ptr<OnDevice<LatentPage>> device_latents_;
  std::unique_ptr<OnDevice<WindowPage>> device_windows_;
};

}  // namespace
}  // namespace sluice::gpu_attention_test
