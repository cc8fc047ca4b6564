// DeepSeek-V4: hyper-connections around sliding-window attention with compressed entries (CSA, HCA) and a mixture of
// experts.
//
// The other files of this folder are the parts of the paper: weights, cache layout, attention, compressor and indexer,
// feed-forward. forward() reads top to bottom. Formulas: docs/models/deepseek_v4.md §2-§9.
// Used by cache_layout.cc, model/families.cc, plan.cc and step.h.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/aligned.h"
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

// `planes` are set by layer; with `mtp` there is one more for the layer for multi-token prediction, whose open state is
// X of the last row.
CacheLayout make_cache_layout(const ModelConfig& config, const NumericsProfile& profile, bool mtp,
                              std::vector<LayerPlanes>& planes);

// Checks that this family's code supports the valid config; an error names the key.
Status check_supported(const ModelConfig& config, const NumericsProfile& profile);
// Does the same for its layer for multi-token prediction.
Status check_mtp(const ModelConfig& config);

CacheTypes cache_types(const ModelConfig& config);

Result<ModelPlan> plan(ModelConfig config, NumericsProfile profile, bool mtp, const RankGroup& group);

class DeepSeekV4 final : public FamilyModel {
 public:
  static Result<std::unique_ptr<Model>> load(const Exec& exec, Checkpoint checkpoint, ModelConfig config,
                                             NumericsProfile profile, const Loading& loading);
  static std::size_t step_bytes_of(ModelConfig config, NumericsProfile profile, bool mtp, const RankGroup& group,
                                   int rows, Position positions) {
    return DeepSeekV4(Checkpoint::none(), std::move(config), std::move(profile), mtp, group)
        .step_bytes(rows, positions);
  }

  ~DeepSeekV4() override;

  void forward(const Exec& exec, const StepTables& step, const CacheView& cache, float* logits,
               const Observer* observer) override;
  bool drafts() const override { return mtp_; }
  void draft(const Exec& exec, const StepTables& step, const CacheView& cache, int depth, float* logits,
             const Observer* observer) override;

 private:
  struct Step;       // one forward call: the batch, the cache and what every layer shares (step.h)
  struct Workspace;  // buffers kept between steps (step.h)

  DeepSeekV4(Checkpoint checkpoint, ModelConfig config, NumericsProfile profile, bool mtp, const RankGroup& group = {});
  void reserve(Scratch& scratch, std::size_t rows) override;
  // Leaves the previous site (unless this is the step's first) and enters this one. Returns the normed input of its
  // sub-layer, [rows, hidden], in the forms of `inputs`.
  Rows enter(Step& step, int index, const HyperConnectionSite& site, const Param<float>& norm,
             const InputForms& inputs);
  HcLeaveEnterArgs leave(Step& step, bool first, const InputForms& inputs) const;
  // A layer's parts; index num_hidden_layers is the layer for multi-token prediction.
  const LayerWeights& layer(int index) const;
  int compress_ratio(int index) const;
  Rotation rope(int index) const;
  void block(Step& step, int index);
  void attention(Step& step, int index, const Rows& y);
  KvRows window_rows(Step& step, int index) const;
  KvRows entries(Step& step, int index, bool of_index) const;
  void select_entries(Step& step, int index);
  void head(Step& step, int index, const HyperConnectionSite& site, const Param<float>& norm,
            const LinearWeight& weight, float* logits);
  // mtp.cc: the layer for multi-token prediction
  int mtp_index() const { return config_.num_hidden_layers; }
  void write_mtp_keys(Step& step);
  void enter_mtp(Step& step, float* x);
  void token_inputs(const Exec& exec, std::span<const TokenId> ids, float* out);
  void compute_token_inputs(const Exec& exec, std::span<const TokenId> ids, float* out);
  PreviousRowsArgs previous_residuals(Step& step) const;
  const RopeTable& window_rope() const { return ropes_[0]; }
  const RopeTable& compress_rope() const { return ropes_[1]; }

  const bool mtp_;  // true: with the layer for multi-token prediction
  Weights weights_;
  std::vector<LayerPlanes> planes_;
  std::unique_ptr<Workspace> workspace_;
  AlignedBytes token_inputs_;  // inputs of the multi-token prediction layer, [vocab, hidden]; empty: not made
};

}  // namespace sluice::v4
