// Between the API's sampling parameters and tokens and the op that draws (kernels/ops/sample.h). A token is a function
// of (logits, parameters, position) only, the sampling law.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/index_types.h"
#include "kernels/device/device.h"
#include "kernels/ops/sample.h"
#include "sluice/engine.h"
#include "sluice/sampling.h"
#include "sluice/status.h"

namespace sluice {

struct Sampled {
  TokenId token = -1;
  float logprob = 0.0F;           // when params.top_logprobs >= 0
  std::vector<TokenLogprob> top;  // the params.top_logprobs best, best first, then those of params.logprob_ids
};

// The op's parameters for a token from row `row` of the logits. `params` must be valid; `position` is the index of the
// new token in its sequence, `slot` where the device keeps it (-1: nowhere).
SampleRow sample_row(const SamplingParams& params, std::size_t row, Position position, std::int32_t slot = -1);

// The op's result for the token at `position`. kInternal if the logits are not a distribution: one is NaN or +infinity,
// or all are -infinity.
Status read_sample(const SampledRow& row, Position position, Sampled* out);

// One token from one row of logits on the host; `allowed` and `bias` as SampleRow has them.
Status sample_one(const Exec& exec, std::span<const float> logits, const SamplingParams& params, Position position,
                  Sampled* out, const std::uint32_t* allowed = nullptr, const float* bias = nullptr);

// TokenDraws: draws tokens from a step's logits where these are, without waiting. Each token is kept in the slot of its
// sequence, for the step that computes it (take_ids() in kernels/ops/sample.h); the host gets them with take(),
// possibly a step later.
//
//   send(rows)   enqueues the draws behind the step that made the logits
//   take()       waits for them, and returns them; once for each send(), before the next
// Thread safety: one thread at a time.

class TokenDraws {
 public:
  TokenDraws() = default;
  TokenDraws(const TokenDraws&) = delete;
  TokenDraws& operator=(const TokenDraws&) = delete;
  ~TokenDraws() {
    if (outstanding_) take();  // the device writes to rows_ until then
  }

  // For this many sequences, each with a slot and at most so many draws per step, all with a mask; behind their slots
  // there are `more_slots` for others. `device` must outlive it.
  Status reserve(Device& device, int sequences, std::size_t vocab, int draws = 1, int more_slots = 0);
  // Each row's slot is below `sequences`; `logits` as SampleArgs has them.
  void send(const Exec& exec, const float* logits, std::size_t vocab, std::span<const SampleRow> rows);
  bool outstanding() const { return outstanding_; }
  // In the order of send(). Valid until the next one.
  std::span<const SampledRow> take();
  TokenId* newest() const {
    return reinterpret_cast<TokenId*>(newest_.data());
  }  // [sequences, then more_slots], of the device

 private:
  Device* device_ = nullptr;
  DeviceMemory newest_, params_, sampled_, masks_;  // the last three are unused on the CPU
  std::vector<SampledRow> rows_;                    // of the host
  std::vector<SampleRow> placed_;                   // params with masks of the device
  std::size_t most_rows_ = 0;
  Device::Mark mark_ = 0;
  bool outstanding_ = false;
};

}  // namespace sluice
