// Exchange: the means by which the ranks of a group bring their outputs together. A rank is one device of a group that
// computes the same steps as the others, each with its share of the weights' outputs (kernels/ops/all_gather.h).
//
// No sum crosses ranks: an output travels whole, as one rank computed it. So the number of ranks changes no bit. Every
// wait has a limit. A rank that has not come by then ends the group, whose status names it. Thread safety: status() by
// any thread; ops use the rest.
// Used by kernels/cuda, kernels/device and model/weights.
#pragma once

#include "sluice/status.h"

namespace sluice {

class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual int ranks() const = 0;
  // kInternal, with a rank's name, once that rank did not come. It never becomes ok again.
  virtual Status status() const = 0;
};

// The place of an Exec's device among the ranks of its group; alone by default.
struct RankGroup {
  int rank = 0, ranks = 1;
  Exchange* exchange = nullptr;  // an exchange of the kind that the device's ops use; null: alone
};

}  // namespace sluice
