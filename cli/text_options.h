// Options that `run` and `chat` share: how an answer is sampled.
#pragma once

#include <cstdint>
#include <optional>

#include "sluice/sampling.h"
#include "sluice/status.h"

namespace sluice {

struct TextOptions {
  float temperature = 0.0F;  // 0: greedy
  float top_p = 1.0F;
  int top_k = 0;
  float min_p = 0.0F;
  std::optional<std::uint64_t> seed;  // none: drawn anew
  int max_tokens = 512;
};

// Checked; the message of an error names the flag's meaning, its range and the value.
Result<SamplingParams> sampling_params(const TextOptions& options);

}  // namespace sluice
