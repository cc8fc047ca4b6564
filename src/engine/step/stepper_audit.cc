// Stepper: the check of all that it knows after a step (--audit).
#include <fmt/format.h>

#include <algorithm>

#include "cache/audit.h"
#include "engine/step/stepper.h"

namespace sluice {

Status Stepper::audit() const {
  SLUICE_RETURN_IF_ERROR(runner_->sequences().audit());
  SLUICE_RETURN_IF_ERROR(audit_swaps());
  SLUICE_RETURN_IF_ERROR(audit_chain());
  SLUICE_RETURN_IF_ERROR(audit_expected());
  int rows = 0;
  std::vector<bool> seen(sequences_.entries().size());
  for (const Span& span : plan_.spans) {
    rows += span.rows;
    const auto index = static_cast<std::size_t>(span.sequence.value);
    const bool before = seen[index];
    seen[index] = true;
    if (before) {
      return internal_error(fmt::format("audit: sequence {} has two spans in one step", span.sequence.value));
    }
  }
  if (rows > scheduler_.limits().max_batched_tokens || scheduler_.running() > scheduler_.limits().max_seqs) {
    return internal_error(fmt::format("audit: a step of {} rows with {} sequences, expected at most {} and {}", rows,
                                      scheduler_.running(), scheduler_.limits().max_batched_tokens,
                                      scheduler_.limits().max_seqs));
  }
  return {};
}

Status Stepper::audit_swaps() const {
  const auto swapped =
      std::ranges::count_if(sequences_.entries(), [](const LiveSequence& s) { return s.alive && s.swapped; });
  if (swapped == runner_->cache().swap_space().images()) return {};
  return internal_error(fmt::format("audit: the swap space holds {} states, and {} sequences are swapped",
                                    runner_->cache().swap_space().images(), swapped));
}

// Each running sequence computes the blocks after its position that its tokens fill.
Status Stepper::audit_expected() const {
  std::vector<ExpectedBlocks> computing;
  for (const LiveSequence& s : sequences_.entries()) {
    if (!s.alive || !s.slot || s.expected_begin >= s.expected_end) continue;
    if (runner_->sequences().position(s.slot) / kBlockTokens > s.expected_begin) {
      return internal_error(fmt::format("audit: block {} is expected from a sequence at position {}", s.expected_begin,
                                        runner_->sequences().position(s.slot)));
    }
    computing.push_back({s.chain.get(), s.expected_begin, s.expected_end});
  }
  return sluice::audit_expected(runner_->cache().prefix_cache(), computing);
}

Status Stepper::audit_chain() const {
  const std::vector<LiveSequence>& all = sequences_.entries();
  if (all.empty() || !runner_->cache().prefix_cache().enabled()) return {};
  const LiveSequence& s = all[audits_++ % all.size()];
  if (!s.alive) return {};
  BlockChain again(s.chain->root());
  again.extend(s.tokens);
  bool same = again.blocks() == s.chain->blocks();
  for (int b = 0; same && b < again.blocks(); ++b) same = again[b] == (*s.chain)[b];
  if (!same) return internal_error("audit: a sequence's block hashes are not those of its tokens");
  if (!s.slot) return {};
  const SequenceState& state = runner_->sequences().state(s.slot);
  const CachePools& pools = runner_->cache().pools();
  for (std::size_t b = 0; b < state.latent_pages().size(); ++b) {
    const LatentPage page = state.latent_pages()[b];
    if (!pools.latents().inserted(page) || static_cast<int>(b) >= again.blocks()) continue;
    if (pools.latents().hash(page) == again[static_cast<int>(b)]) continue;
    return internal_error(
        fmt::format("audit: latent page {} holds block {} of a sequence under another name", page.value, b));
  }
  return {};
}

}  // namespace sluice
