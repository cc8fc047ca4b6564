// Used by model and model/weights.
#include "kernels/device/scratch.h"

#include "kernels/weights/linear_inputs.h"

namespace sluice {

Status Scratch::take(Device& device) {
  std::size_t bytes = 0;
  // Reserves room for this many floats and returns its offset.
  const auto place = [&bytes](std::size_t floats) {
    constexpr std::size_t kAlignment = 256;
    const std::size_t at = bytes;
    bytes += (floats * sizeof(float) + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  };
  const auto place_all = [&](auto&& at) {
    bytes = 0;
    for (ScratchTensor* tensor : tensors_) {
      tensor->data_ = at(place(tensor->rows_ * tensor->columns_));
      for (const InputForm form : kPreparedForms) {
        if (!tensor->wanted_.has(form)) continue;
        const int floats = input_floats(form, static_cast<int>(tensor->columns_));
        tensor->forms_[static_cast<std::size_t>(form)] =
            reinterpret_cast<float*>(at(place(tensor->rows_ * static_cast<std::size_t>(floats))));
      }
    }
  };
  place_all([](std::size_t) { return static_cast<std::byte*>(nullptr); });  // a first pass that only adds up the bytes
  memory_ = DeviceMemory();
  SLUICE_ASSIGN_OR_RETURN(memory_, device.map(bytes, "the tensors of a step (--max-num-batched-tokens)"));
  place_all([this](std::size_t offset) { return memory_.data() + offset; });
  tensors_.clear();
  return {};
}

}  // namespace sluice
