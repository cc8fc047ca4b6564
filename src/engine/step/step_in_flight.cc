// Used by stepper.h.
#include "engine/step/step_in_flight.h"

#include "base/check.h"
#include "engine/step/stepper.h"

namespace sluice {

Result<ComputedStep> BegunStep::commit() && {
  SLUICE_CHECK(handle_.stepper() != nullptr, "a step is committed once");
  handle_.stepper()->commit();
  if (!status_.ok()) return std::move(status_);
  return ComputedStep(std::move(handle_));
}

std::span<const SequenceId> ComputedStep::sampled() const {
  return handle_.stepper()->sampled_;
}

std::size_t ComputedStep::logits_row(std::size_t i) const {
  return handle_.stepper()->logits_rows_[i];
}

std::size_t ComputedStep::logit_count() const {
  return handle_.stepper()->row_indices_.size();
}

std::span<const TokenId> ComputedStep::drafts(SequenceId id) const {
  return handle_.stepper()->drafts(id);
}

int ComputedStep::draft_count(SequenceId id) const {
  return handle_.stepper()->draft_count(id);
}

void ComputedStep::draw(SequenceId id, std::size_t row, const SamplingParams& sampling) {
  handle_.stepper()->draw(id, row, sampling);
}

SentStep ComputedStep::send() && {
  SLUICE_CHECK(handle_.stepper() != nullptr, "a step is sent once");
  handle_.stepper()->send();
  const bool drafted = handle_.stepper()->drafted_;
  return {std::move(handle_), drafted};
}

void ComputedStep::end() && {
  SLUICE_CHECK(handle_.stepper() != nullptr, "a step ends once");
  StepHandle(std::move(handle_)).stepper()->commit_drafts();
}

TakenStep SentStep::take() && {
  Stepper* stepper = handle_.stepper();
  const bool waits = stepper != nullptr && stepper->outstanding();
  return {std::move(handle_), std::exchange(drafted_, false), waits ? stepper->take() : std::span<const DrawnToken>()};
}

void TakenStep::end() && {
  StepHandle handle = std::move(handle_);
  if (drafted_ && handle.stepper() != nullptr) handle.stepper()->commit_drafts();
}

}  // namespace sluice
