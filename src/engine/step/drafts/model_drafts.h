// ModelDrafts: tokens that a model guesses behind the newest ones of some sequences (model/drafter.h), drawn with the
// parameters and the noise of the tokens that they are guesses at: a draft is right when both draws agree, and with the
// same noise they do so most often (kernels/ops/sample.h). A device keeps them in slots, from where the pass over these
// rows takes them (take_ids()); the host need not wait for them. Owns the memory that this takes. Thread safety: one
// thread at a time.
#pragma once

#include <span>
#include <vector>

#include "kernels/device/device_tables.h"
#include "kernels/ops/sample.h"
#include "model/drafter.h"
#include "sluice/sampling.h"

namespace sluice {

struct DraftRequest {
  BatchSpan span;       // reserved: of the newest token and the drafts
  int drafts = 0;       // at least one
  TokenId newest = -1;  // known
  const SamplingParams* sampling = nullptr;
};

class ModelDrafts {
 public:
  // For so many sequences at once, with so many drafts each: that takes slots() slots. kResourceExhausted if the device
  // lacks the memory.
  Status reserve(Device& device, const TableShape& shape, int sequences, int drafts, std::size_t pages);
  static int slots(int sequences, int drafts) { return sequences * (1 + drafts); }
  // Enqueues it. logits: [requests, vocab], of the device; tokens: the slots are those from `first_slot` on.
  void make(const Exec& exec, Model& model, const CacheView& cache, std::span<const DraftRequest> requests,
            float* logits, TokenId* tokens, std::int32_t first_slot);
  // Of the last make(), request i: the slot of its first draft, those of the others follow it,
  std::int32_t slot(std::size_t request) const { return first_slot_ + static_cast<std::int32_t>(request) * slots_ + 1; }
  // and the tokens, for which it waits.
  std::span<const TokenId> of(std::size_t request);

 private:
  void prepare(std::span<const DraftRequest> requests);
  void draw(const Exec& exec, std::span<const int> rows, int vocab, const float* logits, TokenId* tokens);
  void finish();

  Device* device_ = nullptr;
  int slots_ = 0;  // of a sequence: its newest token's and its drafts'
  std::int32_t first_slot_ = 0;
  std::vector<Drafter> drafter_;  // one, once reserved
  DeviceTables tables_;           // unused on the CPU
  DeviceMemory params_, sampled_;
  std::vector<SampleRow> rows_;  // of the first drafts, the second ones, ...
  std::size_t drawn_rows_ = 0;
  std::vector<SampledRow> drawn_;           // the CPU's
  std::vector<int> order_, counts_;         // of the requests, those with most drafts first; drafts of a request
  std::vector<DraftedSequence> sequences_;  // in that order
  std::vector<TokenId> host_tokens_;
  Device::Mark mark_ = 0;
  bool arriving_ = false;
};

}  // namespace sluice
