#include "model/cache_testing.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

namespace sluice {

TestSequence::TestSequence(const CacheLayout& layout, int max_tokens, unsigned seed) {
  const int blocks = (max_tokens + kBlockTokens - 1) / kBlockTokens;
  std::mt19937 random(seed);
  std::vector<std::int32_t> order(static_cast<std::size_t>(blocks));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  for (const auto page : order) latent_pages_.emplace_back(page);
  std::shuffle(order.begin(), order.end(), random);
  for (const auto page : order) window_pages_.emplace_back(page);

  open_.resize(layout.open_bytes());
  scratch_.resize(layout.open_bytes());
  for (std::size_t i = 0; i < layout.streams.size(); ++i) {
    const StreamSpec& spec = layout.streams[i];
    const StreamId id(static_cast<std::int32_t>(i));
    view_.open_offsets.push_back(layout.open_offset(id));
    if (spec.kind == StreamKind::kOpen) {
      view_.streams.emplace_back();
      std::memcpy(open_.data() + layout.open_offset(id), spec.initial.data(), spec.initial.size());
      continue;
    }
    memory_.emplace_back(spec.page_bytes() * static_cast<std::size_t>(blocks), std::byte{0xFF});  // NaN until written
    view_.streams.push_back({memory_.back().data(), spec.page_bytes(), spec.rows_per_page(), spec.format});
  }
}

std::vector<float> TestSequence::run(Model& model, const Exec& exec, std::span<const TokenId> ids,
                                     std::span<const int> wanted, const Probe* probe) {
  BatchSpan span;
  span.rows = static_cast<int>(ids.size());
  span.first_position = position_;
  span.latent_pages = latent_pages_.data();
  span.window_pages = window_pages_.data();
  span.open_in = open_.data();
  span.open_out = scratch_.data();
  std::vector<Position> positions(ids.size());
  std::iota(positions.begin(), positions.end(), position_);
  std::vector<float> logits(wanted.size() * static_cast<std::size_t>(model.config().vocab_size));
  model.forward(exec, {ids, positions, {&span, 1}, wanted}, view_, logits.data(), probe);
  std::swap(open_, scratch_);
  position_ += span.rows;
  return logits;
}

std::vector<float> run_prompt(Model& model, const Exec& exec, std::span<const TokenId> ids, std::span<const int> wanted,
                              int chunk, const Probe* probe) {
  TestSequence sequence(model.cache_layout(), static_cast<int>(ids.size()) + 1);
  std::vector<float> all;
  for (int begin = 0; begin < static_cast<int>(ids.size()); begin += chunk) {
    const int rows = std::min(chunk, static_cast<int>(ids.size()) - begin);
    std::vector<int> rows_wanted;
    for (const int position : wanted) {
      if (position >= begin && position < begin + rows) rows_wanted.push_back(position - begin);
    }
    const auto part = sequence.run(
        model, exec, ids.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(rows)), rows_wanted, probe);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace sluice
