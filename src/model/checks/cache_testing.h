// A cache for tests of the model layer: pages in shuffled order, no pools, no scheduler.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "model/batch.h"
#include "model/model.h"

namespace sluice {

// Memory of `pages` pages of each pool, handed out once each in random order; every byte 0xFF (NaN in every codec)
// until it is written. Pages are never given back.
class TestPages {
 public:
  TestPages(const CacheLayout& layout, int pages, unsigned seed);

  const CacheLayout& layout() const { return layout_; }
  const CacheView& view() const { return view_; }
  LatentPage take_latent();
  WindowPage take_window();
  // The bytes of a plane's part of a page.
  std::span<std::byte> bytes(PlaneId id, std::int32_t page) const;
  // The open state after the block of these pages, all tokens of which have been computed.
  std::vector<std::byte> boundary_state(LatentPage latents, WindowPage windows) const;

 private:
  const CacheLayout& layout_;
  CacheView view_;
  std::vector<std::vector<std::byte>> memory_;  // by plane
  std::vector<LatentPage> free_latents_;
  std::vector<WindowPage> free_windows_;
};

// Prepares the model on the CPU for steps of `rows` rows.
void prepare_for(Model& model, int rows);

class TestSequence {
 public:
  // Makes an empty sequence, with pages of its own or with pages of `pages`, which must outlive it.
  TestSequence(const CacheLayout& layout, int max_tokens, unsigned seed = 1);
  TestSequence(TestPages* pages, int max_tokens);

  // Continues `donor` after `blocks` whole blocks, from pages alone: latent pages 0..shared - 1 are the donor's
  // (shared >= blocks: those from `blocks` on are read, not written), and so are the window pages needed to resume.
  static TestSequence resumed(const TestSequence& donor, int blocks, int shared, int max_tokens);

  // Runs the next rows through the model; returns logits [wanted rows, vocab] of the given row offsets in `ids`.
  std::vector<float> run(Model& model, const Exec& exec, std::span<const TokenId> ids, std::span<const int> wanted,
                         const Observer* observer = nullptr);
  // Drafts after the newest token ids[0], in slots that later rows use again. Row d of the logits [ids, vocab] is the
  // guess at the token after ids[d]; only the last guess has no given token.
  std::vector<float> draft(Model& model, const Exec& exec, std::span<const TokenId> ids,
                           const Observer* observer = nullptr);
  BatchSpan next_rows(int rows) const;
  Position position() const { return position_; }

  TestPages& pages() const { return *pages_; }
  LatentPage latent_page(int block) const { return latent_pages_[static_cast<std::size_t>(block)]; }
  WindowPage window_page(int block) const {
    return window_pages_[static_cast<std::size_t>(block - first_window_block_)];
  }
  const std::vector<std::byte>& open_state() const { return open_; }

 private:
  void take_pages(int max_tokens);

  std::shared_ptr<TestPages> pages_;
  std::vector<LatentPage> latent_pages_;
  std::vector<WindowPage> window_pages_;  // [block - first_window_block_]
  std::int32_t first_window_block_ = 0;
  std::vector<std::byte> open_;
  Position position_ = 0, latents_from_ = 0;
};

// Logits after every token of `wanted` positions, for the prompt cut in chunks of `chunk` rows.
std::vector<float> run_prompt(Model& model, const Exec& exec, std::span<const TokenId> ids, std::span<const int> wanted,
                              int chunk, const Observer* observer = nullptr);

}  // namespace sluice
