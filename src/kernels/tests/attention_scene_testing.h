// Scenes for tests of attention: sequences whose rows attend to random pools, by every kernel, and by the formula in
// f64.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/formats/number_formats.h"
#include "kernels/device/cpu_features.h"
#include "kernels/ops/attention.h"
#include "kernels/tests/op_testing.h"
#include "kernels/weights/input_forms.h"
#include "kernels/weights/linear_inputs.h"

namespace sluice::attention_scene {

struct Case {
  int heads, dims, value_dims, rope, tokens_per_row, max_selected;  // max_selected 0: all visible entries
  RowCodec codec;
  bool sink, window, latent;
  int window_tokens = 128;
  int key_heads = 1, value_offset = 0;
  bool bf16 = false;
  Position first_key = 0;
  bool tiles = false;

  // GQA: a cached row is a key, then a value.
  int row_dims() const { return value_offset > 0 ? value_offset + value_dims : dims; }
};

// Three sequences in shared pools, with queries and selected entries for every one of their positions.
class Scene {
 public:
  static constexpr int kSequences = 3;

  Scene(Random& random, const Case& c, int tokens)
      : case_(c),
        tokens_(tokens),
        pages_(kSequences * ((tokens + 127) / 128) + 3),
        sink_(random.floats(static_cast<std::size_t>(c.heads))) {
    const RowFormat format = make_row_format(c.codec, c.row_dims(), c.rope);
    for (int k = 0; k < c.key_heads; ++k) {
      latents_.emplace_back(random, format, kBlockTokens / c.tokens_per_row, pages_);
      windows_.emplace_back(random, format, kBlockTokens, pages_);
    }
    for (int k = 0; k < c.key_heads; ++k) {
      latent_views_.push_back(latents_[static_cast<std::size_t>(k)].view());
      window_views_.push_back(windows_[static_cast<std::size_t>(k)].view());
    }
    auto latent_pages = random.permutation(pages_), window_pages = random.permutation(pages_);
    for (int s = 0; s < kSequences; ++s) {
      sequences_.emplace_back(random, tokens, c.tokens_per_row, latent_views_[0], window_views_[0], latent_pages,
                              window_pages);
      fill_other_heads(random, tokens, sequences_.back());
      q_.push_back(random.floats(static_cast<std::size_t>(tokens * c.heads * c.dims), 0.3F));
      choose_entries(random);
    }
  }

  struct Piece {
    int sequence;
    Position first;
    int rows;
  };

  // The attention of a batch of pieces, in their order. With a form, only the spans from `first` on attend, and the
  // form of their outputs follows the outputs.
  std::vector<float> attend_to(const Exec& exec, const std::vector<Piece>& pieces, std::size_t first = 0,
                               InputForm form = InputForm::kF32) const {
    std::vector<float> q;
    std::vector<std::int32_t> selected, count;
    TestStep step;
    int rows = 0;
    for (const Piece& piece : pieces) {
      const std::size_t s = static_cast<std::size_t>(piece.sequence);
      const auto copy = [&](auto& to, const auto& from, int width) {
        to.insert(to.end(), from.begin() + piece.first * width, from.begin() + (piece.first + piece.rows) * width);
      };
      copy(q, q_[s], case_.heads * case_.dims);
      copy(selected, selected_[s], case_.max_selected);
      copy(count, count_[s], 1);
      step.add(sequences_[s].span(piece.rows, piece.first));
      rows += piece.rows;
    }
    std::vector<float> out(static_cast<std::size_t>(rows * case_.heads * case_.value_dims), 7.0F);
    AttendArgs args{.rows = rows,
                    .heads = case_.heads,
                    .dims = case_.dims,
                    .value_dims = case_.value_dims,
                    .q = q.data(),
                    .scale = 0.3F,
                    .sink = case_.sink ? sink_.data() : nullptr,
                    .step = &step.tables(),
                    .spans = step.tables().spans,
                    .key_heads = case_.key_heads,
                    .window = case_.window ? window_views_.data() : nullptr,
                    .window_tokens = case_.window_tokens,
                    .first_key = case_.first_key,
                    .latent = case_.latent ? latent_views_.data() : nullptr,
                    .tokens_per_row = case_.tokens_per_row};
    args.value_offset = case_.value_offset;
    args.bf16 = case_.bf16;
    args.tiles = case_.tiles;
    if (case_.max_selected > 0) {
      args.selected = selected.data();
      args.selected_count = count.data();
      args.max_selected = case_.max_selected;
    }
    args.out = out.data();
    args.spans = args.spans.subspan(first);
    if (form == InputForm::kF32) {
      attend(exec, args);
      return out;
    }
    const int before = args.spans.front().row_begin, parts = case_.heads % 2 == 0 ? 2 : 1;
    args.rows -= before;
    Rows& made = args.out_rows;
    made.ld = case_.heads * case_.value_dims, made.parts = parts;
    made.part_step = made.columns = case_.heads / parts * case_.value_dims;
    made.values = out.data() + before * made.ld;
    std::vector<float> formed(static_cast<std::size_t>(args.rows * parts * input_floats(form, made.columns)), 7.0F);
    made.forms[static_cast<std::size_t>(form)] = formed.data();
    attend(exec, args);
    out.insert(out.end(), formed.begin(), formed.end());
    return out;
  }

  // Makes the first values of the window's row at a position NaN.
  void poison(int sequence, Position p) const {
    const TestSequence& of = sequences_[static_cast<std::size_t>(sequence)];
    for (const PlaneView& view : window_views_) {
      std::memset(of.window_row(view, p).data, 0xFF, 16);
    }
  }

  // Gives every row of kV4Fp8 other codes and scales.
  void draw_codes(Random& random) const {
    const auto draw = [&](const PlaneView& view, RowRef row) {
      const int plain = view.format.dims - view.format.rope_dims;
      for (int i = 0; i < plain; ++i) {
        const int code = random.between(0, 255);
        // Codes 127 and 255 are NaN.
        row.data[i] = static_cast<std::byte>(code % 128 == 127 ? 0 : code);
      }
      // kV4Fp8 has a scale for 64 values.
      for (int i = 0; i < plain / 64; ++i) {
        row.scales[i] =
            static_cast<std::byte>(random.between(0, 2) > 0 ? random.between(100, 122) : random.between(0, 20));
      }
    };
    for (const TestSequence& sequence : sequences_) {
      for (Position p = 0; p < tokens_; ++p) draw(window_views_[0], sequence.window_row(window_views_[0], p));
      for (int e = 0; e < tokens_ / case_.tokens_per_row; ++e) {
        draw(latent_views_[0], sequence.latent_row(latent_views_[0], e));
      }
    }
  }

  // One row in double precision, from the formulas of docs/models/deepseek_v4.md §4.4.
  std::vector<double> exact(int sequence, Position p) const {
    const std::size_t s = static_cast<std::size_t>(sequence);
    std::vector<double> out;
    for (int h = 0; h < case_.heads; ++h) {
      const auto key_head = static_cast<std::size_t>(h / (case_.heads / case_.key_heads));
      std::vector<std::vector<float>> keys;
      std::vector<int> split_of;  // a key's split
      const auto add = [&](const PlaneView& view, RowRef row) {
        keys.emplace_back(static_cast<std::size_t>(case_.row_dims()));
        decode_row(view.format, row, keys.back().data());
      };
      const PlaneView &latent = latent_views_[key_head], &window = window_views_[key_head];
      for (std::int32_t e : case_.latent ? entries(s, p) : std::vector<std::int32_t>{}) {
        split_of.push_back(static_cast<int>(keys.size()) / kSplitKeys);
        add(latent, sequences_[s].latent_row(latent, e));
      }
      const Position begin = std::min(p, std::max(case_.first_key, p - case_.window_tokens + 1));
      for (Position i = begin; case_.window && i <= p; ++i) {
        split_of.push_back(-1);
        add(window, sequences_[s].window_row(window, i));
      }
      const float* q = q_[s].data() + (static_cast<std::ptrdiff_t>(p) * case_.heads + h) * case_.dims;
      const auto values = exact_head(q, keys, split_of, h);
      out.insert(out.end(), values.begin(), values.end());
    }
    return out;
  }

 private:
  // Fills the planes of the other key heads; the sequence has filled those of the first.
  void fill_other_heads(Random& random, int tokens, const TestSequence& sequence) {
    const auto width = static_cast<std::size_t>(case_.row_dims());
    for (std::size_t k = 1; k < latent_views_.size(); ++k) {
      for (int t = 0; t < tokens; ++t) {
        const auto latent = random.floats(width), window = random.floats(width);
        if ((t + 1) % case_.tokens_per_row == 0) {
          encode_row(latent_views_[k].format, latent.data(),
                     sequence.latent_row(latent_views_[k], t / case_.tokens_per_row));
        }
        encode_row(window_views_[k].format, window.data(), sequence.window_row(window_views_[k], t));
      }
    }
  }

  void choose_entries(Random& random) {
    std::vector<std::int32_t> selected, count;
    for (Position p = 0; p < tokens_; ++p) {
      const int visible = (p + 1) / case_.tokens_per_row;
      const int chosen = std::min(visible, case_.max_selected);
      count.push_back(chosen);
      for (int e = 0, left = chosen; left > 0; ++e) {  // every remaining entry is chosen with the same probability
        if (random.between(1, visible - e) > left) continue;
        selected.push_back(e);
        --left;
      }
      selected.resize(selected.size() + static_cast<std::size_t>(case_.max_selected - chosen), -1);
    }
    selected_.push_back(selected);
    count_.push_back(count);
  }

  std::vector<std::int32_t> entries(std::size_t s, Position p) const {
    std::vector<std::int32_t> list;
    if (case_.max_selected > 0) {
      const auto* row = selected_[s].data() + static_cast<std::ptrdiff_t>(p) * case_.max_selected;
      list.assign(row, row + count_[s][static_cast<std::size_t>(p)]);
    } else {
      for (std::int32_t e = case_.first_key; e < (p + 1) / case_.tokens_per_row; ++e) list.push_back(e);
    }
    return list;
  }

  std::vector<double> exact_head(const float* q, const std::vector<std::vector<float>>& keys,
                                 const std::vector<int>& split_of, int head) const {
    std::vector<double> scores;
    for (const auto& key : keys) {
      double dot = 0.0;
      for (std::size_t d = 0; d < static_cast<std::size_t>(case_.dims); ++d)
        dot += static_cast<double>(case_.bf16 ? round_to_bf16(q[d]) : q[d]) * static_cast<double>(key[d]);
      scores.push_back(dot * static_cast<double>(0.3F));
    }
    std::vector<double> out(static_cast<std::size_t>(case_.value_dims), 0.0);
    if (keys.empty()) return out;
    const double max = *std::max_element(scores.begin(), scores.end());
    std::vector<double> weights;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      weights.push_back(std::exp(scores[i] - max));
      if (!case_.bf16) continue;  // else the weight is rounded under the largest score of its split
      double top = scores[i];
      for (std::size_t j = 0; j < keys.size(); ++j) top = split_of[j] == split_of[i] ? std::max(top, scores[j]) : top;
      weights[i] =
          static_cast<double>(round_to_bf16(static_cast<float>(std::exp(scores[i] - top)))) * std::exp(top - max);
    }
    double sum = case_.sink ? std::exp(static_cast<double>(sink_[static_cast<std::size_t>(head)]) - max) : 0.0;
    for (const double weight : weights) sum += weight;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      for (std::size_t d = 0; d < out.size(); ++d)
        out[d] += weights[i] / sum * static_cast<double>(keys[i][d + static_cast<std::size_t>(case_.value_offset)]);
    }
    return out;
  }

  const Case case_;
  const int tokens_, pages_;
  std::vector<TestPlane> latents_, windows_;  // [key head]
  std::vector<PlaneView> latent_views_, window_views_;
  std::vector<float> sink_;
  std::vector<TestSequence> sequences_;
  std::vector<std::vector<float>> q_;
  std::vector<std::vector<std::int32_t>> selected_, count_;
};

}  // namespace sluice::attention_scene
