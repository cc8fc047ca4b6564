// TokenDraws: draws tokens from a step's logits where these are, without waiting. Each token is kept in the slot of its
// sequence, for the step that computes it (take_ids() in kernels/sample.h); the host gets them with take(), possibly a
// step later.
//
//   send(rows)   enqueues the draws behind the step that made the logits
//   take()       waits for them, and returns them; once for each send(), before the next
// Thread safety: one thread at a time.
#pragma once

#include <span>
#include <vector>

#include "kernels/device.h"
#include "kernels/sample.h"
#include "sluice/status.h"

namespace sluice {

class TokenDraws {
 public:
  TokenDraws() = default;
  TokenDraws(const TokenDraws&) = delete;
  TokenDraws& operator=(const TokenDraws&) = delete;
  ~TokenDraws() {
    if (outstanding_) take();  // the device writes to rows_ until then
  }

  // For this many sequences, each with a slot and at most one draw per step. `device` must outlive it.
  Status reserve(Device& device, int sequences);
  // Each row's slot is below `sequences`; `logits` as SampleArgs has them.
  void send(const Exec& exec, const float* logits, std::size_t vocab, std::span<const SampleRow> rows);
  bool outstanding() const { return outstanding_; }
  // In the order of send(). Valid until the next one.
  std::span<const SampledRow> take();
  TokenId* newest() const { return reinterpret_cast<TokenId*>(newest_.data()); }  // [sequences], of the device

 private:
  Device* device_ = nullptr;
  DeviceMemory newest_, params_, sampled_;  // the last two are unused on the CPU
  std::vector<SampledRow> rows_;            // of the host
  Device::Mark mark_ = 0;
  bool outstanding_ = false;
};

}  // namespace sluice
