// GatherCase: an all_gather (kernels/ops/all_gather.h) of random shape and values, with the memory of each of its ranks
// before and after. It serves any device whose ranks are tested.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/ops/all_gather.h"
#include "kernels/tests/op_testing.h"
#include "kernels/weights/input_forms.h"

namespace sluice {

class GatherCase {
 public:
  // Shares of this many rows and columns. The forms of `to` are drawn at random, and often those of `from`, too.
  GatherCase(Random& random, int ranks, int rows, int columns)
      : ranks_(ranks), rows_(rows), columns_(columns), whole_(ranks * columns) {
    values_ = random.floats(static_cast<std::size_t>(rows) * static_cast<std::size_t>(whole_));
    forms_only_ = random.between(0, 3) == 0;
    from_values_ = place(random, rows, columns, random.between(0, 2) == 0 ? random.between(1, 5) : 0);
    to_values_ = place(random, rows, whole_, random.between(0, 2) == 0 ? random.between(1, 5) : 0);
    for (const InputForm form : kPreparedForms) {
      if (random.between(0, 2) != 0) continue;
      const auto f = static_cast<std::size_t>(form);
      to_forms_[f] = place(random, rows, input_floats(form, whole_), 0);
      if (random.between(0, 3) != 0) from_forms_[f] = place(random, rows, input_floats(form, columns), 0);
    }
  }

  std::string text() const {
    std::ostringstream text;  // nvcc does not compile fmt
    text << ranks_ << " ranks, " << rows_ << " rows of " << columns_ << " columns a rank, ld " << from_values_.ld
         << " to " << to_values_.ld << (forms_only_ ? ", forms only" : "") << ", forms";
    for (std::size_t f = 0; f < kInputForms; ++f) {
      if (to_forms_[f].has) text << " " << f << (from_forms_[f].has ? "" : " (made)");
    }
    return text.str();
  }
  std::size_t floats() const { return floats_; }  // the floats of a rank's memory

  AllGatherArgs args(float* memory) const {
    AllGatherArgs args{.rows = rows_, .forms_only = forms_only_};
    args.from = {.values = memory + from_values_.at, .ld = from_values_.ld, .columns = columns_};
    args.to = {.values = memory + to_values_.at, .ld = to_values_.ld, .columns = whole_};
    for (std::size_t f = 0; f < kInputForms; ++f) {
      if (from_forms_[f].has) args.from.forms[f] = memory + from_forms_[f].at;
      if (to_forms_[f].has) args.to.forms[f] = memory + to_forms_[f].at;
    }
    return args;
  }
  // The words of a rank's memory: its share, and other values everywhere else.
  std::vector<std::uint32_t> before(int rank) const {
    std::vector<std::uint32_t> memory(floats_, 0xFFA5A5A5U);
    put(memory, from_values_, InputForm::kF32, rank * columns_, columns_);
    for (const InputForm form : kPreparedForms) {
      put(memory, from_forms_[static_cast<std::size_t>(form)], form, rank * columns_, columns_);
    }
    return memory;
  }
  std::vector<std::uint32_t> after(int rank) const {
    std::vector<std::uint32_t> memory = before(rank);
    bool values = !forms_only_;
    for (const InputForm form : kPreparedForms) {
      const auto f = static_cast<std::size_t>(form);
      put(memory, to_forms_[f], form, 0, whole_);
      values = values || (to_forms_[f].has && (!from_forms_[f].has || columns_ % kGatheredBlock != 0));
    }
    if (values) put(memory, to_values_, InputForm::kF32, 0, whole_);
    return memory;
  }

 private:
  struct Array {
    bool has = false;
    std::size_t at = 0;
    std::ptrdiff_t ld = 0;
  };

  // Places an array `odd` floats off an aligned place, with `odd` floats or fewer between rows.
  Array place(Random& random, int rows, int width, int odd) {
    constexpr std::size_t kAligned = 64;
    floats_ = (floats_ + kAligned - 1) / kAligned * kAligned;
    const Array array{true, floats_ + static_cast<std::size_t>(odd),
                      width + (odd != 0 && random.between(0, 1) == 0 ? odd : odd / 4 * 4)};
    floats_ = array.at + static_cast<std::size_t>(rows) * static_cast<std::size_t>(array.ld) + 1;
    return array;
  }
  // Puts columns [first, first + count) of the whole rows.
  void put(std::vector<std::uint32_t>& memory, const Array& array, InputForm form, int first, int count) const {
    if (!array.has) return;
    std::vector<float> made(static_cast<std::size_t>(input_floats(form, count)));
    for (int t = 0; t < rows_; ++t) {
      const float* row = values_.data() + static_cast<std::ptrdiff_t>(t) * whole_ + first;
      if (form == InputForm::kF32) {
        std::copy_n(row, count, made.begin());
      } else {
        prepare_inputs(form, count, row, made.data());
      }
      const std::size_t at = array.at + static_cast<std::size_t>(t * array.ld);
      for (std::size_t i = 0; i < made.size(); ++i) memory[at + i] = std::bit_cast<std::uint32_t>(made[i]);
    }
  }

  int ranks_, rows_, columns_, whole_;
  bool forms_only_ = false;
  std::vector<float> values_;  // [rows, whole]
  std::size_t floats_ = 0;
  Array from_values_, to_values_;
  std::array<Array, kInputForms> from_forms_{}, to_forms_{};
};

}  // namespace sluice
