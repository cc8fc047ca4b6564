#include "engine/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/philox.h"

namespace sluice {
namespace {

constexpr std::size_t kFirstHead = 64;  // how much of the list is sorted at first; most draws end within it

// exp(x) for x <= 0, relative error below 1e-13: r = x - n ln 2 in two steps, the Taylor series to r^11, times 2^n.
double exp_nonpositive(double x) {
  if (!(x > -700.0)) return 0.0;
  constexpr double kLog2E = 1.4426950408889634, kLn2High = 6.93147180369123816490e-01,
                   kLn2Low = 1.90821492927058770002e-10;
  constexpr double kRound = 0x1.8p52;  // adding and taking it away rounds to an integer
  const double n = (x * kLog2E + kRound) - kRound;
  const double r = (x - n * kLn2High) - n * kLn2Low;
  double p = 1.0 / 39916800;
  for (const double c :
       {1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0}) {
    p = p * r + c;
  }
  return p * std::bit_cast<double>((static_cast<std::int64_t>(n) + 1023) << 52);
}

double weight(float logit, float max_logit, double scale) {
  return exp_nonpositive((static_cast<double>(logit) - max_logit) * scale);
}

// The lowest id of the highest logit; -1 when the row is not a distribution.
TokenId argmax(std::span<const float> logits) {
  float best = -INFINITY;
  TokenId id = -1;
  bool broken = false;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    broken |= !(logits[i] < INFINITY);
    if (logits[i] > best) {
      best = logits[i];
      id = static_cast<TokenId>(i);
    }
  }
  return broken ? -1 : id;
}

}  // namespace

Status Sampler::sample(std::span<const float> logits, const SamplingParams& params, Position position, Sampled* out) {
  filled_ = false;
  sorted_ = 0;
  out->top.clear();
  const TokenId best = argmax(logits);
  if (best < 0) return internal_error(fmt::format("the logits of position {} are not numbers", position - 1));
  const float max_logit = logits[static_cast<std::size_t>(best)];
  out->token = params.temperature == 0.0F ? best : draw(logits, params, position, max_logit);
  if (params.top_logprobs >= 0) add_logprobs(logits, params.top_logprobs, max_logit, out);
  return {};
}

void Sampler::sort_head(std::span<const float> logits, std::size_t n) {
  if (!filled_) {
    candidates_.resize(logits.size());
    for (std::size_t i = 0; i < logits.size(); ++i) candidates_[i] = {logits[i], static_cast<TokenId>(i)};
    filled_ = true;
  }
  n = std::min(n, candidates_.size());
  if (n <= sorted_) return;
  const auto before = [](const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
  };
  const auto begin = candidates_.begin() + static_cast<std::ptrdiff_t>(sorted_);
  const auto end = candidates_.begin() + static_cast<std::ptrdiff_t>(n);
  if (end != candidates_.end()) std::nth_element(begin, end, candidates_.end(), before);
  std::sort(begin, end, before);
  sorted_ = n;
}

Sampler::Kept Sampler::filter(std::span<const float> logits, const SamplingParams& params, double scale,
                              float max_logit) {
  const std::size_t vocab = logits.size();
  const std::size_t top_k = params.top_k > 0 ? std::min(static_cast<std::size_t>(params.top_k), vocab) : vocab;
  double all = 0;
  if (top_k < vocab) {
    sort_head(logits, top_k);
    for (std::size_t i = 0; i < top_k; ++i) all += weight(candidates_[i].logit, max_logit, scale);
  } else {
    for (const float logit : logits) all += weight(logit, max_logit, scale);
  }
  if (params.top_p >= 1.0F && params.min_p <= 0.0F) return {top_k, all};

  const double enough = static_cast<double>(params.top_p) * all;
  Kept kept{0, 0};
  while (kept.count < top_k) {
    if (kept.count == sorted_) sort_head(logits, std::max(kFirstHead, sorted_ * 8));
    const double w = weight(candidates_[kept.count].logit, max_logit, scale);
    if (w < static_cast<double>(params.min_p)) break;
    ++kept.count;
    kept.weight += w;
    if (params.top_p < 1.0F && kept.weight >= enough) break;
  }
  return kept;
}

TokenId Sampler::draw(std::span<const float> logits, const SamplingParams& params, Position position, float max_logit) {
  const double scale = 1.0 / static_cast<double>(params.temperature);
  const Kept kept = filter(logits, params, scale, max_logit);
  const double target = philox_uniform(params.seed, static_cast<std::uint64_t>(position)) * kept.weight;
  double sum = 0;
  TokenId token = -1;
  for (std::size_t i = 0; i < kept.count; ++i) {
    if (i == sorted_) sort_head(logits, std::max(kFirstHead, sorted_ * 8));
    const double w = weight(candidates_[i].logit, max_logit, scale);
    if (w <= 0 && token >= 0) break;  // only the rounding of the sum leads here: the last possible token
    token = candidates_[i].id;
    sum += w;
    if (sum > target) break;
  }
  return token;
}

void Sampler::add_logprobs(std::span<const float> logits, int top, float max_logit, Sampled* out) {
  double sum = 0;
  for (const float logit : logits) sum += weight(logit, max_logit, 1.0);
  const double log_sum = std::log(sum);
  const auto logprob = [&](float logit) {
    return static_cast<float>((static_cast<double>(logit) - max_logit) - log_sum);
  };
  out->logprob = logprob(logits[static_cast<std::size_t>(out->token)]);
  const std::size_t count = std::min(static_cast<std::size_t>(top), logits.size());
  if (count > 0) sort_head(logits, count);
  for (std::size_t i = 0; i < count; ++i) out->top.push_back({candidates_[i].id, logprob(candidates_[i].logit)});
}

}  // namespace sluice
