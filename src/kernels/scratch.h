// Scratch: the tensors that a step's ops hand to each other, in one piece of a device's memory that is taken once, for
// the most rows of a step. Addresses do not move afterwards, and no two tensors that live at once share memory.
//
//   Scratch scratch;
//   scratch.add(rows * dim, &workspace.q);          for each tensor, at its largest
//   SLUICE_RETURN_IF_ERROR(scratch.take(device));   they have their places
//   float* q = workspace.q.get(n);                  n values or fewer than were asked for
// Thread safety: get() by any thread once taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "kernels/device.h"
#include "sluice/status.h"

namespace sluice {

// Of f32 or int32 values.
class ScratchTensor {
 public:
  float* get(std::size_t values) const { return at<float>(values); }
  std::int32_t* ints(std::size_t values) const { return at<std::int32_t>(values); }

 private:
  friend class Scratch;
  template <class T>
  T* at(std::size_t values) const {
    SLUICE_CHECK(values <= values_, "a step has no more rows than its scratch was made for");
    return reinterpret_cast<T*>(data_);
  }
  std::byte* data_ = nullptr;
  std::size_t values_ = 0;
};

class Scratch {
 public:
  void add(std::size_t values, ScratchTensor* tensor) {
    tensor->values_ = values;
    tensors_.push_back(tensor);
  }
  // Gives back what it has, and places all that was added since the last take(). kResourceExhausted with the bytes.
  Status take(Device& device);
  std::size_t bytes() const { return memory_.size(); }

 private:
  std::vector<ScratchTensor*> tensors_;
  DeviceMemory memory_;
};

}  // namespace sluice
