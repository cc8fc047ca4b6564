// AloneAnswers: the answer to each request of a workload by itself: with nothing cached, its prompt in one piece and
// its answer one row after the other; and its rules and constraint. Everything is computed anew for each token: masks
// and penalties from the tokens before it alone. Thread safety: the runner's.
// Used by law_workload.h.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "engine/runner/runner.h"
#include "engine/step/ruled_tokens.h"
#include "engine/step/sampler.h"
#include "verify/law_check.h"
#include "verify/law_constraint.h"
#include "verify/law_requests.h"

namespace sluice {

struct Generated {
  std::vector<TokenId> tokens;
  std::vector<std::uint64_t> digests;  // [token]: digest of the logits that it was sampled from
  // [token]: the model's guesses after the tokens before it, kMostDrafts of them; none for the first, nor if it makes
  // no drafts.
  std::vector<std::vector<TokenId>> drafts;
  std::vector<RowScore> of_prompt;     // scores of its tokens from position prompt - of_prompt.size() on
  std::vector<PromptLogprob> at_draw;  // [token]: the sampler's log-probabilities for it
  // [position of the prompt and of all tokens except the last]: digests of the layers' choices; empty: not asked for.
  std::vector<std::uint64_t> experts, entries;
};

// Digests of the layers' choices for row `row` of a step; 0: there are no such layers.
std::uint64_t digest_of_experts(std::span<const ExportedLayer> layers, std::size_t row);
std::uint64_t digest_of_entries(std::span<const ExportedLayer> layers, std::size_t row, Position position);
// The same digests of exported rows.
struct ExportedDigests {
  std::vector<std::uint64_t> experts, entries;  // [rows]
};
ExportedDigests digests_of(const ExportedRows& rows);

class AloneAnswers {
 public:
  static constexpr int kTop = 3;  // further tokens with log-probabilities

  AloneAnswers(Runner& runner, std::span<const std::vector<TokenId>> prompts, const LawOptions& options)
      : runner_(runner), prompts_(prompts), options_(options), constraints_(runner.limits().vocab_size) {}

  // Computes the answer, unless it is known.
  Status compute(const WorkRequest& r, int choice);
  Generated& of(const WorkRequest& r, int choice) {
    return alone_[{r.prompt, r.greedy, r.greedy ? 0 : choice, r.rules, static_cast<int>(r.constraint), r.budget}];
  }
  static SamplingParams sampling_of(const WorkRequest& r, int choice);
  // True for half of the rules: they then change the reported log-probabilities, too.
  static bool is_processed(const WorkRequest& r) { return r.rules != 0 && r.rules % 2 == 0; }
  // Rules and constraint at the answer's beginning; null: it has none.
  std::shared_ptr<RuledTokens> ruled(const WorkRequest& r) const;
  std::shared_ptr<TokenConstraint> constraint(const WorkRequest& r);

 private:
  const std::vector<TokenId>& prompt_of(const WorkRequest& r) const {
    return prompts_[static_cast<std::size_t>(r.prompt)];
  }
  Status sample(const WorkRequest& r, const SamplingParams& sampling, std::span<const TokenId> answer,
                Sampled* sampled);
  std::vector<ScoreRequest> requests(const WorkRequest& r) const;
  void keep_exports(std::size_t rows, Position first, Generated* to) const;

  Runner& runner_;
  std::span<const std::vector<TokenId>> prompts_;
  const LawOptions& options_;
  LawConstraints constraints_;
  // prompt, greedy, choice, rules, constraint, budget -> the longest answer wanted so far
  std::map<std::tuple<int, bool, int, std::uint64_t, int, int>, Generated> alone_;
};

}  // namespace sluice
