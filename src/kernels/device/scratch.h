// Scratch: the tensors that a step's ops hand to each other, in one piece of a device's memory that is allocated once,
// for the largest step. Addresses do not move afterwards, and no two tensors that live at once share memory.
//
//   Scratch scratch;
//   scratch.add(rows, dim, &workspace.q);           for each tensor, at its largest
//   SLUICE_RETURN_IF_ERROR(scratch.take(device));   now they have their places
//   float* q = workspace.q.floats(n);               of n rows, no more than were asked for
// A tensor that linears read also has room for the forms that they multiply (kernels/ops/rows.h). Thread safety:
// floats(), ints() and rows() by any thread after take().
// Used by model and model/weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "kernels/device/device.h"
#include "kernels/ops/rows.h"
#include "kernels/weights/input_forms.h"
#include "sluice/status.h"

namespace sluice {

// A tensor of f32 or int32 values.
class ScratchTensor {
 public:
  float* floats(int rows) const { return at<float>(rows); }
  std::int32_t* ints(int rows) const { return at<std::int32_t>(rows); }
  // Returns rows with memory for `forms`; these must be among the forms that were added.
  Rows rows(int rows, const InputForms& forms = {}) const {
    Rows found = contiguous_rows(floats(rows), static_cast<int>(columns_));
    for (const InputForm form : kPreparedForms) {
      if (forms.has(form)) found.forms[static_cast<std::size_t>(form)] = forms_[static_cast<std::size_t>(form)];
    }
    return found;
  }
  int columns() const { return static_cast<int>(columns_); }

 private:
  friend class Scratch;
  template <class T>
  T* at(int rows) const {
    SLUICE_CHECK(static_cast<std::size_t>(rows) <= rows_, "a step has no more rows than its scratch was made for");
    return reinterpret_cast<T*>(data_);
  }
  std::byte* data_ = nullptr;
  std::array<float*, kInputForms> forms_{};
  InputForms wanted_;
  std::size_t rows_ = 0, columns_ = 0;
};

class Scratch {
 public:
  void add(std::size_t rows, std::int64_t columns, ScratchTensor* tensor, const InputForms& forms = {}) {
    tensor->rows_ = rows, tensor->columns_ = static_cast<std::size_t>(columns), tensor->wanted_ = forms;
    tensors_.push_back(tensor);
  }
  // Frees its memory, and places all tensors added since the last take(). kResourceExhausted names the bytes.
  Status take(Device& device);
  std::size_t bytes() const { return memory_.size(); }

 private:
  std::vector<ScratchTensor*> tensors_;
  DeviceMemory memory_;
};

}  // namespace sluice
