// Compares the results of a workload's sequences with the results of each alone.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

#include "engine/step/sampler.h"
#include "verify/law_runner.h"
#include "verify/law_workload.h"

namespace sluice {
namespace {

bool same(const PromptLogprob& a, float logprob, std::span<const TokenLogprob> top) {
  const auto same_bits = [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
  };
  return same_bits(a.logprob, logprob) &&
         std::ranges::equal(a.top, top, [&](const TokenLogprob& x, const TokenLogprob& y) {
           return x.token == y.token && same_bits(x.logprob, y.logprob);
         });
}

}  // namespace

// The score law: of the prompt as of the prompt alone, of the answer as when it was drawn.
std::optional<Violation> WorkloadChecker::check_scores(const WorkRequest& r, Choice& c) {
  const PromptLogprobs scores = std::move(*std::exchange(c.scores, nullptr));
  const auto prompt = static_cast<int>(prompt_of(r).size());
  const int begin_alone = prompt - static_cast<int>(c.expected->of_prompt.size());
  const auto differ = [&](int position, const char* what) {
    return Violation{"score", fmt::format("the log-probability of token {} of prompt {} (request {}) is not that {}",
                                          position, r.prompt, c.request, what)};
  };
  if (static_cast<int>(scores.tokens.size()) != std::max(0, prompt + r.answered - scores.start)) {
    return Violation{"score", fmt::format("{} tokens of prompt {} (request {}) were scored from {} on",
                                          scores.tokens.size(), r.prompt, c.request, scores.start)};
  }
  for (std::size_t i = 0; i < scores.tokens.size(); ++i) {
    const PromptLogprob& found = scores.tokens[i];
    const int position = scores.start + static_cast<int>(i);
    if (position < prompt) {
      const RowScore& alone = c.expected->of_prompt[static_cast<std::size_t>(position - begin_alone)];
      std::vector<TokenLogprob> top;
      for (std::size_t t = 0; t < static_cast<std::size_t>(alone.logprobs.top_count); ++t) {
        top.push_back({alone.logprobs.top_ids[t], alone.logprobs.top_logprobs[t]});
      }
      if (!same(found, alone.logprobs.logprob, top) || found.rank != alone.rank) return differ(position, "of it alone");
      ++report_.scored;
      continue;
    }
    const PromptLogprob& drawn = c.expected->at_draw[static_cast<std::size_t>(position - prompt)];
    if (is_processed(r)) continue;  // scores of prompts are raw
    if (!same(found, drawn.logprob, drawn.top)) return differ(position, "at which it was drawn");
    ++report_.scored_answers;
  }
  return std::nullopt;
}

// Checks that the tokens that a sequence took over when it began were computed by one of its salt.
std::optional<Violation> WorkloadChecker::check_hit(Stepper& stepper, const WorkRequest& r, const Choice& c,
                                                    SequenceId id) {
  if (c.forked) return std::nullopt;
  const int cached = stepper.sequences()[id].cached_tokens;
  report_.hits += cached > 0;
  int common = 0;
  for (std::size_t i = 0; i < begun_.size(); ++i) {
    if (i == c.number || begun_[i]->salt != r.salt) continue;
    common = std::max(common, common_tokens(prompt_of(*begun_[i]), prompt_of(r)));
  }
  // Another may have computed the part of its answer that it begins with.
  if (cached <= common || (r.answered > 0 && common == static_cast<int>(prompt_of(r).size()))) return std::nullopt;
  return Violation{"salt",
                   fmt::format("prompt {} (request {}, choice {}, salt '{}') took over {} cached tokens, but no "
                               "other of its salt has more than {} in common with it",
                               r.prompt, c.request, c.choice, r.salt, cached, common)};
}

// The draft law: a guess of the model after the tokens of a sequence is a function of these, and of the drafts before.
std::optional<Violation> WorkloadChecker::check_drafts(Stepper& stepper, const ComputedStep& step) {
  for (const SequenceId id : step.sampled()) {
    if (!id || stepper.sequences()[id].source != DraftSource::kMtp) continue;
    const std::span<const TokenId> found = step.drafts(id);
    const Choice& c = live_.at(id.value);
    if (found.empty()) continue;
    const std::vector<TokenId>& alone = c.expected->drafts[c.generated];
    report_.model_drafts += static_cast<std::int64_t>(found.size());
    if (found.size() <= alone.size() && std::equal(found.begin(), found.end(), alone.begin())) continue;
    return Violation{"drafts",
                     fmt::format("behind {} tokens of an answer (request {}, choice {}) the model guesses {}, alone {}",
                                 c.generated, c.request, c.choice, fmt::join(found, " "), fmt::join(alone, " "))};
  }
  return std::nullopt;
}

// The next token of a sequence, and its row of logits. Says what differs.
std::optional<Violation> WorkloadChecker::take(Stepper& stepper, const Workload& work, const DrawnToken& drawn,
                                               std::span<const float> row) {
  const SequenceId id = drawn.id;
  if (!live_.contains(id.value)) return Violation{"token", "a token for a sequence that has ended"};
  Choice& c = live_.at(id.value);
  const WorkRequest& r = work.requests[static_cast<std::size_t>(c.request)];
  if (c.generated == static_cast<std::size_t>(r.answered)) {
    if (auto found = check_hit(stepper, r, c, id)) return found;
    if (c.scores != nullptr) {
      if (auto found = check_scores(r, c)) return found;
    }
  }
  const auto position = static_cast<Position>(stepper.sequences()[id].tokens.size());
  Sampled sampled;
  const Status status = read_sample(*drawn.row, position, &sampled);
  const bool same_logits = bit_digest(row) == c.expected->digests[c.generated];
  if (!status.ok() || !same_logits || sampled.token != c.expected->tokens[c.generated]) {
    return Violation{
        same_logits ? "token" : "logits",
        fmt::format("token {} of the answer to prompt {} (request {}, choice {}): {} {}, alone {}", c.generated,
                    r.prompt, c.request, c.choice, same_logits ? "the same logits, but token" : "other logits, token",
                    sampled.token, c.expected->tokens[c.generated])};
  }
  if (!same(c.expected->at_draw[c.generated], sampled.logprob, sampled.top)) {
    return Violation{"logprob",
                     fmt::format("token {} of the answer to prompt {} (request {}, choice {}): other {} "
                                 "log-probabilities than alone",
                                 c.generated, r.prompt, c.request, c.choice, is_processed(r) ? "processed" : "raw")};
  }
  if (c.constraint != nullptr && !c.constraint->accept(sampled.token)) {
    return Violation{"mask",
                     fmt::format("token {} of the answer to prompt {} (request {}, choice {}): {} is drawn, which "
                                 "its constraint refuses there",
                                 c.generated, r.prompt, c.request, c.choice, sampled.token)};
  }
  if (r.exports) {
    if (auto found = check_exports(stepper, r, c, id)) return found;
  }
  ++report_.comparisons;
  report_.ruled += r.rules != 0;
  report_.constrained += c.constraint != nullptr;
  report_.budgeted += r.constraint == LawConstraint::kBudget;
  report_.forced += drawn.drafted && stepper.sequences()[id].source == DraftSource::kForced;
  report_.choosing_rows += position - 1 >= options_.chooses_from;
  ++c.generated;
  stepper.append(id, sampled.token);
  const int length = r.stops_after > 0 ? r.stops_after : r.max_tokens;
  if (static_cast<int>(c.generated) < length) return std::nullopt;
  const auto& first = expected(r, 0).tokens;
  report_.forks_apart += c.forked && !std::equal(first.begin(), first.begin() + length, c.expected->tokens.begin());
  live_.erase(id.value);
  stepper.end(id);
  return std::nullopt;
}

// The export law: what layers chose for a position is a function of the tokens up to it.
std::optional<Violation> WorkloadChecker::check_exports(Stepper& stepper, const WorkRequest& r, Choice& c,
                                                        SequenceId id) {
  const ExportedDigests found = digests_of(stepper.take_exported(id));
  const auto differ = [&](const char* what) {
    return Violation{"exports",
                     fmt::format("{} of prompt {} (request {}, choice {}) behind {} of its tokens: not those of "
                                 "position {} and those behind it alone",
                                 what, r.prompt, c.request, c.choice, c.generated, c.exported)};
  };
  const std::size_t end = prompt_of(r).size() + c.generated;  // the token that was just drawn is there
  if (c.exported + found.experts.size() != end) return differ("rows that are exported");
  for (std::size_t i = 0; i < found.experts.size(); ++i, ++c.exported) {
    if (found.experts[i] != c.expected->experts[c.exported]) return differ("experts");
    if (found.entries[i] != c.expected->entries[c.exported]) return differ("entries");
    ++report_.exported;
    report_.exported_experts += found.experts[i] != 0;
    report_.exported_entries += found.entries[i] != 0;
  }
  return std::nullopt;
}

}  // namespace sluice
