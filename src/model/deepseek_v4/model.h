// DeepSeek-V4: hyper-connections around sliding-window attention with compressed entries (CSA, HCA) and a mixture of
// experts.
//
// The files beside this one are the parts of the paper: weights, cache layout, attention, compressor and indexer,
// feed-forward. forward() reads top to bottom. Source: spec sections 2-9.
#pragma once

#include <memory>

#include "kernels/attention.h"
#include "kernels/compressor.h"
#include "kernels/rope_table.h"
#include "model/deepseek_v4/weights.h"
#include "model/model.h"
#include "model/model_plan.h"

namespace sluice::v4 {

// The streams of one layer in the CacheLayout; an absent one has no id.
struct LayerStreams {
  StreamId window;                    // every layer: K = V rows of the last positions
  StreamId latent, open;              // CSA and HCA: compressed entries and the open compressor window
  StreamId index_latent, index_open;  // CSA: the indexer's
};

CacheLayout make_cache_layout(const ModelConfig& config, const NumericsProfile& profile,
                              std::vector<LayerStreams>& streams);

// What this family's code supports beyond a valid config; an error names the key.
Status check_supported(const ModelConfig& config, const NumericsProfile& profile);

CacheTypes cache_types(const ModelConfig& config);

Result<ModelPlan> plan(ModelConfig config, NumericsProfile profile);

class DeepSeekV4 final : public Model {
 public:
  static Result<std::unique_ptr<Model>> load(const Exec& exec, Checkpoint checkpoint, ModelConfig config,
                                             NumericsProfile profile, const Loading& loading);

  const ModelConfig& config() const override { return config_; }
  const NumericsProfile& profile() const override { return profile_; }
  const CacheLayout& cache_layout() const override { return layout_; }
  Status prepare(Device& device, int rows, Position positions) override;
  void forward(const Exec& exec, const StepTables& step, const CacheView& cache, float* logits,
               const Probe* probe) override;

 private:
  struct Step;       // one forward call: the batch, the cache and what every layer shares (step.h)
  struct Workspace;  // buffers kept between steps (step.h)

  DeepSeekV4(Checkpoint checkpoint, ModelConfig config, NumericsProfile profile);
  void reserve(std::size_t rows);
  void layer(Step& step, int index);
  void attention(Step& step, int index, const float* x, float* y);
  void compress_layer(Step& step, int index, const CompressorWeights& weights, StreamId open, StreamId latent, int dim,
                      bool is_index, const float* kv, const float* gate);
  void select_entries(Step& step, int index);
  void feed_forward(Step& step, int index, const float* x, float* y);
  void head(Step& step, float* logits);

  Checkpoint checkpoint_;
  ModelConfig config_;
  NumericsProfile profile_;
  Weights weights_;
  std::vector<LayerStreams> streams_;  // before layout_, whose making fills it
  CacheLayout layout_;
  RopeTable window_rope_, compress_rope_;
  std::unique_ptr<Workspace> workspace_;

 public:
  ~DeepSeekV4() override;
};

}  // namespace sluice::v4
