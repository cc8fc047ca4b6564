// Shares: how the ranks of a group (kernels/device/exchange.h) deal the outputs of weights among them. Runs of outputs
// are whole heads, groups or strips; what cannot be dealt evenly stays whole on every rank, and nothing is gathered.
// Thread safety: plain values.
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

// A rank's share of `units` alike, in rank order: all of them where they cannot be dealt evenly.
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

// Weights that are dealt: those whose first name has `name` in it, in runs of outputs.
struct SharedWeights {
  std::string_view name;
  std::int64_t runs = 0;  // so many, whole heads say; 1: they are not dealt; 0: strips of outputs
  bool copied = false;    // where there are fewer than ranks, several ranks have copies of one
};
// The shares of a rank, in the specs: of these weights, and of those that make logits. Returns a name for each of
// `shared` that stays whole, and how much of it there is.
std::vector<std::string> deal_weights(const RankGroup& group, std::span<const SharedWeights> shared,
                                      WeightTable& table);

// Rows of which a rank computes some columns only, before they are gathered. Without columns: it computes all.
struct OwnColumns {
  ScratchTensor heads;   // what attention hands to its output projection
  ScratchTensor y;       // [rows, a share of hidden]: of a sub-layer
  ScratchTensor logits;  // [kLogitRows at most, a share of the vocabulary]

  static constexpr std::size_t kLogitRows = 256;  // at once
};

}  // namespace sluice
