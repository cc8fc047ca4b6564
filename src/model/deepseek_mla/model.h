// DeepSeek-V2, V3 and V3.2: multi-head latent attention, with a lightning indexer in V3.2, and a mixture of experts.
//
// Every row attends in the absorbed form: a query is turned to the latent's side, and the cached row (normed latent |
// rotated shared key) is key and value at once, whatever the length of the span. In a profile that asks for it
// (NumericsProfile::expand_from), long spans attend to expanded keys and values instead. The three families differ only
// by their configs. The other files of this folder are the parts: weights, cache layout, attention. forward() reads top
// to bottom. Formulas: docs/models/deepseek_v3.md, docs/models/deepseek_v2.md, docs/models/deepseek_v3.2.md.
// Used by cache_layout.cc, model/families.cc, plan.cc and step.h.
#pragma once

#include <memory>

#include "model/deepseek_mla/weights.h"
#include "model/family_model.h"
#include "model/model_plan.h"
#include "model/residual_stream.h"

namespace sluice::mla {

// The planes of one layer in the CacheLayout: a latent row per token and, with an indexer, an index key per token. The
// layer for multi-token prediction also has the hidden state of the last row.
struct LayerPlanes {
  PlaneId latent, index, hidden;
};

CacheLayout make_cache_layout(const ModelConfig& config, const NumericsProfile& profile, bool mtp,
                              std::vector<LayerPlanes>& planes);

CacheTypes cache_types(const ModelConfig& config);

// check_mtp() checks that the layer for multi-token prediction can draft. mtp_prefix() begins the names of its tensors.
Status check_mtp(const ModelConfig& config);
std::string mtp_prefix(const ModelConfig& config);

Result<ModelPlan> plan(ModelConfig config, NumericsProfile profile, bool mtp, const RankGroup& group);

class DeepSeekMla final : public FamilyModel {
 public:
  static Result<std::unique_ptr<Model>> load(const Exec& exec, Checkpoint checkpoint, ModelConfig config,
                                             NumericsProfile profile, const Loading& loading);
  static std::size_t step_bytes_of(ModelConfig config, NumericsProfile profile, bool mtp, const RankGroup& group,
                                   int rows, Position positions) {
    return DeepSeekMla(Checkpoint::none(), std::move(config), std::move(profile), mtp, group)
        .step_bytes(rows, positions);
  }

  ~DeepSeekMla() override;

  void forward(const Exec& exec, const StepTables& step, const CacheView& cache, float* logits,
               const Observer* observer) override;
  bool drafts() const override { return mtp_; }
  void draft(const Exec& exec, const StepTables& step, const CacheView& cache, int depth, float* logits,
             const Observer* observer) override;

 private:
  struct Step;       // one forward call: the batch, the cache and what every layer shares (step.h)
  struct Workspace;  // buffers kept between steps (step.h)

  DeepSeekMla(Checkpoint checkpoint, ModelConfig config, NumericsProfile profile, bool mtp,
              const RankGroup& group = {});
  void reserve(Scratch& scratch, std::size_t rows) override;
  void block(Step& step, int index);
  void attention(Step& step, int index, const Rows& x, const Rows& y);
  void project_and_store(Step& step, int index, const Rows& x);
  void add_keys(Step& step, int index, ProjectArgs* from_x) const;
  void store_keys(Step& step, int index) const;
  void select_keys(Step& step, int index);
  void attend_absorbed(Step& step, int index, std::size_t from, std::size_t to);
  void attend_expanded(Step& step, int index, const RowSpan& span);
  HeadForm query_form(int index) const;
  PreviousRowsArgs previous_hidden(Step& step) const;
  void enter_mtp(Step& step, float* hidden);
  void write_mtp_keys(Step& step);
  // The layer for multi-token prediction comes after the others.
  int mtp_index() const { return config_.num_hidden_layers; }
  const LayerWeights& layer(int index) const;
  // Its rows belong to the position before their slot's, and slot 0 to none.
  const float* rope(int index) const { return index == mtp_index() ? ropes_[0].delayed() : ropes_[0].data(); }
  std::int32_t first_key(int index) const { return index == mtp_index() ? 1 : 0; }
  Rows by_head(const Rows& rows, int begin, int columns) const;

  bool mtp_;
  Weights weights_;
  std::vector<LayerPlanes> planes_;
  ResidualStream residual_;
  float softmax_scale_;
  std::unique_ptr<Workspace> workspace_;
};

}  // namespace sluice::mla
