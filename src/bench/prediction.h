// Prediction: a row of logits as probabilities of the next token, and the distance of two such rows.
//
// p = softmax(logits). All sums are in double and in the order of the ids, whatever made the logits, so equal rows are
// at a distance of exactly 0. Keeps no copy of the logits, which must outlive it. Thread safety: constant once made.
// Used by cli/commands/perplexity.cc.
#pragma once

#include <span>

#include "base/index_types.h"

namespace sluice {

class Prediction {
 public:
  // [vocab], at least one. With a NaN or +infinity among them, or only -infinity, every result except best() is NaN.
  explicit Prediction(std::span<const float> logits);

  double negative_log_likelihood(TokenId target) const;  // -ln p(target), in nats
  TokenId best() const { return best_; }                 // among equal ones the lower id
  // KL(this || other) = the sum of p ln(p / q) in nats, where q is the other's, of the same vocabulary. Tokens with
  // p = 0 add nothing; one with q = 0 alone makes it infinite.
  double divergence_from(const Prediction& other) const;

 private:
  double log_probability(std::size_t id) const { return static_cast<double>(logits_[id]) - log_sum_; }

  std::span<const float> logits_;
  TokenId best_ = 0;
  double log_sum_ = 0;  // ln of the sum of exp(logits)
};

}  // namespace sluice
