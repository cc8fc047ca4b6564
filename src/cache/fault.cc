// Used by engine/engine_options.cc and prefix_cache.h.
#include "cache/fault.h"

#include <fmt/format.h>

namespace sluice {
namespace {

constexpr Fault kFaults[] = {Fault::kSkippedWrite,   Fault::kEarlyInsertion,    Fault::kStaleHash,
                             Fault::kChunkReduction, Fault::kLeakedReference,   Fault::kIgnoredSalt,
                             Fault::kStateOfDrafts,  Fault::kInsertedDrafts,    Fault::kFutureEntries,
                             Fault::kTokenAfterEnd,  Fault::kForgottenResidual, Fault::kRowsAtResidual};

}  // namespace

const char* name(Fault fault) {
  switch (fault) {
    case Fault::kNone:
      return "";
    case Fault::kSkippedWrite:
      return "skipped-write";
    case Fault::kEarlyInsertion:
      return "early-insertion";
    case Fault::kStaleHash:
      return "stale-hash";
    case Fault::kChunkReduction:
      return "chunk-reduction";
    case Fault::kLeakedReference:
      return "leaked-reference";
    case Fault::kIgnoredSalt:
      return "ignored-salt";
    case Fault::kStateOfDrafts:
      return "state-of-drafts";
    case Fault::kInsertedDrafts:
      return "inserted-drafts";
    case Fault::kFutureEntries:
      return "future-entries";
    case Fault::kTokenAfterEnd:
      return "token-after-end";
    case Fault::kForgottenResidual:
      return "forgotten-residual";
    case Fault::kRowsAtResidual:
      return "rows-at-residual";
  }
  return "?";
}

Result<Fault> parse_fault(const std::string& wanted) {
  if (wanted.empty()) return Fault::kNone;
  std::string all;
  for (const Fault fault : kFaults) {
    if (wanted == name(fault)) return fault;
    all += fmt::format("{}{}", all.empty() ? "" : ", ", name(fault));
  }
  return invalid_argument(fmt::format("--inject: expected one of {}, found '{}'", all, wanted));
}

}  // namespace sluice
