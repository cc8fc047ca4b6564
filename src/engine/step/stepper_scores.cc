// Stepper: log-probabilities of prompts, and the choices of layers for each position. A row judges the next token. The
// rows from the one before the first unscored token on must be computed, even if the prefix cache has them: pages that
// are inserted stay as they are (BatchSpan::latents_from). A token that has been judged is not judged again after a
// preemption.
#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "engine/step/stepper.h"

namespace sluice {

Position Stepper::unscored(const LiveSequence& s) {
  if (s.logprobs == nullptr) return s.counts.prompt_tokens;
  return std::min(s.logprobs->start + static_cast<Position>(s.logprobs->tokens.size()), s.counts.prompt_tokens);
}

Position Stepper::most_resume(const LiveSequence& s) {
  const Position next = unscored(s);
  const Position scored = next < s.counts.prompt_tokens ? next - 1 : PrefixCache::kNoLimit;
  return exports(s) ? std::min(scored, s.exported) : scored;
}

std::span<const ScoreRequest> Stepper::scores_of(const Span& span) {
  const LiveSequence& s = sequence(span.sequence);
  const std::size_t begin = score_requests_.size();
  const Position end = std::min(span.first_position + span.rows, s.counts.prompt_tokens - 1);
  for (Position p = std::max(span.first_position, unscored(s) - 1); p < end; ++p) {
    score_requests_.push_back({.row = p - span.first_position,
                               .token = s.tokens[static_cast<std::size_t>(p) + 1],
                               .top_logprobs = s.options->prompt_logprobs,
                               .distribution = s.options->prompt_distributions});
  }
  return std::span(score_requests_).subspan(begin);
}

// Takes the scores of the step that was begun. They depend on nothing that may still happen to the step.
void Stepper::take_scores() {
  std::span<RowScore> scores = runner_->results().scores();
  for (std::size_t i = 0; i < step_spans_.size() && !scores.empty(); ++i) {
    const std::size_t count = step_spans_[i].scores.size();
    if (count == 0) continue;
    LiveSequence& s = sequence(step_ids_[i]);
    SLUICE_CHECK(runner_->sequences().position(s.slot) + step_spans_[i].scores.front().row + 1 == unscored(s),
                 "a prompt's tokens are judged in their order, each once");
    for (RowScore& score : scores.first(count)) {
      PromptLogprob& token = s.logprobs->tokens.emplace_back();
      const bool numbers = score.logprobs.status == SampleStatus::kOk;
      token.logprob = numbers ? score.logprobs.logprob : std::numeric_limits<float>::quiet_NaN();
      token.rank = score.rank;
      token.distribution = std::move(score.distribution);
      for (std::size_t t = 0; t < static_cast<std::size_t>(score.logprobs.top_count); ++t) {
        token.top.push_back({score.logprobs.top_ids[t], score.logprobs.top_logprobs[t]});
      }
    }
    scores = scores.subspan(count);
  }
}

// Exports the first `rows` rows of a span, which stay. Rows that are computed again add nothing.
void Stepper::export_rows(LiveSequence& s, std::size_t span, int rows) {
  std::size_t row = 0;
  for (std::size_t i = 0; i < span; ++i) row += static_cast<std::size_t>(step_spans_[i].rows());
  const Position first = runner_->sequences().position(s.slot);
  ExportedRows& to = s.rows;
  for (Position p = first; p < first + rows; ++p, ++row) {
    if (p < s.exported) continue;
    SLUICE_CHECK(p == s.exported, "rows are exported in their order, each once");
    ++s.exported;
    ++to.rows;
    to.expert_layers.clear();
    for (const ExportedLayer& layer : runner_->results().exported_experts()) {
      if (!s.options->return_routed_experts) break;
      const auto width = static_cast<std::size_t>(layer.width);
      to.slots = layer.width;
      to.expert_layers.push_back(layer.layer);
      for (std::size_t i = 0; i < width; ++i) {
        to.experts.push_back(static_cast<std::uint16_t>(layer.values[row * width + i]));
      }
    }
    to.entry_layers.clear();
    for (const ExportedLayer& layer : runner_->results().exported_entries()) {
      if (!s.options->return_sparse_indices) break;
      to.entry_layers.push_back(layer.layer);
      to.tokens_per_entry = layer.tokens_per_row;
      const std::int32_t count = layer.all ? (p + 1) / layer.tokens_per_row : layer.counts[row];
      to.entry_counts.push_back(count);
      for (std::int32_t i = 0; i < count; ++i) {
        to.entries.push_back(
            layer.all ? i : layer.values[row * static_cast<std::size_t>(layer.width) + static_cast<std::size_t>(i)]);
      }
    }
  }
}

}  // namespace sluice
