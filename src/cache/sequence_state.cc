#include "cache/sequence_state.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace sluice {

void SequenceState::open(CachePools* pools, StateSlot slot) {
  SLUICE_CHECK(!is_open() && slot, "a sequence state is opened once, with a slot of its own");
  pools_ = pools;
  slot_ = slot;
  committed_copy_ = 0;
  position_ = 0;
  reserved_ = 0;
  first_window_block_ = 0;
  std::byte* state = pools->open_state(slot, 0);
  const CacheLayout& layout = pools->layout();
  for (std::size_t i = 0; i < layout.streams.size(); ++i) {
    const std::vector<std::byte>& initial = layout.streams[i].initial;
    if (!initial.empty()) {
      std::memcpy(state + layout.open_offset(StreamId(static_cast<std::int32_t>(i))), initial.data(), initial.size());
    }
  }
}

void SequenceState::close() {
  if (!is_open()) return;
  position_ = 0;
  free_tail(0);
  pools_->slots().release(slot_);
  slot_ = {};
  pools_ = nullptr;
}

bool SequenceState::reserve(int rows) {
  SLUICE_CHECK(is_open() && reserved_ == 0 && rows >= 1, "a reservation needs an open sequence without one");
  const PageGeometry& geometry = pools_->geometry();
  const auto latents = static_cast<std::size_t>(geometry.latent_pages(position_ + rows));
  const auto windows = static_cast<std::size_t>(geometry.window_pages(position_, rows));
  if (latents > latent_pages_.size() + static_cast<std::size_t>(pools_->latents().free()) ||
      windows > window_pages_.size() + static_cast<std::size_t>(pools_->windows().free())) {
    return false;
  }
  while (latent_pages_.size() < latents) latent_pages_.push_back(pools_->latents().allocate());
  while (window_pages_.size() < windows) window_pages_.push_back(pools_->windows().allocate());
  reserved_ = rows;
  return true;
}

BatchSpan SequenceState::span(int row_begin) const {
  SLUICE_CHECK(reserved_ > 0, "a span needs a reservation");
  return {.row_begin = row_begin,
          .rows = reserved_,
          .first_position = position_,
          .latents_from = position_,
          .latent_pages = latent_pages_.data(),
          .window_pages = window_pages_.data(),
          .first_window_block = first_window_block_,
          .open_in = pools_->open_state(slot_, committed_copy_),
          .open_out = pools_->open_state(slot_, 1 - committed_copy_)};
}

void SequenceState::commit() {
  SLUICE_CHECK(reserved_ > 0, "a commit needs a reservation");
  position_ += reserved_;
  reserved_ = 0;
  committed_copy_ = 1 - committed_copy_;
  const std::int32_t first = pools_->geometry().first_window_block(position_);
  const auto passed = std::min(static_cast<std::size_t>(first - first_window_block_), window_pages_.size());
  for (std::size_t i = 0; i < passed; ++i) pools_->windows().release(window_pages_[i]);
  window_pages_.erase(window_pages_.begin(), window_pages_.begin() + static_cast<std::ptrdiff_t>(passed));
  first_window_block_ = first;
}

void SequenceState::discard() {
  SLUICE_CHECK(reserved_ > 0, "there is nothing to discard");
  reserved_ = 0;
  free_tail(position_);
}

// Leaves the pages of positions below `end`.
void SequenceState::free_tail(Position end) {
  const PageGeometry& geometry = pools_->geometry();
  const auto latents = static_cast<std::size_t>(geometry.latent_pages(end));
  const auto windows =
      static_cast<std::size_t>(geometry.has_windows ? std::max(0, blocks_for(end) - first_window_block_) : 0);
  while (latent_pages_.size() > latents) {
    pools_->latents().release(latent_pages_.back());
    latent_pages_.pop_back();
  }
  while (window_pages_.size() > windows) {
    pools_->windows().release(window_pages_.back());
    window_pages_.pop_back();
  }
}

}  // namespace sluice
