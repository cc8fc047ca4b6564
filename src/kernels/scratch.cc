#include "kernels/scratch.h"

namespace sluice {

Status Scratch::take(Device& device) {
  constexpr std::size_t kAlignment = 256;
  std::size_t bytes = 0;
  std::vector<std::size_t> offsets;
  for (const ScratchTensor* tensor : tensors_) {
    offsets.push_back(bytes);
    bytes += (tensor->rows_ * tensor->columns_ * sizeof(float) + kAlignment - 1) / kAlignment * kAlignment;
  }
  memory_ = DeviceMemory();
  SLUICE_ASSIGN_OR_RETURN(memory_, device.map(bytes, "the tensors of a step (--max-num-batched-tokens)"));
  for (std::size_t i = 0; i < tensors_.size(); ++i) tensors_[i]->data_ = memory_.data() + offsets[i];
  tensors_.clear();
  return {};
}

}  // namespace sluice
