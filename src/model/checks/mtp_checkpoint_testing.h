// A checkpoint with a layer for multi-token prediction, for tests: that of `folder`, which has none, and random tensors
// for the layer that its config declares.
#pragma once

#include <string>

#include "model/checks/changed_checkpoint_testing.h"

namespace sluice {

class MtpCheckpoint {
 public:
  explicit MtpCheckpoint(const std::string& folder);
  const std::string& path() const { return changed_.path(); }

 private:
  ChangedCheckpoint changed_;
};

}  // namespace sluice
