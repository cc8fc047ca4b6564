#include "engine/sampler.h"

#include <fmt/format.h>

#include "kernels/device.h"
#include "kernels/isa.h"

namespace sluice {

static_assert(kSampledTop >= kMaxTopLogprobs);

void Sampler::clear() {
  rows_.clear();
}

void Sampler::add(std::size_t row, const SamplingParams& params, Position position) {
  rows_.push_back({.row = static_cast<int>(row),
                   .temperature = params.temperature,
                   .top_k = params.top_k,
                   .top_p = params.top_p,
                   .min_p = params.min_p,
                   .seed = params.seed,
                   .position = position,
                   .top_logprobs = params.top_logprobs});
}

void Sampler::run(const Exec& exec, std::span<const float> logits, std::size_t vocab) {
  Exec own = exec;
  if (own.kernels == nullptr) own.kernels = &scalar_kernels();  // a model that uses none
  sampled_.resize(rows_.size());
  sluice::sample(
      own, {static_cast<int>(rows_.size()), static_cast<int>(vocab), logits.data(), rows_.data(), sampled_.data()});
  if (own.device != nullptr) own.device->wait();
}

Status Sampler::take(std::size_t i, Sampled* out) const {
  const SampledRow& row = sampled_[i];
  out->top.clear();
  if (row.status != SampleStatus::kOk) {
    return internal_error(fmt::format("the logits of position {} are {}", rows_[i].position - 1,
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
  Sampler sampler;
  sampler.add(0, params, position);
  sampler.run(exec, logits, logits.size());
  return sampler.take(0, out);
}

}  // namespace sluice
