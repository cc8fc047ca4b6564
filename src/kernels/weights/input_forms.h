// InputForms: the forms in which a set of weights multiplies its inputs, so that the op that writes these inputs makes
// them (Rows of kernels/ops/rows.h). Plain values.
// Used by kernels and model.
#pragma once

#include <array>
#include <initializer_list>

#include "kernels/ops/linear.h"
#include "kernels/ops/rows.h"
#include "kernels/weights/linear_inputs.h"

namespace sluice {

class InputForms {
 public:
  InputForms() = default;
  InputForms(std::initializer_list<InputForm> forms) {
    for (const InputForm form : forms) add(form);
  }
  // The forms that weights may multiply in a profile that wants `inputs` (input_form() of kernels/ops/linear.h).
  static InputForms of_profile(InputForm inputs) {
    // kF32 is not in the list, because all rows have it.
    if (inputs == InputForm::kFp8Blocks) return {InputForm::kFp8, InputForm::kBf16};
    const bool some_take_others = inputs == InputForm::kInt8 || inputs == InputForm::kTiles;
    return some_take_others ? InputForms{inputs, InputForm::kBf16} : InputForms{inputs};
  }

  InputForms& add(InputForm form) {
    has_[static_cast<std::size_t>(form)] = true;
    return *this;
  }
  // Adds the form of a weight; a weight that does not exist multiplies nothing.
  InputForms& add(const LinearWeight& weight) { return weight.out() > 0 ? add(weight.input_form()) : *this; }
  bool has(InputForm form) const { return has_[static_cast<std::size_t>(form)]; }

 private:
  std::array<bool, kInputForms> has_{};
};

inline constexpr std::array kPreparedForms = {InputForm::kBf16, InputForm::kInt8, InputForm::kFp8, InputForm::kTiles};

// Returns the rows without the first `first` rows.
inline Rows rows_from(Rows rows, int first) {
  rows.values += first * rows.ld;
  for (const InputForm form : kPreparedForms) {
    float*& made = rows.forms[static_cast<std::size_t>(form)];
    if (made != nullptr) made += std::ptrdiff_t{first} * rows.parts * input_floats(form, rows.columns);
  }
  return rows;
}

}  // namespace sluice
