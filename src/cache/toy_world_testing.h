// ToyWorld: pools, a prefix cache and sequences for tests, in which a ToyModel computes. Every output is compared with
// that of the same tokens alone in one piece, and every page is audited. The pools are in the memory of a device that
// runs late and that only the model may touch.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cache/audit.h"
#include "cache/prefix_cache.h"
#include "cache/sequence_state.h"
#include "cache/toy_model_testing.h"
#include "kernels/device/deferred_device_testing.h"

namespace sluice {

// `n` tokens that depend on `story` alone: two lists of one story agree as far as both go.
inline std::vector<TokenId> toy_tokens(int story, int n) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < n; ++i) tokens.push_back(story * 1000 + i % 997);
  return tokens;
}

// The tokens up to `from`, then others, which the story says.
inline std::vector<TokenId> diverging(std::vector<TokenId> tokens, int from, int story) {
  for (std::size_t i = static_cast<std::size_t>(from); i < tokens.size(); ++i) {
    tokens[i] = story * 1000 + static_cast<TokenId>(i);
  }
  return tokens;
}

class ToyWorld {
 public:
  struct Size {
    int latent_pages = 40, window_pages = 40, sequences = 4, drafts = 0;
  };

  ToyWorld(const ToyShape& shape, const Size& size, PrefixCacheOptions options = {}) : model_(shape) {
    MemoryPlan plan{.sequences = size.sequences, .latent_pages = size.latent_pages, .window_pages = size.window_pages};
    plan.open_states = 2 + size.drafts;
    plan.open_bytes = static_cast<std::size_t>((size.sequences + 1) * plan.open_states) * model_.layout().open_bytes();
    pools_ = std::move(CachePools::create(device_, model_.layout(), plan)).value();
    options.digests = true;
    cache_ = std::make_unique<PrefixCache>(pools_.get(), options);
    states_ = std::vector<SequenceState>(static_cast<std::size_t>(size.sequences));
  }
  ToyWorld(const ToyShape& shape) : ToyWorld(shape, Size()) {}
  ~ToyWorld() {
    for (SequenceState& state : states_) state.close();
  }

  const ToyModel& model() const { return model_; }
  DeferredDevice& device() { return device_; }
  CachePools& pools() { return *pools_; }
  PrefixCache& cache() { return *cache_; }
  SequenceState& operator[](std::size_t i) { return states_[i]; }
  std::size_t sequences() const { return states_.size(); }

  static BlockChain chain(std::span<const TokenId> tokens, const std::string& salt = "") {
    BlockChain chain(root_hash("toy", salt));
    chain.extend(tokens);
    return chain;
  }
  // The chain with the blocks to keep that follow from a prompt of all these tokens.
  BlockChain prompt_chain(std::span<const TokenId> tokens, const std::string& salt = "",
                          const std::vector<Position>& message_starts = {}) const {
    BlockChain named = chain(tokens, salt);
    named.set_kept_blocks(blocks_to_keep(cache_->retention(), static_cast<int>(tokens.size()), message_starts));
    return named;
  }

  void open(std::size_t i) { states_[i].open(pools_.get(), pools_->slots().allocate()); }
  void fork(std::size_t from, std::size_t to) { states_[to].fork(states_[from], pools_->slots().allocate()); }

  // Opens sequence i with what is cached of the tokens.
  PrefixHit start(std::size_t i, const BlockChain& chain, int known) {
    const PrefixHit hit = cache_->lookup(chain, known);
    open(i);
    states_[i].resume(chain, hit);
    return hit;
  }

  // Computes the next `rows` of the sequence's tokens, and says whether there was room. Inserts under `chain`, when
  // given.
  bool compute(std::size_t i, std::span<const TokenId> tokens, int rows, const BlockChain* chain) {
    if (!states_[i].reserve(rows)) return false;
    compare(i, tokens);
    states_[i].commit(states_[i].reserved_rows(), chain != nullptr ? cache_.get() : nullptr, chain);
    expect_sound();
    return true;
  }
  // Does the same with drafts after the rows: the first `right` drafts stay, the others are wrong tokens.
  bool compute_drafts(std::size_t i, std::span<const TokenId> tokens, int rows, int drafts, int right,
                      const BlockChain* chain) {
    if (!states_[i].reserve(rows + drafts, drafts)) return false;
    std::vector<TokenId> guessed(tokens.begin(), tokens.end());
    const auto wrong = static_cast<std::size_t>(states_[i].position() + rows + right);
    guessed.resize(static_cast<std::size_t>(states_[i].position() + rows + drafts), 0);
    for (std::size_t t = wrong; t < guessed.size(); ++t) guessed[t] = -7;
    compare(i, tokens, guessed);
    states_[i].commit(rows + right, chain != nullptr ? cache_.get() : nullptr, chain);
    expect_sound();
    return true;
  }
  // Computes them in vain.
  bool compute_in_vain(std::size_t i, std::span<const TokenId> tokens, int rows) {
    if (!states_[i].reserve(rows)) return false;
    static_cast<void>(forward(i, tokens));
    states_[i].discard();
    return true;
  }
  // start(), the whole of the tokens, and close(): a request from its arrival to its end.
  PrefixHit serve(std::span<const TokenId> tokens, const BlockChain& chain, bool keep_last = false) {
    const PrefixHit hit = start(0, chain, static_cast<int>(tokens.size()));
    const int rest = static_cast<int>(tokens.size()) - states_[0].position();
    EXPECT_TRUE(compute(0, tokens, rest, &chain));
    end(0, keep_last ? &chain : nullptr);
    return hit;
  }
  void end(std::size_t i, const BlockChain* keep_last = nullptr) {
    if (keep_last != nullptr) states_[i].keep_last_boundary(*cache_, *keep_last);
    states_[i].close();
    expect_sound();
  }

  Status check() const { return audit(*pools_, states_, cache_.get(), 1000); }
  void expect_sound() const { EXPECT_TRUE(check().ok()) << check().message(); }

  // The outputs of the rows that sequence i has reserved, of the tokens.
  std::vector<ToyModel::Word> forward(std::size_t i, std::span<const TokenId> tokens) {
    const BatchSpan span = states_[i].span();
    std::vector<ToyModel::Word> out;
    device_.enqueue([&] {
      out = model_.forward(
          span, tokens.subspan(static_cast<std::size_t>(span.first_position), static_cast<std::size_t>(span.rows)),
          pools_->view());
    });
    device_.wait();
    return out;
  }

 private:
  void compare(std::size_t i, std::span<const TokenId> tokens) { compare(i, tokens, tokens); }
  // Compares the outputs of the rows of `computed` before the first that differs from `tokens`.
  void compare(std::size_t i, std::span<const TokenId> tokens, std::span<const TokenId> computed) {
    const std::vector<ToyModel::Word> out = forward(i, computed);
    const std::vector<ToyModel::Word>& expected = alone(tokens);
    const auto first = static_cast<std::size_t>(states_[i].position());
    for (std::size_t row = 0; row < out.size() && first + row < tokens.size(); ++row) {
      if (computed[first + row] != tokens[first + row]) return;
      if (out[row] == expected[first + row]) continue;
      ADD_FAILURE() << model_.shape().name << ": sequence " << i << ": the output at position " << first + row
                    << " is not that of the tokens alone";
      return;
    }
  }
  // The outputs of the tokens in one piece, with pages of their own.
  const std::vector<ToyModel::Word>& alone(std::span<const TokenId> tokens) {
    std::vector<TokenId> key(tokens.begin(), tokens.end());
    const auto found = alone_.find(key);
    if (found != alone_.end()) return found->second;
    const int pages = blocks_for(static_cast<std::int64_t>(key.size()));
    std::vector<LatentPage> latents;
    std::vector<WindowPage> windows;
    CacheView view;
    std::vector<std::vector<std::byte>> memory;
    for (const PlaneSpec& plane : model_.layout().planes) {
      memory.emplace_back(plane.page_bytes() * static_cast<std::size_t>(pages));
      view.planes.push_back(plane.view(memory.back().data()));
      view.open_offsets.push_back(model_.layout().open_offset(PlaneId(static_cast<int>(view.planes.size()) - 1)));
    }
    for (int page = 0; page < pages; ++page) {
      latents.emplace_back(page);
      windows.emplace_back(page);
    }
    std::vector<std::byte> states = model_.layout().initial_state();
    view.open_stride = states.size();
    states.resize(2 * states.size());
    view.open_base = states.data();
    const BatchSpan span{.rows = static_cast<int>(key.size()), .latent_pages = latents, .window_pages = windows};
    std::vector<ToyModel::Word> outputs = model_.forward(span, tokens, view);
    return alone_[std::move(key)] = std::move(outputs);
  }

  ToyModel model_;
  DeferredDevice device_;
  std::unique_ptr<CachePools> pools_;
  std::unique_ptr<PrefixCache> cache_;
  std::vector<SequenceState> states_;
  std::map<std::vector<TokenId>, std::vector<ToyModel::Word>> alone_;
};

}  // namespace sluice
