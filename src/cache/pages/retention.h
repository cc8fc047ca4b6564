// Retention: which blocks' window pages stay cached after the sequence that computed them has moved on.
//
// A latent page is needed by every later token, so all of them are kept until memory is short. A window page is needed
// only to resume right behind its block, there is one per 128 tokens of every sequence, and it is as large as many
// latent pages. So only those are kept where some request is likely to resume; docs/dev/cache.md has the hit rate
// that each rule brings.
#pragma once

#include <span>
#include <vector>

#include "base/index_types.h"

namespace sluice {

struct RetentionRules {
  bool every_64th = true;         // a ladder through long contexts
  bool before_prompt_end = true;  // the last full block that ends before the prompt's last token: the prompt again
  bool at_prompt_end = true;      // the block that ends with the prompt: the prompt with something behind it
  bool message_start = true;      // the last full block before a message: shared system prompts, edited last messages
  bool finished = true;           // the last full block of a finished sequence: the next turn
  bool preempted = true;          // ... of a preempted one
  bool demand = true;             // where an earlier request wanted to resume and could not

  static constexpr int kLadderBlocks = 64;
};

// The blocks that follow from the prompt alone; ascending. `message_starts` are positions, ascending.
std::vector<int> blocks_to_keep(const RetentionRules& rules, int prompt_tokens,
                                std::span<const Position> message_starts);

}  // namespace sluice
