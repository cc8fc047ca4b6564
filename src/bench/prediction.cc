// Used by cli/commands/perplexity.cc.
#include "bench/prediction.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace sluice {

Prediction::Prediction(std::span<const float> logits) : logits_(logits) {
  SLUICE_CHECK(!logits.empty(), "a prediction of nothing");
  const auto best = std::max_element(logits.begin(), logits.end());
  best_ = static_cast<TokenId>(best - logits.begin());
  const double max = static_cast<double>(*best);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - max);
  log_sum_ = std::log(sum) + max;
}

double Prediction::negative_log_likelihood(TokenId target) const {
  return log_sum_ - static_cast<double>(logits_[static_cast<std::size_t>(target)]);
}

double Prediction::divergence_from(const Prediction& other) const {
  SLUICE_CHECK(logits_.size() == other.logits_.size(), "predictions over different vocabularies");
  double sum = 0;
  for (std::size_t i = 0; i < logits_.size(); ++i) {
    const double log_p = log_probability(i), p = std::exp(log_p);
    if (p != 0) sum += p * (log_p - other.log_probability(i));
  }
  return sum < 0 ? 0 : sum;  // rounding; a NaN stays one
}

}  // namespace sluice
