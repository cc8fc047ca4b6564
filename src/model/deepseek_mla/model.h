// DeepSeek-V2, V3 and V3.2: multi-head latent attention, with a lightning indexer in V3.2, and a mixture of experts.
//
// Every row attends in the absorbed form: a query is turned to the latent's side, and the cached row (normed latent |
// rotated shared key) is key and value at once, whatever the length of the span. Only in a profile that asks for it
// (NumericsProfile::expand_from) long spans attend to expanded keys and values instead. The three families differ in
// what their configs ask for only. The files beside this one are the parts: weights, cache layout, attention, indexer.
// forward() reads top to bottom. Source: spec sections 17-19.
#pragma once

#include <memory>

#include "kernels/attention.h"
#include "kernels/rope_table.h"
#include "model/deepseek_mla/weights.h"
#include "model/model.h"
#include "model/model_plan.h"
#include "model/residual_stream.h"

namespace sluice::mla {

// The streams of one layer in the CacheLayout: a latent row a token, and an index key a token with an indexer.
struct LayerStreams {
  StreamId latent, index;
};

CacheLayout make_cache_layout(const ModelConfig& config, const NumericsProfile& profile,
                              std::vector<LayerStreams>& streams);

CacheTypes cache_types(const ModelConfig& config);

Result<ModelPlan> plan(ModelConfig config, NumericsProfile profile);

class DeepSeekMla final : public Model {
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

  DeepSeekMla(Checkpoint checkpoint, ModelConfig config, NumericsProfile profile);
  void reserve(std::size_t rows);
  void reserve_expanded(std::size_t rows);
  void attention(Step& step, int index, const float* x, float* y);
  void attend_absorbed(Step& step, int index, std::size_t from, std::size_t to, const float* q, float* values);
  void attend_expanded(Step& step, int index, const RowSpan& span, const float* q, float* values);
  void attend_piece(Step& step, int index, const RowSpan& span, Position first, Position last, const float* q,
                    float* out, float* lse);
  const float* expand(Step& step, int index, const float* latents, int keys, int head, int count);
  void project(Step& step, int index, const float* x, float* q, float* latent);
  void write_index_keys(Step& step, int index);
  void select_keys(Step& step, int index);
  void write_rows(Step& step, StreamId stream, const float* x);

  Checkpoint checkpoint_;
  ModelConfig config_;
  NumericsProfile profile_;
  Weights weights_;
  std::vector<LayerStreams> streams_;  // before layout_, whose making fills it
  CacheLayout layout_;
  RopeTable rope_;
  ResidualStream residual_;
  float softmax_scale_;
  std::unique_ptr<Workspace> workspace_;

 public:
  ~DeepSeekMla() override;
};

}  // namespace sluice::mla
