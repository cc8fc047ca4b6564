// ToyModel: the model that the tests of the cache compute. Every row it writes and every output it gives is a hash of
// everything that it reads back through the span's page tables. It has two window planes, the upper one a function of
// the row's view of the lower one and of the latents. It has latent planes at any number of tokens a row, with an
// accumulator for each that has more than one. The previous token is carried over a block's boundary. So a page given
// to two sequences, a row in the wrong place, a state that was not committed or a key too many changes every output
// after it. Integers only: equality is exact.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "model/batch.h"
#include "model/cache_layout.h"

namespace sluice {

struct ToyShape {
  std::string name = "v4";
  int window_tokens = 128;              // 0: no window planes
  std::vector<int> latents = {4, 128};  // tokens per row of each latent plane
  bool carries_token = true;            // an open state with boundary bytes
  bool kept_in_latents = false;         // and latent pages keep it, not window pages
};

inline void PrintTo(const ToyShape& shape, std::ostream* out) {
  *out << shape.name;
}

// The shapes that differ in what a sequence needs to go on from a block's boundary.
inline std::vector<ToyShape> toy_shapes() {
  return {{"v4", 128, {4, 128}, true},
          {"window_1", 1, {4, 128}, false},
          {"window_1_boundary", 1, {4, 128}, true},
          {"window_129", 129, {4, 128}, true},
          {"window_130", 130, {4}, true},
          {"window_400", 400, {4}, true},
          {"gqa", 0, {1}, false},
          {"boundary_only", 0, {1}, true},
          {"kept_in_latents", 0, {1}, true, true},
          {"open_without_boundary", 0, {4}, false},
          {"window_only", 128, {}, false}};
}

class ToyModel {
 public:
  using Word = std::uint64_t;

  explicit ToyModel(const ToyShape& shape) : shape_(shape) {
    if (shape.window_tokens > 0) {
      lower_ = add_window("lower");
      upper_ = add_window("upper");
    }
    for (const int tokens : shape.latents) {
      latents_.push_back({.rows = add_latents("latent", tokens),
                          .open = tokens > 1 ? add_open("open", 0) : PlaneId(),
                          .tokens = tokens});
    }
    if (shape.kept_in_latents) {
      const PlaneId kept = add_latents("kept", kBlockTokens);
      last_ = add_open("last", 0);
      layout_[last_].kept_in = kept;
    } else if (shape.carries_token) {
      last_ = add_open("last", sizeof(Word));
    }
  }

  const ToyShape& shape() const { return shape_; }
  const CacheLayout& layout() const { return layout_; }

  // The span's rows, in order; returns the output of each.
  std::vector<Word> forward(const BatchSpan& span, std::span<const TokenId> tokens, const CacheView& cache) const {
    const std::byte* in = cache.state(span.state_in);
    std::vector<std::byte> open(in, in + layout_.open_bytes());
    std::vector<Word> out;
    for (int i = 0; i < span.rows; ++i) {
      out.push_back(row(span, span.first_position + i, tokens[static_cast<std::size_t>(i)], open.data(), cache));
      const std::int32_t after = span.state_after(i);
      if (after >= 0) std::copy(open.begin(), open.end(), cache.state(after));
    }
    return out;
  }

 private:
  struct Latent {
    PlaneId rows, open;
    int tokens;
  };

  static RowFormat format() {
    return {.codec = RowCodec::kF32, .dims = 2, .rope_dims = 0, .data_bytes = sizeof(Word), .scale_bytes = 0};
  }
  PlaneId add_latents(const char* name, int tokens) {
    return layout_.add(
        {.kind = PlaneKind::kLatent, .name = name, .tokens_per_row = tokens, .format = format(), .initial = {}});
  }
  PlaneId add_window(const char* name) {
    return layout_.add({.kind = PlaneKind::kWindow,
                        .name = name,
                        .window_tokens = shape_.window_tokens,
                        .format = format(),
                        .initial = {}});
  }
  PlaneId add_open(const char* name, int boundary_bytes) {
    return layout_.add({.kind = PlaneKind::kOpen,
                        .name = name,
                        .format = {},
                        .initial = std::vector<std::byte>(sizeof(Word), std::byte{0x33}),
                        .boundary_bytes = boundary_bytes});
  }

  static Word mix(Word a, Word b) {
    Word x = (a ^ (b + 0x9E3779B97F4A7C15U + (a << 6) + (a >> 2))) * 0xBF58476D1CE4E5B9U;
    return x ^ (x >> 31);
  }
  static Word load(const std::byte* from) {
    Word w = 0;
    std::memcpy(&w, from, sizeof(w));
    return w;
  }
  static void store(std::byte* to, Word w) { std::memcpy(to, &w, sizeof(w)); }

  static WindowPage page_of(const BatchSpan& span, Position p) {
    return span.window_pages[static_cast<std::size_t>(p / kBlockTokens - span.first_window_block)];
  }
  static std::byte* window_row(const BatchSpan& span, const PlaneView& plane, Position p) {
    return plane.row(page_of(span, p).value, p % kBlockTokens).data;
  }
  static std::byte* latent_row(const BatchSpan& span, const PlaneView& plane, int entry) {
    return plane
        .row(span.latent_pages[static_cast<std::size_t>(entry / plane.rows_per_page)].value,
             entry % plane.rows_per_page)
        .data;
  }

  // The latent entries that are closed after `tokens` tokens.
  Word see_latents(const BatchSpan& span, Position tokens, Word x, const CacheView& cache) const {
    for (const Latent& l : latents_) {
      for (int e = 0; e < tokens / l.tokens; ++e) x = mix(x, load(latent_row(span, cache[l.rows], e)));
    }
    return x;
  }
  // The window of the row at p.
  Word see_window(const BatchSpan& span, Position p, Word x, PlaneId window, const CacheView& cache) const {
    for (Position k = std::max(0, p - shape_.window_tokens + 1); window && k <= p; ++k) {
      x = mix(x, load(window_row(span, cache[window], k)));
    }
    return x;
  }

  Word row(const BatchSpan& span, Position p, TokenId token, std::byte* open, const CacheView& cache) const {
    Word x = mix(static_cast<Word>(token), static_cast<Word>(p));
    std::byte* last = last_ ? open + cache.open_offset(last_) : nullptr;
    if (last != nullptr) x = mix(x, load(last));
    if (lower_) store(window_row(span, cache[lower_], p), x);
    x = see_window(span, p, see_latents(span, p, x, cache), lower_, cache);
    if (upper_) store(window_row(span, cache[upper_], p), x);
    for (const Latent& l : latents_) {
      std::byte* sum = l.open ? open + cache.open_offset(l.open) : nullptr;
      const Word value = sum != nullptr ? mix(load(sum), x) : x;
      const bool closes = (p + 1) % l.tokens == 0;
      if (closes && p >= span.latents_from) store(latent_row(span, cache[l.rows], p / l.tokens), value);
      if (sum == nullptr) continue;
      closes ? static_cast<void>(std::memset(sum, 0x33, sizeof(Word))) : store(sum, value);
    }
    if (last != nullptr) {
      store(last, static_cast<Word>(token));
      if ((p + 1) % kBlockTokens == 0) {
        const PlaneId kept = layout_[last_].kept_in;
        if (kept && p >= span.latents_from) {
          store(latent_row(span, cache[kept], p / kBlockTokens), static_cast<Word>(token));
        }
        if (!kept) store(cache.boundary(last_, page_of(span, p)), static_cast<Word>(token));
      }
    }
    return see_window(span, p, see_latents(span, p + 1, x, cache), upper_, cache);
  }

  ToyShape shape_;
  CacheLayout layout_;
  PlaneId lower_, upper_, last_;
  std::vector<Latent> latents_;
};

}  // namespace sluice
