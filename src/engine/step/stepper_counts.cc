// Stepper: what is counted of prompts. A token of a prompt counts once, as computed or as found in the prefix cache:
// the choices of a request have one prompt, and a preempted sequence that begins anew has been counted before.
// Used by bench, engine, sim, src/bench and verify.
#include <algorithm>

#include "engine/step/stepper.h"

namespace sluice {

void Stepper::count_admission(LiveSequence& s) {
  CacheStats& cache = counters_.cache;
  PromptCount& count = *s.count;
  const int prompt = s.counts.prompt_tokens;
  const auto found = static_cast<Position>(std::min(s.hit.resume, prompt - 1));
  if (!count.admitted) {
    const Position usable = std::min(s.hit.shared, std::min(prompt - 1, most_resume(s)) / kBlockTokens * kBlockTokens);
    count.admitted = true;
    ++cache.admissions;
    cache.prompt_tokens += static_cast<std::uint64_t>(prompt);
    cache.matched_tokens += static_cast<std::uint64_t>(s.hit.shared);
    cache.lost_to_retention_tokens += static_cast<std::uint64_t>(usable - s.hit.resume);
    cache.resumed_tokens += static_cast<std::uint64_t>(found);
    count.reached = found;
  }
  if (!s.admitted_before) s.cached_tokens = found;
  if (found <= count.reached) return;
  // While a preempted sequence waited, others computed more of the same text.
  const Position more = found - count.reached;
  cache.matched_tokens += static_cast<std::uint64_t>(more);
  cache.resumed_tokens += static_cast<std::uint64_t>(more);
  count.reached = found;
  if (s.admitted_before) s.cached_tokens += more;
}

// Counts the rows of the step that was begun.
void Stepper::count_rows() {
  for (const Span& span : plan_.spans) {
    const LiveSequence& s = sequence(span.sequence);
    if (!s.slot) continue;  // its state was lost while it was swapped in
    const Position begin = span.first_position, end = begin + span.rows - span.drafts;
    const Position prompt_end = std::clamp(s.counts.prompt_tokens, begin, end);
    const Position first_time = std::clamp(s.count->reached, begin, prompt_end);
    counters_.prompt_tokens += static_cast<std::uint64_t>(prompt_end - first_time);
    counters_.recomputed_tokens += static_cast<std::uint64_t>(first_time - begin);
    counters_.recomputed_tokens += static_cast<std::uint64_t>(std::clamp(s.reached, prompt_end, end) - prompt_end);
    s.count->reached = std::max(s.count->reached, prompt_end);
  }
}

}  // namespace sluice
