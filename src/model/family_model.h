// FamilyModel: the base of the models of all families. It owns checkpoint, config, profile and cache layout, and the
// device memory that steps work in: scratch and rotary tables. A family adds its weights and forward(). Thread safety:
// as Model's.
// Used by model/decoder/model.h, model/deepseek_mla/model.h and model/deepseek_v4/model.h.
#pragma once

#include <utility>
#include <vector>

#include "kernels/device/scratch.h"
#include "kernels/ops/rope_table.h"
#include "model/model.h"
#include "model/weights/shares.h"

namespace sluice {

class FamilyModel : public Model {
 public:
  const ModelConfig& config() const final { return config_; }
  const NumericsProfile& profile() const final { return profile_; }
  const CacheLayout& cache_layout() const final { return layout_; }
  std::shared_ptr<ServedFiles> files() const final { return checkpoint_.served(); }
  Status prepare(Device& device, int rows, Position positions) final;
  // The bytes that prepare() would reserve. Called on a model without weights, which is not used otherwise.
  std::size_t step_bytes(int rows, Position positions);

 protected:
  FamilyModel(Checkpoint checkpoint, ModelConfig config, NumericsProfile profile, const RankGroup& group)
      : checkpoint_(std::move(checkpoint)),
        config_(std::move(config)),
        profile_(std::move(profile)),
        group_(group),
        heads_(config_.num_attention_heads) {}

  // Adds the tensors of a step of `rows` rows at most.
  virtual void reserve(Scratch& scratch, std::size_t rows) = 0;
  // Reports the weights that stay whole on every rank.
  static void note_whole(const Loading& loading, std::vector<std::string> names) {
    if (loading.report != nullptr) loading.report->whole = std::move(names);
  }
  // Comes first in forward(): makes sure that the rotary tables have the step's positions.
  void begin(const StepTables& step);
  int step_rows() const { return rows_; }  // the most rows of a step

  // For constructors of families: sets the number of attention heads that this rank computes, and of columns that it
  // hands on.
  void share_heads(int heads, std::int64_t columns) { heads_ = heads, own_heads_ = columns; }
  const OwnColumns* own() const { return group_.ranks > 1 ? &own_ : nullptr; }

  Checkpoint checkpoint_;
  ModelConfig config_;
  NumericsProfile profile_;
  CacheLayout layout_;            // made by the family
  std::vector<RopeTable> ropes_;  // made by the family
  RankGroup group_;               // has this rank's number
  int heads_;                     // attention heads that this rank computes

 private:
  void reserve_own(std::size_t rows);

  Device* device_ = nullptr;
  int rows_ = 0;  // the most rows of a step
  Position positions_ = 0;
  Scratch scratch_;
  OwnColumns own_;
  std::int64_t own_heads_ = 0;
};

}  // namespace sluice
