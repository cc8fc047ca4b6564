// Shares: deals the outputs of weights among the ranks of a group (kernels/device/exchange.h). Runs of outputs are
// whole heads, groups or strips. A weight that cannot be dealt evenly stays whole on every rank, and nothing is
// gathered. Thread safety: plain values.
// Used by model, model/decoder, model/deepseek_mla and model/deepseek_v4.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/device/exchange.h"
#include "kernels/device/scratch.h"
#include "model/weights/weight_table.h"

namespace sluice {

// A rank's share of `units` equal units, in rank order: all of them if they cannot be dealt evenly.
inline bool deals(const RankGroup& group, std::int64_t units) {
  return group.ranks > 1 && units % group.ranks == 0;
}
inline OutputShare share_of(const RankGroup& group, std::int64_t units) {
  if (!deals(group, units)) return {0, units};
  const std::int64_t count = units / group.ranks;
  return {group.rank * count, count};
}

// Outputs are dealt in strips of sixteen, which no kernel divides.
inline constexpr int kShareStrip = 16;
inline bool deals_outputs(const RankGroup& group, std::int64_t outputs) {
  return outputs % kShareStrip == 0 && deals(group, outputs / kShareStrip);
}

// Weights that are dealt in runs of outputs: the weights whose first name contains `name`.
struct SharedWeights {
  std::string_view name;
  std::int64_t runs = 0;  // number of runs, for instance heads; 1: they are not dealt; 0: strips of outputs
  bool copied = false;    // with fewer runs than ranks, several ranks have copies of one
};
// Sets the shares of a rank in the specs of these weights, and of the weights that make logits. Returns a name for each
// of `shared` that stays whole, with its size.
std::vector<std::string> deal_weights(const RankGroup& group, std::span<const SharedWeights> shared,
                                      WeightTable& table);

// Rows of which a rank computes only some columns, before they are gathered. A tensor without columns: it computes all.
struct OwnColumns {
  ScratchTensor heads;   // attention's results for its output projection
  ScratchTensor y;       // [rows, a share of hidden]: a sub-layer's output
  ScratchTensor logits;  // [kLogitRows at most, a share of the vocabulary]

  static constexpr std::size_t kLogitRows = 256;  // rows at once
};

}  // namespace sluice
