#include "kernels/sample.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/math.h"
#include "kernels/ref/kernels.h"
#include "kernels/sample_noise.h"

namespace sluice::ref {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::uint64_t weight_units(float w) {
  return static_cast<std::uint64_t>(std::nearbyint(w * kWeightUnits));
}

std::vector<TokenId> list_of(const std::vector<float>& a) {
  std::vector<TokenId> list(a.size());
  std::iota(list.begin(), list.end(), 0);
  std::stable_sort(list.begin(), list.end(), [&](TokenId i, TokenId j) {
    return a[static_cast<std::size_t>(i)] > a[static_cast<std::size_t>(j)];
  });
  return list;
}

TokenId draw(const std::vector<float>& a, const SampleRow& row) {
  std::vector<TokenId> list = list_of(a);
  if (row.temperature == 0.0F) return list[0];
  const auto at = [](TokenId id) { return static_cast<std::size_t>(id); };
  const float m = a[at(list[0])];
  const float r = std::max(1.0F / row.temperature, std::numeric_limits<float>::min());
  std::vector<float> d(a.size()), w(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    d[i] = (a[i] - m) * r;
    w[i] = exp_f32(d[i]);
  }
  if (row.top_k > 0) list.resize(std::min(list.size(), static_cast<std::size_t>(row.top_k)));
  if (row.top_p < 1.0F) {
    std::uint64_t all = 0, kept = 0;
    for (const TokenId id : list) all += weight_units(w[at(id)]);
    const double enough = static_cast<double>(row.top_p) * static_cast<double>(all);
    std::size_t count = 0;
    while (static_cast<double>(kept) < enough) kept += weight_units(w[at(list[count++])]);
    list.resize(count);
  }
  TokenId token = -1;
  float best = -kInfinity;
  for (const TokenId id : list) {
    if (row.min_p > 0.0F && w[at(id)] < row.min_p) continue;
    const float z = d[at(id)] + gumbel_noise(noise_word(row.seed, row.position, id));
    if (z > best || (z == best && id < token)) {
      best = z;
      token = id;
    }
  }
  return token;
}

void add_logprobs(const std::vector<float>& logits, const SampleRow& row, SampledRow* out) {
  const std::vector<TokenId> list = list_of(logits);
  const float m = logits[static_cast<std::size_t>(list[0])];
  std::uint64_t sum = 0;
  for (const float logit : logits) sum += weight_units(exp_f32(logit - m));
  const float log_sum = log_f32(static_cast<float>(sum) * (1.0F / kWeightUnits));
  const auto logprob = [&](TokenId id) { return (logits[static_cast<std::size_t>(id)] - m) - log_sum; };
  out->logprob = logprob(out->token);
  out->top_count = std::min(row.top_logprobs, static_cast<int>(logits.size()));
  for (std::size_t i = 0; i < static_cast<std::size_t>(out->top_count); ++i) {
    out->top_ids[i] = list[i];
    out->top_logprobs[i] = logprob(list[i]);
  }
}

}  // namespace

void sample(const SampleArgs& args, int begin, int end) {
  const auto vocab = static_cast<std::size_t>(args.vocab);
  for (int i = begin; i < end; ++i) {
    const SampleRow& row = args.params[i];
    SampledRow& out = args.out[i];
    out = {};
    if (row.slot >= 0) args.newest[row.slot] = 0;
    const float* from = args.logits + static_cast<std::size_t>(row.row) * vocab;
    const std::vector<float> logits(from, from + vocab);
    std::vector<float> a = logits;
    bool numbers = true, any = false;
    for (std::size_t id = 0; id < vocab; ++id) {
      if (row.bias != nullptr) a[id] += row.bias[id];
      if (row.allowed != nullptr && (row.allowed[id / 32] >> (id % 32) & 1) == 0) a[id] = -kInfinity;
      numbers &= logits[id] < kInfinity && a[id] < kInfinity;
      any |= a[id] > -kInfinity;
    }
    if (!numbers || !any) {
      out.status = numbers ? SampleStatus::kNoCandidate : SampleStatus::kNotNumbers;
      continue;
    }
    out.token = draw(a, row);
    if (row.slot >= 0) args.newest[row.slot] = out.token;
    if (row.top_logprobs >= 0) add_logprobs(logits, row, &out);
  }
}

std::uint64_t sample_weights(const SampleWeightsArgs& args) {
  std::uint64_t sum = 0;
  for (int i = 0; i < args.n; ++i) {
    const float w = exp_f32((args.a[i] - args.max) * args.scale);
    if (args.w != nullptr) args.w[i] = w;
    sum += weight_units(w);
  }
  return sum;
}

}  // namespace sluice::ref
