// ModelDrafts: tokens that a model guesses behind the newest ones of some sequences (model/drafter.h), drawn with the
// parameters and the noise of the tokens that they are guesses at: a draft is right when both draws agree, and with the
// same noise they do so most often (kernels/sample.h). Owns the memory that this takes. Thread safety: one thread at a
// time.
#pragma once

#include <span>
#include <vector>

#include "kernels/device_tables.h"
#include "kernels/sample.h"
#include "model/drafter.h"
#include "sluice/sampling.h"

namespace sluice {

struct DraftWish {
  BatchSpan span;       // reserved: of the newest token and the drafts
  int drafts = 0;       // at least one
  TokenId newest = -1;  // known
  const SamplingParams* sampling = nullptr;
};

class ModelDrafts {
 public:
  // For so many sequences at once, with so many drafts each. kResourceExhausted if the device lacks the memory.
  Status reserve(Device& device, const TableShape& shape, int sequences, int drafts, std::size_t pages);
  // logits: [wishes, vocab], of the device; `device_tables` as where forward passes have them.
  void make(const Exec& exec, Model& model, const CacheView& cache, std::span<const DraftWish> wishes, float* logits);
  // Of the last make(): those of wish i, which are there once the device is done with it.
  std::span<const TokenId> of(std::size_t wish) const;

 private:
  void draw(const Exec& exec, std::span<const DraftWish> wishes, int depth, std::span<const int> rows,
            const float* logits, std::size_t vocab);

  Device* device_ = nullptr;
  int slots_ = 0;                 // of a sequence: its newest token's and its drafts'
  std::vector<Drafter> drafter_;  // one, once reserved
  DeviceTables tables_;           // unused on the CPU
  DeviceMemory tokens_, params_, sampled_;
  std::vector<SampleRow> rows_;
  std::vector<SampledRow> drawn_;  // the CPU's
  std::vector<DraftedSequence> sequences_;
  std::vector<TokenId> host_tokens_;
};

}  // namespace sluice
