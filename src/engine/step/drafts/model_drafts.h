// ModelDrafts: tokens that a model guesses after the newest ones of some sequences (model/drafter.h). Each is drawn
// with the parameters and the noise of the token that it guesses. A draft is right if both draws agree, and with the
// same noise they do so most often (kernels/ops/sample.h). On a device the drafts stay in slots, from which the next
// pass's take_ids() reads them; the host need not wait for them. Owns their memory. Thread safety: none, one thread
// at a time.
// Used by engine/runner/runner.h.
#pragma once

#include <span>
#include <vector>

#include "kernels/device/device_tables.h"
#include "kernels/ops/sample.h"
#include "model/drafter.h"
#include "sluice/sampling.h"

namespace sluice {

struct DraftRequest {
  BatchSpan span;       // the reserved rows: one for the newest token, one for each draft
  int drafts = 0;       // at least one
  TokenId newest = -1;  // the newest token
  const SamplingParams* sampling = nullptr;
};

class ModelDrafts {
 public:
  // Reserves memory for `sequences` sequences at once with `drafts` drafts each, which take slots() slots.
  // kResourceExhausted if the device lacks the memory.
  Status reserve(Device& device, const TableShape& shape, int sequences, int drafts, std::size_t pages);
  static int slots(int sequences, int drafts) { return sequences * (1 + drafts); }
  // Enqueues the drafts of `requests`. logits: [requests, vocab], on the device. tokens: the slots used begin at
  // `first_slot`.
  void make(const Exec& exec, Model& model, const CacheView& cache, std::span<const DraftRequest> requests,
            float* logits, TokenId* tokens, std::int32_t first_slot);
  // The slot of the first draft of a request of the last make(); the slots of its other drafts follow it.
  std::int32_t slot(std::size_t request) const { return first_slot_ + static_cast<std::int32_t>(request) * slots_ + 1; }
  // Returns the tokens of a request's drafts. Waits for them.
  std::span<const TokenId> of(std::size_t request);

 private:
  void prepare(std::span<const DraftRequest> requests);
  void draw(const Exec& exec, std::span<const int> rows, int vocab, const float* logits, TokenId* tokens);
  void finish();

  Device* device_ = nullptr;
  int slots_ = 0;  // slots of a sequence: 1 + drafts, the first for its newest token
  std::int32_t first_slot_ = 0;
  std::vector<Drafter> drafter_;  // one, once reserved
  DeviceTables tables_;           // unused on the CPU
  DeviceMemory params_, sampled_;
  std::vector<SampleRow> rows_;  // rows of all first drafts, then of all second ones, and so on
  std::size_t drawn_rows_ = 0;
  std::vector<SampledRow> drawn_;           // on the CPU: the results
  std::vector<int> order_, counts_;         // requests by falling number of drafts; drafts of a request
  std::vector<DraftedSequence> sequences_;  // in the order of order_
  std::vector<TokenId> host_tokens_;
  Device::Mark mark_ = 0;
  bool arriving_ = false;  // a download to host_tokens_ is under way; mark_ is its end
};

}  // namespace sluice
