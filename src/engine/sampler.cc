#include "engine/sampler.h"

#include <fmt/format.h>

#include "kernels/device.h"
#include "kernels/isa.h"

namespace sluice {

static_assert(kSampledTop >= kMaxTopLogprobs);

SampleRow sample_row(const SamplingParams& params, std::size_t row, Position position, std::int32_t slot) {
  return {.row = static_cast<int>(row),
          .temperature = params.temperature,
          .top_k = params.top_k,
          .top_p = params.top_p,
          .min_p = params.min_p,
          .seed = params.seed,
          .position = position,
          .top_logprobs = params.top_logprobs,
          .slot = slot};
}

Status read_sample(const SampledRow& row, Position position, Sampled* out) {
  out->top.clear();
  if (row.status != SampleStatus::kOk) {
    return internal_error(fmt::format("the logits of position {} are {}", position - 1,
                                      row.status == SampleStatus::kNotNumbers ? "not numbers" : "all -infinity"));
  }
  out->token = row.token;
  out->logprob = row.logprob;
  for (std::size_t t = 0; t < static_cast<std::size_t>(row.top_count); ++t) {
    out->top.push_back({row.top_ids[t], row.top_logprobs[t]});
  }
  return {};
}

Status sample_one(const Exec& exec, std::span<const float> logits, const SamplingParams& params, Position position,
                  Sampled* out) {
  // On the CPU, whose threads a device may be using.
  if (exec.device != nullptr) exec.device->wait();
  const Exec own{.pool = exec.pool, .kernels = exec.kernels != nullptr ? exec.kernels : &scalar_kernels()};
  const SampleRow row = sample_row(params, 0, position);
  SampledRow sampled;
  sluice::sample(
      own,
      {.rows = 1, .vocab = static_cast<int>(logits.size()), .logits = logits.data(), .params = &row, .out = &sampled});
  return read_sample(sampled, position, out);
}

}  // namespace sluice
