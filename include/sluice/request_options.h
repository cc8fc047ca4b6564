// RequestOptions: everything a client can say about one request besides its prompt.
//
// The value is filled once, by whoever makes the request; from Engine::submit() on it is constant and shared
// (std::shared_ptr<const RequestOptions>): the engine's records, the sequences and their spans of a step all point to
// it. A new option is therefore a field here, one reader and one user (docs/dev/adding.md).
// Thread safety: a constant value may be read by any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sluice/constraint.h"
#include "sluice/sampling.h"

namespace sluice {

inline constexpr int kMaxChoices = 1024;  // the most choices of a request

struct RequestOptions {
  int max_tokens = 16;                            // generated tokens, >= 0
  std::vector<std::int32_t> stop_token_ids = {};  // an end token is reported as the last token, with reason kStop
  SamplingParams sampling = {};
  // The client's guess at the answer, to draft from. It changes no token.
  std::vector<std::int32_t> prediction = {};
  // Binds the answer, and is made for this vocabulary; null: nothing binds it. Each choice has a copy.
  std::shared_ptr<const TokenConstraint> constraint = {};
  std::shared_ptr<const TokenRules> rules = {};  // null: none
  // Independent answers to the same prompt; choice i samples with choice_seed(sampling.seed, i).
  int n = 1;  // 1 to kMaxChoices
  // The prompt's own log-probabilities: -1: none; k >= 0: of its tokens from position prompt_logprobs_start on, and of
  // the k best. Positions before that may come from the cache; the rest is computed, whatever is cached.
  int prompt_logprobs = -1, prompt_logprobs_start = 0;
  bool prompt_distributions = false;  // with them: of all tokens, kMaxDistributionBytes in all
  // Report which experts each position went to, and which compressed entries the indexers chose for it. All positions
  // are computed then, whatever is cached, and no tokens are drafted.
  bool return_routed_experts = false, return_sparse_indices = false;
  int priority = 0;             // lower first; only policy "priority" looks at it
  std::string cache_salt = {};  // a request shares cached blocks only with requests of the same salt
  // Positions in the prompt where a message begins, ascending: the text before one is likely to be used again.
  std::vector<std::int32_t> message_starts = {};

  bool exports() const { return return_routed_experts || return_sparse_indices; }
};

inline std::shared_ptr<const RequestOptions> share(RequestOptions options) {
  return std::make_shared<const RequestOptions>(std::move(options));
}

}  // namespace sluice
