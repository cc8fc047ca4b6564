// FamilyModel: what the models of all families own: checkpoint, config, profile and cache layout, and the device memory
// that their steps work in: scratch and rotary tables. A family adds its weights and forward(). Thread
// safety: as Model's.
#pragma once

#include <vector>

#include "kernels/device/scratch.h"
#include "kernels/ops/rope_table.h"
#include "model/model.h"

namespace sluice {

class FamilyModel : public Model {
 public:
  const ModelConfig& config() const final { return config_; }
  const NumericsProfile& profile() const final { return profile_; }
  const CacheLayout& cache_layout() const final { return layout_; }
  std::shared_ptr<ServedFiles> files() const final { return checkpoint_.served(); }
  Status prepare(Device& device, int rows, Position positions) final;
  // The bytes that prepare() would take. For a model without weights, which is not used otherwise.
  std::size_t step_bytes(int rows, Position positions);

 protected:
  FamilyModel(Checkpoint checkpoint, ModelConfig config, NumericsProfile profile)
      : checkpoint_(std::move(checkpoint)), config_(std::move(config)), profile_(std::move(profile)) {}

  // Adds the tensors of a step of `rows` rows at most.
  virtual void reserve(Scratch& scratch, std::size_t rows) = 0;
  // First in forward(): makes sure that the rotary tables have the step's positions.
  void begin(const StepTables& step);
  int step_rows() const { return rows_; }  // at most, of a step

  Checkpoint checkpoint_;
  ModelConfig config_;
  NumericsProfile profile_;
  CacheLayout layout_;            // the family's to make
  std::vector<RopeTable> ropes_;  // too

 private:
  Device* device_ = nullptr;
  int rows_ = 0;  // of a step at most
  Position positions_ = 0;
  Scratch scratch_;
};

}  // namespace sluice
