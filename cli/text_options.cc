#include "cli/text_options.h"

#include <fmt/format.h>

#include <random>

namespace sluice {

Result<SamplingParams> sampling_params(const TextOptions& options) {
  SamplingParams params;
  params.temperature = options.temperature;
  params.top_p = options.top_p;
  params.top_k = options.top_k;
  params.min_p = options.min_p;
  if (options.seed) {
    params.seed = *options.seed;
  } else {
    std::random_device random;
    params.seed = std::uint64_t{random()} << 32 | random();
  }
  if (options.max_tokens < 1) {
    return invalid_argument(fmt::format("--max-tokens: expected at least 1, found {}", options.max_tokens));
  }
  SLUICE_RETURN_IF_ERROR(validate(params));
  return params;
}

}  // namespace sluice
