// Stepper: tokens that are guessed (docs/speculation.md). They exist within a step only: made when it is planned, gone
// when it is committed.
#include <algorithm>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "engine/step/stepper.h"

namespace sluice {

// Offers the drafts that decoding sequences could have in the next step.
void Stepper::offer_drafts() {
  facts_.offers.clear();
  if (most_drafts_ == 0) return;
  for (int i = 0; i < scheduler_.decoding(); ++i) {
    const SequenceId id = scheduler_.decoding(i);
    // Offers drafts if the sequence's tokens are all known.
    if (sequence(id).draw < 0 && !exports(sequence(id))) offer_drafts(id);
  }
}

// About what they could have if the tokens that are on their way were known.
bool Stepper::wants_tokens() {
  if (!waits_ || !outstanding()) return false;
  if (asks_after_ > 0) {
    --asks_after_;
    return false;
  }
  facts_.offers.clear();
  for (int i = 0; i < scheduler_.decoding(); ++i) {
    if (!exports(sequence(scheduler_.decoding(i)))) offer_drafts(scheduler_.decoding(i));
  }
  const bool pays = scheduler_.waiting_pays(facts_.offers);
  // Asking takes time for many sequences, and with many it need not be done each step.
  constexpr int kOfSequences = 16, kMost = 3;
  if (!pays) asks_after_ = std::min(scheduler_.decoding() / kOfSequences, kMost);
  return pays;
}

void Stepper::offer_drafts(SequenceId id) {
  LiveSequence& s = sequence(id);
  s.predicted_next = -1;
  if (drafter_) {
    const int drafts = drafter_(id, std::span(s.proposal).first(static_cast<std::size_t>(most_drafts_)));
    if (drafts > 0) offer_proposal(id, DraftSource::kLongCopy, drafts);
    if (drafts >= 0) return;
  }
  if (model_drafts_) facts_.offers.push_back({id, DraftSource::kMtp, most_drafts_});
  if (s.answer.constraint != nullptr) {
    const std::span<TokenId> proposal = std::span(s.proposal).first(static_cast<std::size_t>(most_drafts_));
    if (const int drafts = s.answer.constraint->forced(proposal); drafts > 0) {
      s.predicted = false;
      return offer_proposal(id, DraftSource::kForced, drafts);
    }
  }
  if (copies_drafts_) offer_copies(id);
}

void Stepper::offer_copies(SequenceId id) {
  LiveSequence& s = sequence(id);
  if (s.copies == nullptr) {
    s.copies = std::make_unique<CopiedDrafts>();
    s.copies->predict(s.options->prediction);
  }
  s.copies->append(std::span(s.tokens).subspan(static_cast<std::size_t>(s.copies->tokens())));
  CopiedDrafts::Match match = s.copies->find();
  if (s.generated() == 1 && match.length == 0) match = s.copies->beginning();
  if (match.length == 0) return;
  const int drafts = s.copies->copy(match, std::span(s.proposal).first(static_cast<std::size_t>(most_drafts_)));
  s.predicted = s.copies->predicted(match);
  constexpr int kShort = 3, kLong = 8;  // lengths of drafts, in tokens
  const DraftSource source = match.skips              ? DraftSource::kShortCopy
                             : s.predicted            ? DraftSource::kPredicted
                             : match.length <= kShort ? DraftSource::kShortCopy
                             : match.length < kLong   ? DraftSource::kCopy
                                                      : DraftSource::kLongCopy;
  if (drafts > 0) offer_proposal(id, source, drafts);
}

// If a token is on its way, the first one of the proposal is a guess at that token.
void Stepper::offer_proposal(SequenceId id, DraftSource source, int tokens) {
  LiveSequence& s = sequence(id);
  const bool predicted = s.draw >= 0;
  if (predicted) s.predicted_next = s.proposal.front(), s.predicted_by = source, --tokens;
  if (tokens > 0) facts_.offers.push_back({id, source, tokens, predicted});
}

void Stepper::set_drafts(const Span& span, StepSpan* of) {
  LiveSequence& s = sequence(span.sequence);
  if (span.drafts > 0 && span.source == DraftSource::kMtp) {
    of->model_drafts = span.drafts;
    of->sampling = &s.answer.sampling;
    s.predicted = false;
    return;
  }
  const std::size_t begin = drafts_.size();
  drafts_.insert(drafts_.end(), s.proposal.begin(), s.proposal.begin() + span.drafts);
  of->drafts = std::span(drafts_).subspan(begin);
}

std::span<const TokenId> Stepper::drafts(SequenceId id) const {
  const LiveSequence& s = sequence(id);
  return s.span < 0 ? std::span<const TokenId>() : runner_->drafts(static_cast<std::size_t>(s.span));
}

int Stepper::draft_count(SequenceId id) const {
  const LiveSequence& s = sequence(id);
  return s.span < 0 ? 0 : step_spans_[static_cast<std::size_t>(s.span)].draft_count();
}

// Returns how many drafts equal the tokens that were drawn, up to the first that differs. `rows` are the span's.
std::size_t Stepper::right_drafts(std::span<const TokenId> drafts, std::span<const SampledRow> rows) {
  std::size_t right = 0;
  while (right < drafts.size() && rows[right].status == SampleStatus::kOk && rows[right].token == drafts[right]) {
    ++right;
  }
  return right;
}

// A wrong state of a model's own drafter changes no answer: that its drafts are never right is all there is to see.
void Stepper::watch_model(std::size_t drafted, std::size_t right) {
  constexpr std::size_t kDrafts = 1000, kFewest = kDrafts / 10;
  watched_.drafted += drafted;
  watched_.right += right;
  if (watched_.drafted < kDrafts) return;
  if (watched_.right < kFewest && !std::exchange(watched_.warned, true)) {
    log_warning(
        "of the last {} tokens that the model drafted {} were right: its layer for multi-token prediction does "
        "not fit, or the text is unlike any that it knows (--speculative ngram or off leaves it out)",
        watched_.drafted, watched_.right);
  }
  watched_.drafted = watched_.right = 0;
}

void Stepper::count_drafts(DraftSource source, std::size_t drafted, std::size_t right) {
  if (source == DraftSource::kMtp) watch_model(drafted, right);
  DraftStats& stats = counters_.drafts;
  ++stats.drafts;
  stats.drafted_tokens += drafted;
  stats.accepted_tokens += right;
  for (std::size_t i = 0; i < drafted; ++i) ++stats.drafted_by_depth[i];
  for (std::size_t i = 0; i < right; ++i) ++stats.accepted_by_depth[i];
}

void Stepper::commit_drafts() {
  if (!drafted_) return;
  for (std::size_t i = 0; i < step_spans_.size(); ++i) {
    if (!step_ids_[i]) continue;
    const SequenceId id = step_ids_[i];
    const int kept = appended_rows(sequence(id));
    SLUICE_CHECK(kept > 0, "a span with drafts has got its tokens, or has ended");
    scheduler_.judged(id, sequence(id).source, step_spans_[i].draft_count(), kept - 1);
    keep_rows(i, kept);
  }
  step_spans_.clear();
  drafted_ = false;
}

// Returns how many rows of a span with drafts belong to tokens of the sequence. The newest token has no row.
int Stepper::appended_rows(const LiveSequence& s) const {
  return static_cast<int>(s.tokens.size()) - 1 - runner_->sequences().position(s.slot);
}

}  // namespace sluice
