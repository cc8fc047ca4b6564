// Exchange: what the ranks of a group bring their outputs together with. A rank is one device of a group that computes
// the same steps as the others, each with its share of the weights' outputs (kernels/ops/all_gather.h).
//
// No sum crosses ranks: what travels are outputs, whole as one rank computed them. So the number of ranks changes no
// bit. Every wait has a limit; a rank that has not come by then ends the group, whose status names it.
// Thread safety: status() by any thread; ops use the rest.
#pragma once

#include "sluice/status.h"

namespace sluice {

class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual int ranks() const = 0;
  // kInternal once a rank did not come, with its name. Never ok again.
  virtual Status status() const = 0;
};

// The place of an Exec's device among the ranks of its group; alone by default.
struct RankGroup {
  int rank = 0, ranks = 1;
  Exchange* exchange = nullptr;  // of the kind that the device's ops use; null: alone
};

}  // namespace sluice
