// Retention: chooses the blocks whose window pages stay cached after the sequence that computed them has moved on.
//
// A latent page is needed by every later token, so all of them are kept until memory is short. A window page is needed
// only to resume right after its block. There is one per 128 tokens of every sequence, and it is as large as many
// latent pages. So only pages where some request is likely to resume are kept; docs/dev/cache.md has the hit rate that
// each rule brings.
// Used by cache/prefix_cache.h, engine/step/stepper.cc, engine/step/stepper_preemption.cc and sim/simulation.h.
#pragma once

#include <span>
#include <vector>

#include "base/index_types.h"

namespace sluice {

struct RetentionRules {
  bool every_64th = true;         // a ladder through long contexts
  bool before_prompt_end = true;  // the last full block before the prompt's last token: for the same prompt again
  bool at_prompt_end = true;      // the block that ends with the prompt: for a longer prompt
  bool message_start = true;      // the last full block before a message: shared system prompts, edited messages
  bool finished = true;           // the last full block of a finished sequence: for the next turn
  bool preempted = true;          // the last full block of a preempted sequence
  bool demand = true;             // blocks after which an earlier request could not resume

  static constexpr int kLadderBlocks = 64;
};

// The blocks to keep that follow from the prompt alone; ascending. `message_starts` are positions, ascending.
std::vector<int> blocks_to_keep(const RetentionRules& rules, int prompt_tokens,
                                std::span<const Position> message_starts);

}  // namespace sluice
