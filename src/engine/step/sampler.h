// Translates between the API's sampling parameters and tokens and the op that draws (kernels/ops/sample.h). A token is
// a function of (logits, parameters, position) only: this is the sampling law.
// Used by cli/commands, engine, engine/runner, engine/step and verify.
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
  float logprob = 0.0F;           // set if params.top_logprobs >= 0
  std::vector<TokenLogprob> top;  // the params.top_logprobs best, best first, then those of params.logprob_ids
};

// Returns the op's parameters for a token from row `row` of the logits. `params` must be valid. `position` is the index
// of the new token in its sequence, and the device keeps it in `slot` (-1: nowhere).
SampleRow sample_row(const SamplingParams& params, std::size_t row, Position position, std::int32_t slot = -1);

// Reads the op's result for the token at `position`. kInternal if the logits are not a distribution: one is NaN or
// +infinity, or all are -infinity.
Status read_sample(const SampledRow& row, Position position, Sampled* out);

// Draws one token from one row of logits on the host; `allowed` and `bias` are as in SampleRow.
Status sample_one(const Exec& exec, std::span<const float> logits, const SamplingParams& params, Position position,
                  Sampled* out, const std::uint32_t* allowed = nullptr, const float* bias = nullptr);

// TokenDraws: draws tokens on the device that has a step's logits, without waiting. Each token is kept in the slot of
// its sequence, for the step that computes it (take_ids() in kernels/ops/sample.h); the host gets them with take(),
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

  // Reserves memory for `sequences` sequences, each with a slot and at most `draws` draws per step, all with a mask.
  // After their slots come `more_slots` for other uses. `device` must outlive it.
  Status reserve(Device& device, int sequences, std::size_t vocab, int draws = 1, int more_slots = 0);
  // Each row's slot is below `sequences`; `logits` as SampleArgs has them.
  void send(const Exec& exec, const float* logits, std::size_t vocab, std::span<const SampleRow> rows);
  bool outstanding() const { return outstanding_; }
  // Returns the tokens in the order of send(); valid until the next send().
  std::span<const SampledRow> take();
  TokenId* newest() const {
    return reinterpret_cast<TokenId*>(newest_.data());
  }  // [sequences, then more_slots], on the device

 private:
  Device* device_ = nullptr;
  DeviceMemory newest_, params_, sampled_, masks_;  // the last three are unused on the CPU
  std::vector<SampledRow> rows_;                    // the host's
  std::vector<SampleRow> placed_;                   // params, with the device's masks
  std::size_t most_rows_ = 0;
  Device::Mark mark_ = 0;
  bool outstanding_ = false;
};

}  // namespace sluice
