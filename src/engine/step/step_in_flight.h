// A step in flight, as objects: each has the functions that may be called in its state, and the call that leads to the
// next state consumes it. Calls in another order do not compile (step_in_flight_test.cc).
//
//   BegunStep begun = stepper.begin();                      the step is planned and enqueued
//   Result<ComputedStep> step = std::move(begun).commit();  its rows are part of their sequences
//   step->draw(id, step->logits_row(i), sampling);          tokens are drawn where the logits are
//   SentStep sent = std::move(*step).send();                sequences whose last token is drawn leave the plans
//   TakenStep taken = std::move(sent).take();               waits for the tokens: append() or end() for each
//   std::move(taken).end();                                 the rows of drafts that were appended stay
//
// Callers that know the tokens without drawing append() them, or end() the sequences, and then end the computed step.
//
// Asynchronous steps: a SentStep without drafts may be kept, and taken between the next begin() and its commit(). Plans
// need counts, not tokens, so only an end that depends on a token is noticed a step late; the row that was already
// begun for it is discarded. A SentStep with drafts (drafted()) is taken and ended before the next begin().
//
// The objects are handles: they own nothing and never allocate. The stepper must outlive them. Thread safety: that of
// the stepper.
// Used by stepper.h.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "kernels/ops/sample.h"
#include "sched/step_plan.h"
#include "sluice/sampling.h"
#include "sluice/status.h"

namespace sluice {

class Stepper;

// A token drawn for a sequence; `id` is false if the sequence has ended in the meantime, or a draft before it was
// wrong.
struct DrawnToken {
  SequenceId id;
  const SampledRow* row = nullptr;
  const Status* bound = nullptr;  // ok if rules and constraint leave a token to draw
  bool drafted = false;           // the token was drafted
  bool predicted = false;         // the draft was of the client's prediction
};

// A pointer that is null once it was moved from.
class StepHandle {
 public:
  explicit StepHandle(Stepper* stepper) : stepper_(stepper) {}
  StepHandle(StepHandle&& other) noexcept : stepper_(std::exchange(other.stepper_, nullptr)) {}
  StepHandle& operator=(StepHandle&& other) noexcept {
    stepper_ = std::exchange(other.stepper_, nullptr);
    return *this;
  }
  ~StepHandle() = default;
  Stepper* stepper() const { return stepper_; }

 private:
  Stepper* stepper_;
};

// A step whose tokens are known. A draw from a span with drafts has given up to one token more than its drafts.
class [[nodiscard]] TakenStep {
 public:
  // The tokens in the order of their draws, valid until the next draw.
  std::span<const DrawnToken> tokens() const { return tokens_; }
  void end() &&;

 private:
  friend class SentStep;
  TakenStep(StepHandle handle, bool drafted, std::span<const DrawnToken> tokens)
      : handle_(std::move(handle)), drafted_(drafted), tokens_(tokens) {}

  StepHandle handle_;
  bool drafted_;
  std::span<const DrawnToken> tokens_;
};

// A step whose tokens are on their way, if any were drawn. A default one belongs to no step.
class SentStep {
 public:
  SentStep() = default;
  bool drafted() const { return drafted_; }
  TakenStep take() &&;

 private:
  friend class ComputedStep;
  SentStep(StepHandle handle, bool drafted) : handle_(std::move(handle)), drafted_(drafted) {}

  StepHandle handle_{nullptr};
  bool drafted_ = false;
};

// A step whose rows are part of their sequences, except the rows of drafts.
class [[nodiscard]] ComputedStep {
 public:
  // A false id means that the sequence has ended since begin().
  std::span<const SequenceId> sampled() const;
  // The row of the logits for sampled()[i], the first of 1 + its drafts; without drafts this is i.
  std::size_t logits_row(std::size_t i) const;
  std::size_t logit_count() const;  // rows of the step
  // The tokens drafted for a sequence, for which the call waits, and their number.
  std::span<const TokenId> drafts(SequenceId id) const;
  int draft_count(SequenceId id) const;
  // Draws from `row`, and for drafts from the rows after it. `id` is one of sampled(), or was forked from one.
  void draw(SequenceId id, std::size_t row, const SamplingParams& sampling);
  SentStep send() &&;
  // Ends the step instead of drawing: each sampled sequence has got its tokens or its end.
  void end() &&;

 private:
  friend class BegunStep;
  explicit ComputedStep(StepHandle handle) : handle_(std::move(handle)) {}

  StepHandle handle_;
};

// A step that is enqueued. Tokens of the step before it may be taken now.
class [[nodiscard]] BegunStep {
 public:
  // An error means that the step could not be computed: nothing has changed, and Stepper::failed() lists its sequences.
  Result<ComputedStep> commit() &&;

 private:
  friend class Stepper;
  BegunStep(Stepper* stepper, Status status) : handle_(stepper), status_(std::move(status)) {}

  StepHandle handle_;
  Status status_;
};

}  // namespace sluice
