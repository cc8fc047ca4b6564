#include "model/rope.h"

#include <utility>
#include <vector>

namespace sluice {

RopeTable make_rope_table(const RopeConfig& rope, int dims) {
  const YarnScaling yarn = yarn_scaling(rope);
  std::vector<float> frequencies = rope_frequencies(rope.theta, dims, rope.yarn ? &yarn : nullptr);
  if (rope.llama3) {
    scale_as_llama3({rope.factor, rope.low_freq_factor, rope.high_freq_factor, rope.original_max_position_embeddings},
                    &frequencies);
  }
  for (std::size_t i = 0; i < rope.frequency_divisors.size(); ++i) frequencies[i] /= rope.frequency_divisors[i];
  return RopeTable(std::move(frequencies), rope.attention_factor);
}

}  // namespace sluice
