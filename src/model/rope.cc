// Used by model/decoder/model.cc, model/deepseek_mla/model.cc and model/deepseek_v4/model.cc.
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
  if (rope.longrope()) {
    frequencies =
        long_rope_frequencies(rope.theta, dims, rope.uses_long_factors ? rope.long_factors : rope.short_factors);
  }
  if (rope.linear) {
    const auto rotated = static_cast<std::size_t>(rope.rotated * dims / 2);
    for (float& f : frequencies) f /= static_cast<float>(rope.factor);
    for (std::size_t i = rotated; i < frequencies.size(); ++i) frequencies[i] = 0.0F;
  }
  for (std::size_t i = 0; i < rope.frequency_divisors.size(); ++i) frequencies[i] /= rope.frequency_divisors[i];
  return RopeTable(std::move(frequencies), rope.attention_factor);
}

}  // namespace sluice
