// Weights in the memory of a device whose ops cannot read the host's: every address that load_weights() bound becomes
// one of the device, and the host keeps no copy except the checkpoint's own pages. Thread safety: one thread.
#pragma once

#include <cstddef>
#include <span>

#include "files/checkpoint.h"
#include "kernels/exec.h"
#include "model/weight_table.h"

namespace sluice {

// Whether the ops of `exec` read weights from its device's memory.
bool weights_on_device(const Exec& exec);

// Moves what the specs have bound, except what the packer (model/weight_packer.h) has already moved. The checkpoint
// keeps the device's memory. kResourceExhausted names the bytes.
Status place_weights(const Exec& exec, Checkpoint& checkpoint, std::span<const WeightSpec* const> bound);

}  // namespace sluice
