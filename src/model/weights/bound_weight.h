// The cost of a loaded model's weights in a step: bytes and multiply-adds, by weight. The floors of `sluice bench`
// follow from it. Thread safety: plain values.
// Used by engine/runner/profile_advice.h and model/model.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/ops/linear.h"

namespace sluice {

// The rows of a step that need a weight.
enum class WeightRole {
  kEveryRow,
  kLookedUp,      // a row of it for each token
  kRoutedExpert,  // the rows that the router sends there
  kLogits,        // the rows whose logits are wanted
  kIndexScores,   // every row of a step in which some row sees more entries than are selected
  kDrafted,       // the rows of tokens that are drafted
  kNotUsed,       // another form of a weight that counts already
};

struct BoundWeight {
  std::string name;  // its name in the checkpoint
  WeightRole role = WeightRole::kEveryRow;
  std::int64_t out = 0, in = 0;        // a matrix's; in is 0 if no products are formed
  InputForm inputs = InputForm::kF32;  // a matrix's
  WeightFormat format = WeightFormat::kF32;
  std::size_t stored_bytes = 0;  // bytes in the checkpoint, scales included
  std::size_t used_bytes = 0;    // bytes in the form that the kernels read
};

}  // namespace sluice
