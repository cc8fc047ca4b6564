// Used by cache/prefix_cache.h, engine/step/stepper.cc, engine/step/stepper_preemption.cc and sim/simulation.h.
#include "cache/pages/retention.h"

#include <algorithm>

namespace sluice {

std::vector<int> blocks_to_keep(const RetentionRules& rules, int prompt_tokens,
                                std::span<const Position> message_starts) {
  std::vector<int> blocks;
  const auto keep_before = [&](Position p) {
    if (p >= kBlockTokens) blocks.push_back(p / kBlockTokens - 1);
  };
  if (rules.before_prompt_end) keep_before(prompt_tokens - 1);
  if (rules.at_prompt_end && prompt_tokens % kBlockTokens == 0) keep_before(prompt_tokens);
  if (rules.message_start) {
    for (const Position p : message_starts) keep_before(std::min(p, prompt_tokens));
  }
  std::sort(blocks.begin(), blocks.end());
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  return blocks;
}

}  // namespace sluice
