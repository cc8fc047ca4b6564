// Sampler: chooses the next token from a row of logits. A pure function of (logits, parameters, position): the sampling
// law.
//
// Candidates stand in one order, higher logit first, then lower id, and every filter keeps a head of that list:
//   temperature 0   the first candidate (greedy)
//   otherwise       w_i = exp((logit_i - max) / temperature), then in this order
//     top_k         the first top_k candidates
//     top_p         the shortest head whose weight reaches top_p of all that top_k left, at least one
//     min_p         those with w_i >= min_p (the best one has 1)
//   and the first candidate at which the running sum of weights exceeds u * (their sum), u = philox_uniform(seed,
//   position).
// Sums are in double, in list order, or in id order over the whole vocabulary. Log-probabilities are the log-softmax of
// the raw logits. exp is our own, so that the C library's version does not matter.
//
// Cost: a pass over the vocabulary; only as much of the list is sorted as the choice needs.
// Thread safety: one thread at a time per object (it owns scratch memory that is reused; no allocation once warm).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/index_types.h"
#include "sluice/engine.h"
#include "sluice/sampling.h"
#include "sluice/status.h"

namespace sluice {

struct Sampled {
  TokenId token = -1;
  float logprob = 0.0F;           // when params.top_logprobs >= 0
  std::vector<TokenLogprob> top;  // the params.top_logprobs best, best first
};

class Sampler {
 public:
  // `params` must be valid. kInternal when a logit is NaN or +infinity, or when all are -infinity.
  // `position` is the index of the new token in its sequence.
  Status sample(std::span<const float> logits, const SamplingParams& params, Position position, Sampled* out);

 private:
  struct Candidate {
    float logit;
    TokenId id;
  };

  // Makes candidates_[0, n) the first n of the list.
  void sort_head(std::span<const float> logits, std::size_t n);
  TokenId draw(std::span<const float> logits, const SamplingParams& params, Position position, float max_logit);
  // How many candidates the filters keep, and their weight.
  struct Kept {
    std::size_t count;
    double weight;
  };
  Kept filter(std::span<const float> logits, const SamplingParams& params, double scale, float max_logit);
  void add_logprobs(std::span<const float> logits, int top, float max_logit, Sampled* out);

  std::vector<Candidate> candidates_;
  std::size_t sorted_ = 0;
  bool filled_ = false;
};

}  // namespace sluice
