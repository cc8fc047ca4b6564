// Used by audit.h and engine/runner/open_sequences.h.
#include "cache/sequence_state.h"

#include <algorithm>

#include "base/check.h"

namespace sluice {

void SequenceState::open(CachePools* pools, StateSlot slot) {
  SLUICE_CHECK(!is_open() && slot, "a sequence state is opened once, with a slot of its own");
  pools_ = pools;
  slot_ = slot;
  committed_copy_ = 0;
  position_ = shared_ = latents_end_ = 0;
  reserved_ = 0;
  first_window_block_ = 0;
  pools->memory().write_initial_state(committed());
}

void SequenceState::fork(const SequenceState& other, StateSlot slot) {
  SLUICE_CHECK(other.is_open() && other.reserved_ == 0, "a sequence is forked between steps");
  open(other.pools_, slot);
  position_ = other.position_;
  shared_ = other.shared_;
  latents_end_ = other.latents_end_;
  first_window_block_ = other.first_window_block_;
  latent_pages_ = other.latent_pages_;
  window_pages_ = other.window_pages_;
  for (const LatentPage page : latent_pages_) pools_->latents().share(page);
  for (const WindowPage page : window_pages_) pools_->windows().share(page);
  pools_->memory().copy_state(other.committed(), committed());
  truncate(position_);
}

void SequenceState::close() {
  if (!is_open()) return;
  if (fault_leak && !latent_pages_.empty()) pools_->latents().share(latent_pages_.front());
  position_ = 0;
  occupied_ = 0;
  free_tail(0);
  pools_->slots().release(slot_);
  slot_ = {};
  pools_ = nullptr;
}

void SequenceState::resume(const BlockChain& chain, const PrefixHit& hit) {
  SLUICE_CHECK(is_open() && position_ == 0 && reserved_ == 0, "only an empty sequence resumes");
  const PageGeometry& geometry = pools_->geometry();
  position_ = hit.resume;
  shared_ = hit.shared;
  first_window_block_ = geometry.first_window_block(position_);
  for (int b = 0; geometry.has_latents && b < hit.shared / kBlockTokens; ++b) {
    latent_pages_.push_back(pools_->latents().find(chain[b]));
    pools_->latents().claim(latent_pages_.back());
  }
  for (int b = first_window_block_; geometry.has_windows && b < hit.resume / kBlockTokens; ++b) {
    window_pages_.push_back(pools_->windows().find(chain[b]));
    pools_->windows().claim(window_pages_.back());
  }
  take_boundary_state();
}

// Copies the open state at position(), the end of a block, from its pages.
void SequenceState::take_boundary_state() {
  if (position_ == 0) return pools_->memory().write_initial_state(committed());
  const auto last = static_cast<std::size_t>(position_ / kBlockTokens - 1);
  pools_->memory().write_boundary_state(latent_pages_.empty() ? LatentPage() : latent_pages_[last],
                                        window_pages_.empty() ? WindowPage() : window_pages_.back(), committed());
}

// Counts the pages to copy: the last page of either kind, if it would be written while it is another's too, or
// inserted.
bool SequenceState::copy_on_write(int* latents, int* windows) const {
  *latents = *windows = 0;
  if (position_ % kBlockTokens == 0) return false;
  const auto taken = [](const auto& pool, auto page) { return pool.owners(page) > 1 || pool.inserted(page); };
  if (position_ >= shared_ && !latent_pages_.empty()) *latents = taken(pools_->latents(), latent_pages_.back());
  if (!window_pages_.empty()) *windows = taken(pools_->windows(), window_pages_.back());
  return *latents + *windows > 0;
}

bool SequenceState::reserve(int rows, int drafts) {
  SLUICE_CHECK(is_open() && reserved_ == 0, "a reservation needs an open sequence without one");
  SLUICE_CHECK(drafts >= 0 && rows > drafts && drafts <= pools_->plan().open_states - 2,
               "a row at least, and an open state for each draft");
  const PageGeometry& geometry = pools_->geometry();
  const auto latents = static_cast<std::size_t>(
      std::max<Position>(geometry.latent_pages(position_ + rows), static_cast<Position>(latent_pages_.size())));
  const auto windows = static_cast<std::size_t>(geometry.window_pages(position_, rows));
  int latent_copies = 0, window_copies = 0;
  copy_on_write(&latent_copies, &window_copies);
  if (latents + static_cast<std::size_t>(latent_copies) >
          latent_pages_.size() + static_cast<std::size_t>(pools_->latents().free()) ||
      windows + static_cast<std::size_t>(window_copies) >
          window_pages_.size() + static_cast<std::size_t>(pools_->windows().free())) {
    return false;
  }
  if (latent_copies + window_copies > 0) copy_shared_tail();
  while (latent_pages_.size() < latents) latent_pages_.push_back(pools_->latents().allocate());
  while (window_pages_.size() < windows) window_pages_.push_back(pools_->windows().allocate());
  reserved_ = rows;
  drafts_ = drafts;
  return true;
}

void SequenceState::copy_shared_tail() {
  int latents = 0, windows = 0;
  copy_on_write(&latents, &windows);
  if (latents > 0) {
    const LatentPage copy = pools_->latents().allocate();
    pools_->memory().copy_page(latent_pages_.back(), copy);
    pools_->latents().release(latent_pages_.back());
    latent_pages_.back() = copy;
    latents_end_ = position_;
  }
  if (windows > 0) {
    const WindowPage copy = pools_->windows().allocate();
    pools_->memory().copy_page(window_pages_.back(), copy);
    pools_->windows().release(window_pages_.back());
    window_pages_.back() = copy;
  }
}

BatchSpan SequenceState::span() const {
  SLUICE_CHECK(reserved_ > 0, "a span needs a reservation");
  return {.rows = reserved_,
          .first_position = position_,
          .latents_from = std::max(position_, shared_),
          .latent_pages = latent_pages_,
          .window_pages = window_pages_,
          .first_window_block = first_window_block_,
          .state_in = committed().value,
          .first_state = pools_->state_of(slot_, 0).value,
          .states = pools_->plan().open_states,
          .drafts = drafts_};
}

void SequenceState::commit(int rows, PrefixCache* cache, const BlockChain* chain) {
  SLUICE_CHECK(rows > 0 && rows <= reserved_ && rows >= reserved_ - drafts_, "only drafts are rejected");
  const BatchSpan span = this->span();
  const Fault fault = cache != nullptr ? cache->fault() : Fault::kNone;
  const int before = position_ / kBlockTokens, all = position_ + reserved_;
  position_ += rows;
  latents_end_ = position_;
  const int last = fault == Fault::kStateOfDrafts ? reserved_ - 1 : rows - 1;
  committed_copy_ = span.state_after(last) - span.first_state;
  reserved_ = drafts_ = 0;
  if (cache != nullptr && cache->enabled()) {
    int end = position_ / kBlockTokens;
    if (fault == Fault::kEarlyInsertion) end = std::min(blocks_for(position_), chain->blocks());
    if (fault == Fault::kInsertedDrafts) end = std::min(all / kBlockTokens, chain->blocks());
    insert(*cache, *chain, before, end);
  }
  if (position_ < all) free_tail(std::max(position_, shared_));
  leave_windows_before(pools_->geometry().first_window_block(position_));
}

void SequenceState::insert(PrefixCache& cache, const BlockChain& chain, int begin, int end) {
  SLUICE_CHECK(end <= chain.blocks(), "a block is inserted under its name");
  for (int b = begin; b < end; ++b) {
    const auto block = static_cast<std::size_t>(b);
    if (!latent_pages_.empty()) latent_pages_[block] = cache.insert(latent_pages_[block], chain, b);
    if (b >= first_window_block_ && !window_pages_.empty()) {
      WindowPage& page = window_pages_[block - static_cast<std::size_t>(first_window_block_)];
      page = cache.insert(page, chain, b);
    }
  }
}

void SequenceState::leave_windows_before(std::int32_t block) {
  const auto passed =
      std::min(static_cast<std::size_t>(std::max(0, block - first_window_block_)), window_pages_.size());
  for (std::size_t i = 0; i < passed; ++i) pools_->windows().release(window_pages_[i]);
  window_pages_.erase(window_pages_.begin(), window_pages_.begin() + static_cast<std::ptrdiff_t>(passed));
  first_window_block_ = std::max(first_window_block_, block);
}

void SequenceState::discard() {
  SLUICE_CHECK(reserved_ > 0, "there is nothing to discard");
  reserved_ = drafts_ = 0;
  free_tail(std::max(position_, shared_));
}

// Releases the latent pages from position `end` on and the window pages from position() on.
void SequenceState::free_tail(Position end) {
  const PageGeometry& geometry = pools_->geometry();
  const auto latents = static_cast<std::size_t>(geometry.latent_pages(end));
  const auto windows =
      static_cast<std::size_t>(geometry.has_windows ? std::max(0, blocks_for(position_) - first_window_block_) : 0);
  while (latent_pages_.size() > latents) {
    pools_->latents().release(latent_pages_.back());
    latent_pages_.pop_back();
  }
  while (window_pages_.size() > windows) {
    pools_->windows().release(window_pages_.back());
    window_pages_.pop_back();
  }
}

Position SequenceState::truncate(Position p, const BlockChain* chain) {
  SLUICE_CHECK(is_open() && reserved_ == 0 && p >= 0, "a sequence is truncated between steps");
  if (p >= position_) {
    if (p < shared_) {  // drops shared latents of tokens that are gone
      latents_end_ = std::min(latents_end(), blocks_for(position_) * kBlockTokens);
      shared_ = std::max(position_, p / kBlockTokens * kBlockTokens);
      free_tail(shared_);
    }
    return position_;
  }
  const PageGeometry& geometry = pools_->geometry();
  const bool any_point = !geometry.has_windows && pools_->layout().open_bytes() == 0;
  int blocks = p / kBlockTokens;
  std::vector<WindowPage> windows;
  // Returns the last boundary whose window pages are held, or still cached.
  for (; !any_point && blocks > 0; --blocks) {
    windows.clear();
    for (int b = geometry.first_window_block(blocks * kBlockTokens); geometry.has_windows && b < blocks; ++b) {
      const int held = b - first_window_block_;
      WindowPage page = held >= 0 && held < static_cast<int>(window_pages_.size())
                            ? window_pages_[static_cast<std::size_t>(held)]
                            : WindowPage();
      if (!page && chain != nullptr && b < chain->blocks()) page = pools_->windows().find((*chain)[b]);
      if (!page) break;
      windows.push_back(page);
    }
    if (static_cast<int>(windows.size()) == blocks - geometry.first_window_block(blocks * kBlockTokens) ||
        !geometry.has_windows) {
      break;
    }
  }
  if (blocks == 0) windows.clear();
  for (const WindowPage page : windows) {
    pools_->windows().owners(page) > 0 ? pools_->windows().share(page) : pools_->windows().claim(page);
  }
  while (!window_pages_.empty()) {
    pools_->windows().release(window_pages_.back());
    window_pages_.pop_back();
  }
  window_pages_ = std::move(windows);
  const Position latents_end = this->latents_end();
  position_ = any_point ? p : blocks * kBlockTokens;
  latents_end_ = std::min(latents_end, blocks_for(position_) * kBlockTokens);
  shared_ = std::min(shared_, position_);
  first_window_block_ = geometry.first_window_block(position_);
  free_tail(position_);
  if (!any_point) take_boundary_state();
  return position_;
}

// Returns the latent pages of computed positions. Pages beyond these came from the prefix cache and can come from it
// again.
std::size_t SequenceState::computed_latent_pages() const {
  return static_cast<std::size_t>(pools_->geometry().latent_pages(position_));
}

std::size_t SequenceState::saved_bytes() const {
  return pools_->memory().image_bytes(computed_latent_pages(), window_pages_.size());
}

void SequenceState::save(std::span<std::byte> bytes) const {
  SLUICE_CHECK(is_open() && reserved_ == 0 && bytes.size() == saved_bytes(), "a sequence is saved between steps");
  const auto latents = std::span(latent_pages_).first(computed_latent_pages());
  pools_->memory().save(latents, window_pages_, committed(), bytes);
}

// Returns how many pages of blocks [begin, end) must come from the free ones. Pages of complete blocks may be cached.
template <class Page>
int SequenceState::free_pages_needed(const Pool<Page>& pool, std::span<const BlockHash> names, int begin, int end) {
  int needed = 0;
  for (int b = begin; b < end; ++b) {
    const auto block = static_cast<std::size_t>(b);
    const Page found = block < names.size() ? pool.find(names[block]) : Page();
    needed += !found || pool.owners(found) == 0;
  }
  return needed;
}

// Claims all cached pages before it allocates any, as allocating might evict them.
template <class Page>
void SequenceState::take_pages(Pool<Page>& pool, std::span<const BlockHash> names, int begin, int end,
                               std::vector<Page>* pages) {
  for (int b = begin; b < end; ++b) {
    const auto block = static_cast<std::size_t>(b);
    pages->push_back(block < names.size() ? pool.find(names[block]) : Page());
    if (pages->back()) pool.claim(pages->back());
  }
  for (Page& page : *pages) {
    if (!page) page = pool.allocate();
  }
}

bool SequenceState::restore(std::span<const std::byte> bytes, Position position, PrefixCache* cache,
                            const BlockChain* chain) {
  SLUICE_CHECK(is_open() && position_ == 0 && reserved_ == 0, "only an empty sequence is restored");
  const PageGeometry& geometry = pools_->geometry();
  const bool shares = cache != nullptr && cache->enabled();
  const int complete = position / kBlockTokens;
  SLUICE_CHECK(!shares || complete <= chain->blocks(), "a block is restored under its name");
  const auto names = shares ? chain->hashes().first(static_cast<std::size_t>(complete)) : std::span<const BlockHash>();
  const int first_window = geometry.first_window_block(position);
  const int latents = geometry.latent_pages(position);
  const int windows_end = geometry.has_windows ? blocks_for(position) : first_window;
  if (free_pages_needed(pools_->latents(), names, 0, latents) > pools_->latents().free() ||
      free_pages_needed(pools_->windows(), names, first_window, windows_end) > pools_->windows().free()) {
    return false;
  }
  take_pages(pools_->latents(), names, 0, latents, &latent_pages_);
  take_pages(pools_->windows(), names, first_window, windows_end, &window_pages_);
  first_window_block_ = first_window;
  position_ = position;
  SLUICE_CHECK(bytes.size() == saved_bytes(), "the bytes are those of a sequence at this position");
  const auto written = [](const auto& pool, auto pages) {  // skips inserted pages: they hold their rows
    for (auto& page : pages) {
      if (pool.inserted(page)) page = {};
    }
    return pages;
  };
  pools_->memory().restore(bytes, written(pools_->latents(), latent_pages_), written(pools_->windows(), window_pages_),
                           committed());
  if (shares) insert(*cache, *chain, 0, complete);
  return true;
}

void SequenceState::keep_last_boundary(PrefixCache& cache, const BlockChain& chain) const {
  for (int b = first_window_block_; b < position_ / kBlockTokens; ++b) cache.keep_window(chain, b);
}

void SequenceState::occupy(int latent_pages) {
  SLUICE_CHECK(is_open() && position_ == 0 && latent_pages_.empty(), "only an empty sequence occupies pages");
  occupied_ = std::min(latent_pages, pools_->latents().free());
  for (int i = 0; i < occupied_; ++i) latent_pages_.push_back(pools_->latents().allocate());
}

int SequenceState::exclusive_latent_pages() const {
  return static_cast<int>(std::count_if(latent_pages_.begin(), latent_pages_.end(),
                                        [this](LatentPage page) { return pools_->latents().owners(page) == 1; }));
}

}  // namespace sluice
