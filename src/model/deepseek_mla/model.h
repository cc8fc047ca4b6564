// DeepSeek-V2, V3 and V3.2: multi-head latent attention, with a lightning indexer in V3.2, and a mixture of experts.
//
// Every row attends in the absorbed form: a query is turned to the latent's side, and the cached row (normed latent |
// rotated shared key) is key and value at once, whatever the length of the span. In a profile that asks for it
// (NumericsProfile::expand_from), long spans attend to expanded keys and values instead. The three families differ only
// in what their configs ask for. The files beside this one are the parts: weights, cache layout, attention. forward()
// reads top to bottom. Formulas: docs/models/deepseek_v3.md, docs/models/deepseek_v2.md, docs/models/deepseek_v3.2.md.
#pragma once

#include <memory>

#include "model/deepseek_mla/weights.h"
#include "model/family_model.h"
#include "model/model_plan.h"
#include "model/residual_stream.h"

namespace sluice::mla {

// The planes of one layer in the CacheLayout: a latent row per token and, with an indexer, an index key per token.
struct LayerPlanes {
  PlaneId latent, index;
};

CacheLayout make_cache_layout(const ModelConfig& config, const NumericsProfile& profile,
                              std::vector<LayerPlanes>& planes);

CacheTypes cache_types(const ModelConfig& config);

Result<ModelPlan> plan(ModelConfig config, NumericsProfile profile, bool mtp);

class DeepSeekMla final : public FamilyModel {
 public:
  static Result<std::unique_ptr<Model>> load(const Exec& exec, Checkpoint checkpoint, ModelConfig config,
                                             NumericsProfile profile, const Loading& loading);
  static std::size_t step_bytes_of(ModelConfig config, NumericsProfile profile, int rows, Position positions) {
    return DeepSeekMla(Checkpoint::none(), std::move(config), std::move(profile)).step_bytes(rows, positions);
  }

  ~DeepSeekMla() override;

  void forward(const Exec& exec, const StepTables& step, const CacheView& cache, float* logits,
               const Tap* tap) override;

 private:
  struct Step;       // one forward call: the batch, the cache and what every layer shares (step.h)
  struct Workspace;  // buffers kept between steps (step.h)

  DeepSeekMla(Checkpoint checkpoint, ModelConfig config, NumericsProfile profile);
  void reserve(Scratch& scratch, std::size_t rows) override;
  void attention(Step& step, int index, const Rows& x, const Rows& y);
  void project_and_store(Step& step, int index, const Rows& x);
  void select_keys(Step& step, int index);
  void attend_absorbed(Step& step, int index, std::size_t from, std::size_t to);
  void attend_expanded(Step& step, int index, const RowSpan& span);
  HeadForm query_form() const;
  Rows by_head(const Rows& rows, int begin, int columns) const;

  Weights weights_;
  std::vector<LayerPlanes> planes_;
  ResidualStream residual_;
  float softmax_scale_;
  std::unique_ptr<Workspace> workspace_;
};

}  // namespace sluice::mla
