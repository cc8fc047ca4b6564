// Fault: deliberate faults, one at a time, to see that the tests of the laws find them (`sluice verify --inject`).
// Nothing else sets one.
// Used by engine/engine_options.cc and prefix_cache.h.
#pragma once

#include <string>

#include "sluice/status.h"

namespace sluice {

enum class Fault {
  kNone,
  kSkippedWrite,       // a row of a span does not reach the cache: a window's, or without windows a token's latent
  kEarlyInsertion,     // a block is inserted before its last tokens are computed
  kStaleHash,          // a page given to another sequence keeps the name of its old content
  kChunkReduction,     // attention's splits begin where the span begins
  kLeakedReference,    // a sequence that ends forgets to give back a page
  kIgnoredSalt,        // blocks have the same names under every salt
  kStateOfDrafts,      // the open state after the last draft is committed, whichever of them was right
  kInsertedDrafts,     // a block that a wrong draft completes is inserted
  kFutureEntries,      // rows of a span of few rows see the compressed entries that its last row completes
  kTokenAfterEnd,      // drafts that were right are delivered after the token that ends the sequence
  kForgottenResidual,  // a drafting layer's state is not carried from one pass to the next
  kRowsAtResidual,     // its rows lie at the slot of the state that they come from, not at the token's
};

const char* name(Fault fault);
// "" is kNone; an unknown name is an error that lists them.
Result<Fault> parse_fault(const std::string& name);

}  // namespace sluice
