// Stepper: masks of the tokens that may be drawn, by constraints and rules, after the newest token of a sequence and
// after each of its drafts.
#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "base/check.h"
#include "engine/step/stepper.h"

namespace sluice {

// The draws of one sequence are neighbours.
void Stepper::gather_masked() {
  masked_.clear();
  statuses_.assign(drawn_.size(), {});
  std::size_t masks = 0, biases = 0;
  for (std::size_t i = 0; i < drawn_.size();) {
    const SequenceId id = drawn_[i];
    std::size_t rows = 1;
    while (i + rows < drawn_.size() && drawn_[i + rows] == id) ++rows;
    if (id && sequence(id).answer.is_bound()) {
      masked_.push_back({.id = id, .draw = i, .rows = rows, .mask = masks, .bias = biases});
      masks += rows;
      const SequenceAnswer& answer = sequence(id).answer;
      if (rows > 1 && answer.ruled != nullptr && answer.ruled->changes_logits()) biases += rows;
    }
    i += rows;
  }
  masks_.resize(masks * mask_words());
  biases_.resize(biases * runner_->limits().vocab_size);
}

// In parallel, unless a device may be using the threads.
void Stepper::make_masks() {
  gather_masked();
  const auto count = static_cast<int>(masked_.size());
  const auto make = [&](int i, int /*thread*/) { mask(masked_[static_cast<std::size_t>(i)]); };
  const Exec& exec = runner_->exec();
  if (exec.pool != nullptr && (exec.device == nullptr || exec.device == &cpu_device())) {
    return exec.pool->run(count, make);
  }
  for (int i = 0; i < count; ++i) make(i, 0);
}

// Masks the rows as if the drafts were its tokens, and then takes these back. Rows after a draft that is not allowed,
// and so is not drawn, are in vain.
void Stepper::mask(const Masked& masked) {
  LiveSequence& s = sequence(masked.id);
  const SequenceAnswer& answer = s.answer;
  const std::span<const TokenId> drafts = masked.rows > 1 ? this->drafts(masked.id) : std::span<const TokenId>();
  const std::size_t known = s.tokens.size();
  for (std::size_t j = 0; j < masked.rows; ++j) {
    const std::span allowed = std::span(masks_).subspan((masked.mask + j) * mask_words(), mask_words());
    SampleRow& row = draw_rows_[masked.draw + j];
    Status& status = statuses_[masked.draw + j];
    try {
      status = mask_row(s, allowed, &row);
    } catch (const std::exception& failure) {  // such as a lack of memory: ends only this answer
      status = internal_error(fmt::format("the tokens that may come next: {}", failure.what()));
    }
    row.allowed = status.ok() ? allowed.data() : nullptr;
    if (row.bias != nullptr && masked.rows > 1) {  // the next row has another bias
      float* kept = biases_.data() + (masked.bias + j) * runner_->limits().vocab_size;
      std::copy_n(row.bias, runner_->limits().vocab_size, kept);
      row.bias = kept;
    }
    if (j == drafts.size() || !status.ok()) break;
    const auto id = static_cast<std::size_t>(drafts[j]);
    if ((allowed[id / 32] >> (id % 32) & 1U) == 0) break;
    if (answer.constraint != nullptr) SLUICE_CHECK(answer.constraint->accept(drafts[j]), "what is allowed is accepted");
    s.tokens.push_back(drafts[j]);
  }
  const std::size_t taken = s.tokens.size() - known;
  if (taken == 0) return;
  if (answer.constraint != nullptr) answer.constraint->rollback(taken);
  if (answer.ruled != nullptr) answer.ruled->forget(s.tokens, s.counts.prompt_tokens, known);
  s.tokens.resize(known);
}

Status Stepper::mask_row(const LiveSequence& s, std::span<std::uint32_t> allowed, SampleRow* row) const {
  const SequenceAnswer& answer = s.answer;
  if (answer.constraint != nullptr) {
    SLUICE_RETURN_IF_ERROR(answer.constraint->allowed(allowed));
  } else {
    RuledTokens::allow_all(allowed, runner_->limits().vocab_size);
  }
  if (answer.ruled == nullptr) return {};
  const std::span<const float> logits = answer.ruled->needs_logits()
                                            ? runner_->logits().at_row(static_cast<std::size_t>(row->row))
                                            : std::span<const float>();
  SLUICE_RETURN_IF_ERROR(answer.ruled->apply(s.tokens, s.counts.prompt_tokens, logits, allowed));
  row->bias = answer.ruled->bias();
  return {};
}

}  // namespace sluice
