// Stepper: sequences leave the device's memory, into the swap space or to be computed again, and come back.
#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "cache/pages/retention.h"
#include "engine/step/stepper.h"

namespace sluice {

void Stepper::preempt(const Preemption& preemption) {
  LiveSequence& s = sequence(preemption.sequence);
  const Position position = runner_->sequences().position(s.slot);
  s.reached = std::max(s.reached, position);
  // An admission of this plan may rely on a window page that no other sequence holds.
  const bool relied_on = !plan_.admissions.empty();
  if (preemption.swap) {
    forget_expected_before(s, s.expected_end);
    PrefixCache& cache = runner_->cache().prefix_cache();
    if (relied_on && cache.enabled()) runner_->sequences().state(s.slot).keep_last_boundary(cache, *s.chain);
    Result<SwapHandle> image = runner_->sequences().swap_out(s.slot);
    if (image.ok()) {
      s.slot = {};
      s.swapped = *image;
      s.swapped_position = position;
      record(StepItem::Kind::kPreemption, s, position, 0, 0, StepItem::kSwapped);
      ++counters_.preemptions_swap;
      return;
    }
    log_warning("{}; {} tokens will be computed again", image.status().message(), position);
    scheduler_.lost(preemption.sequence);
  }
  leave(s, relied_on || runner_->cache().prefix_cache().retention().preempted);
  record(StepItem::Kind::kPreemption, s, position);
  ++counters_.preemptions_recompute;
}

void Stepper::resume(SequenceId id) {
  LiveSequence& s = sequence(id);
  const Result<StateSlot> slot = runner_->sequences().open();
  SLUICE_CHECK(slot.ok(), "the scheduler runs no more sequences than there are states");
  s.slot = *slot;
  if (!runner_->cache().prefix_cache().enabled()) s.hit = {};
  if (s.hit.shared > 0) runner_->sequences().resume(s.slot, *s.chain, s.hit);
  count_admission(s);
  record(StepItem::Kind::kAdmission, s, runner_->sequences().position(s.slot), s.hit.shared);
  if (!s.admitted_before) {
    s.admitted_at = std::chrono::steady_clock::now();
    s.tokens.reserve(static_cast<std::size_t>(s.counts.prompt_tokens + s.counts.max_tokens));
  }
  s.admitted_before = true;
}

void Stepper::restore(SequenceId id) {
  LiveSequence& s = sequence(id);
  Result<StateSlot> slot =
      runner_->sequences().swap_in(std::exchange(s.swapped, {}), s.swapped_position,
                                   runner_->cache().prefix_cache().enabled() ? s.chain.get() : nullptr);
  if (!slot.ok()) {
    log_warning("{}; {} tokens will be computed again", slot.status().message(), s.swapped_position);
    forget_expected_before(s, s.expected_end);
    scheduler_.lost(id);
    state_lost_ = true;
    return;
  }
  s.slot = *slot;
  record(StepItem::Kind::kAdmission, s, s.swapped_position, s.swapped_position, 0, StepItem::kSwapped);
  ++counters_.swaps_restored;
}

}  // namespace sluice
