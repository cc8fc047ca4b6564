// Runner: the checks of what a step is asked to compute.
// Used by cli, engine, sim, src/bench and verify.
#include <fmt/format.h>

#include "engine/runner/runner.h"

namespace sluice {
namespace {

Status check_ids(std::span<const TokenId> ids, Position first, std::size_t vocab_size) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && static_cast<std::size_t>(ids[i]) < vocab_size) continue;
    return invalid_argument(fmt::format("token {} of the sequence: expected an id in [0, {}), found {}",
                                        static_cast<std::size_t>(first) + i, vocab_size, ids[i]));
  }
  return {};
}

}  // namespace

Status Runner::check(std::span<const StepSpan> spans) {
  if (spans.empty()) return invalid_argument("a step needs at least one span");
  ++step_;
  for (const StepSpan& span : spans) {
    SLUICE_RETURN_IF_ERROR(check_span(span));
    if (in_step_[static_cast<std::size_t>(span.sequence.value)] == step_) {
      return invalid_argument(fmt::format("sequence {} has two spans in one step", span.sequence.value));
    }
    in_step_[static_cast<std::size_t>(span.sequence.value)] = step_;
  }
  return {};
}

Status Runner::check_span(const StepSpan& span) const {
  const StateSlot slot = span.sequence;
  if (!sequences_.is_open(slot)) {
    return invalid_argument(fmt::format("sequence {} is not open", slot.value));
  }
  if (span.rows() == 0) return invalid_argument(fmt::format("sequence {} has an empty span", slot.value));
  const Position position = sequences_.position(slot);
  if (span.rows() > limits_.max_model_len - position) {
    return invalid_argument(
        fmt::format("sequence {} at position {}: {} more tokens exceed the longest sequence, {} tokens", slot.value,
                    position, span.rows(), limits_.max_model_len));
  }
  SLUICE_RETURN_IF_ERROR(check_ids(span.ids, position, limits_.vocab_size));
  const int drafts = span.draft_count();
  SLUICE_RETURN_IF_ERROR(check_ids(span.drafts, position + span.rows() - drafts, limits_.vocab_size));
  if (drafts > plan_.open_states - 2 || drafts == span.rows() || (span.model_drafts > 0 && !makes_drafts(span))) {
    return invalid_argument(
        fmt::format("sequence {}: expected at most {} drafts behind a known token, found {} of {} rows", slot.value,
                    plan_.open_states - 2, drafts, span.rows()));
  }
  return check_rows(span);
}

Status Runner::check_rows(const StepSpan& span) const {
  int last = -1;
  for (const int row : span.logit_rows) {
    if (row <= last || row >= span.rows()) {
      return invalid_argument(
          fmt::format("logit rows: expected ascending numbers in [0, {}), found {} after {}", span.rows(), row, last));
    }
    last = row;
  }
  const Position position = sequences_.position(span.sequence);
  last = -1;
  for (const ScoreRequest& request : span.scores) {
    if (request.row <= last || request.row >= span.rows() || request.top_logprobs < 0 ||
        request.top_logprobs > kSampledTop) {
      return invalid_argument(
          fmt::format("scores: expected ascending rows in [0, {}) with at most {} of the best tokens, found row {} "
                      "after {} with {}",
                      span.rows(), kSampledTop, request.row, last, request.top_logprobs));
    }
    last = request.row;
    SLUICE_RETURN_IF_ERROR(check_ids({&request.token, 1}, position + request.row + 1, limits_.vocab_size));
  }
  return {};
}

// Returns whether the model can guess the tokens after the span's: the span has one token, which is known.
bool Runner::makes_drafts(const StepSpan& span) const {
  return model_->drafts() && span.ids.size() == 1 && !span.newest && span.drafts.empty() && span.sampling != nullptr;
}

}  // namespace sluice
