// A cache of one sequence for tests of the model layer: pages in shuffled order, no pools, no scheduler.
#pragma once

#include <span>
#include <vector>

#include "model/batch.h"
#include "model/model.h"

namespace sluice {

class TestSequence {
 public:
  TestSequence(const CacheLayout& layout, int max_tokens, unsigned seed = 1);

  // Runs the next rows through the model; returns logits [wanted rows, vocab] of the given row offsets in `ids`.
  std::vector<float> run(Model& model, const Exec& exec, std::span<const TokenId> ids, std::span<const int> wanted,
                         const Probe* probe = nullptr);
  Position position() const { return position_; }

 private:
  CacheView view_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<LatentPage> latent_pages_;
  std::vector<WindowPage> window_pages_;
  std::vector<std::byte> open_, scratch_;
  Position position_ = 0;
};

// Logits after every token of `wanted` positions, for the prompt cut in chunks of `chunk` rows.
std::vector<float> run_prompt(Model& model, const Exec& exec, std::span<const TokenId> ids, std::span<const int> wanted,
                              int chunk, const Probe* probe = nullptr);

}  // namespace sluice
