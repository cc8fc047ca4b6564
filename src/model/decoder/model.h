// Llama, Mistral, Qwen2, Qwen3 and Qwen3-MoE: grouped-query attention and a SwiGLU or a mixture of experts between RMS
// norms.
//
// The families differ in the options that their configs switch on: biases, norms of queries and keys, a sliding window
// on some layers, scaled rotary frequencies, experts, a head that is the embedding. A cached row is one head's key,
// then its value; layers with a window keep theirs in Window planes, which do not grow with the context. forward()
// reads top to bottom; attention.cc is the other half.
// Used by model and model/decoder.
#pragma once

#include <algorithm>
#include <memory>

#include "model/decoder/weights.h"
#include "model/family_model.h"
#include "model/model_plan.h"
#include "model/residual_stream.h"

namespace sluice::decoder {

// By layer and key-value head.
using LayerPlanes = std::vector<PlaneId>;

CacheLayout make_cache_layout(const ModelConfig& config, const NumericsProfile& profile, const RankGroup& group,
                              std::vector<LayerPlanes>& planes);

// Returns whether ranks share attention by heads: with their key heads, or copies of one if there are fewer than ranks.
inline bool shares_heads(const ModelConfig& config, const RankGroup& group) {
  const int key_heads = config.num_key_value_heads;
  return deals(group, config.num_attention_heads) && (key_heads % group.ranks == 0 || group.ranks % key_heads == 0);
}
// The key heads that a rank computes.
inline int own_key_heads(const ModelConfig& config, const RankGroup& group) {
  return shares_heads(config, group) ? std::max(1, config.num_key_value_heads / group.ranks)
                                     : config.num_key_value_heads;
}

CacheTypes cache_types(const ModelConfig& config);

Result<ModelPlan> plan(ModelConfig config, NumericsProfile profile, bool mtp, const RankGroup& group);

class Decoder final : public FamilyModel {
 public:
  static Result<std::unique_ptr<Model>> load(const Exec& exec, Checkpoint checkpoint, ModelConfig config,
                                             NumericsProfile profile, const Loading& loading);
  static std::size_t step_bytes_of(ModelConfig config, NumericsProfile profile, const RankGroup& group, int rows,
                                   Position positions) {
    return Decoder(Checkpoint::none(), std::move(config), std::move(profile), group).step_bytes(rows, positions);
  }
  ~Decoder() override;

  void forward(const Exec& exec, const StepTables& step, const CacheView& cache, float* logits,
               const Observer* observer) override;

 private:
  struct Step;       // one forward call: the batch, the cache and what every layer shares (step.h)
  struct Workspace;  // buffers kept between steps (step.h)

  Decoder(Checkpoint checkpoint, ModelConfig config, NumericsProfile profile, const RankGroup& group = {});
  void reserve(Scratch& scratch, std::size_t rows) override;
  void attention(Step& step, int index, const Rows& x, const Rows& y);

  Weights weights_;
  std::vector<LayerPlanes> planes_;
  ResidualStream residual_;
  std::unique_ptr<Workspace> workspace_;
};

// The offset of the value in a cached row: its key fills whole vectors.
inline int value_offset(int head_dim) {
  return (head_dim + 15) / 16 * 16;
}

}  // namespace sluice::decoder
