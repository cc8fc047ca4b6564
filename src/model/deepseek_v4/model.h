// DeepSeek-V4: hyper-connections around sliding-window attention with compressed entries (CSA, HCA) and a mixture of
// experts.
//
// The files beside this one are the parts of the paper: weights, cache layout, attention, compressor and indexer,
// feed-forward. forward() reads top to bottom. Formulas: docs/models/deepseek_v4.md §2-§9.
#pragma once

#include <memory>

#include "model/deepseek_v4/weights.h"
#include "model/family_model.h"
#include "model/model_plan.h"

namespace sluice::v4 {

// The planes of one layer in the CacheLayout; an absent one has no id.
struct LayerPlanes {
  PlaneId window;                    // every layer: K = V rows of the last positions
  PlaneId latent, open;              // CSA and HCA: compressed entries and the open compressor window
  PlaneId index_latent, index_open;  // CSA: the indexer's
};

CacheLayout make_cache_layout(const ModelConfig& config, const NumericsProfile& profile,
                              std::vector<LayerPlanes>& planes);

// What this family's code supports beyond a valid config; an error names the key.
Status check_supported(const ModelConfig& config, const NumericsProfile& profile);

CacheTypes cache_types(const ModelConfig& config);

Result<ModelPlan> plan(ModelConfig config, NumericsProfile profile);

class DeepSeekV4 final : public FamilyModel {
 public:
  static Result<std::unique_ptr<Model>> load(const Exec& exec, Checkpoint checkpoint, ModelConfig config,
                                             NumericsProfile profile, const Loading& loading);
  static std::size_t step_bytes_of(ModelConfig config, NumericsProfile profile, int rows, Position positions) {
    return DeepSeekV4(Checkpoint::none(), std::move(config), std::move(profile)).step_bytes(rows, positions);
  }

  ~DeepSeekV4() override;

  void forward(const Exec& exec, const StepTables& step, const CacheView& cache, float* logits,
               const Tap* tap) override;

 private:
  struct Step;       // one forward call: the batch, the cache and what every layer shares (step.h)
  struct Workspace;  // buffers kept between steps (step.h)

  DeepSeekV4(Checkpoint checkpoint, ModelConfig config, NumericsProfile profile);
  void reserve(Scratch& scratch, std::size_t rows) override;
  // Leaves the previous site (unless this is the step's first) and enters this one. Returns the normed input of its
  // sub-layer, [rows, hidden], in the forms of `inputs`.
  Rows enter(Step& step, int index, const HyperConnectionSite& site, const Param<float>& norm,
             const InputForms& inputs);
  HcLeaveEnterArgs leave(Step& step, bool first, const InputForms& inputs) const;
  void attention(Step& step, int index, const Rows& y);
  KvRows entries(Step& step, int index, bool of_index) const;
  void select_entries(Step& step, int index);
  void head(Step& step, float* logits);
  const RopeTable& window_rope() const { return ropes_[0]; }
  const RopeTable& compress_rope() const { return ropes_[1]; }

  Weights weights_;
  std::vector<LayerPlanes> planes_;
  std::unique_ptr<Workspace> workspace_;
};

}  // namespace sluice::v4
