// out[t, c, :] = table[ids[t], :] for every copy c: the embedding of each row, repeated for the residual streams.
// Used by bench, model, model/deepseek_mla and model/deepseek_v4.
#pragma once

#include <span>

#include "base/index_types.h"
#include "kernels/device/exec.h"
#include "kernels/ops/linear.h"

namespace sluice {

// The table is kF32, kBf16 or kCodes, [vocab, dim], and is read where it lies (a huge table is never packed). ids are
// in [0, vocab). out is [rows, copies, dim].
struct EmbedArgs {
  std::span<const TokenId> ids;
  const WeightView* table = nullptr;
  int copies = 1;
  float* out = nullptr;
};
void embed(const Exec& exec, const EmbedArgs& args);

}  // namespace sluice
