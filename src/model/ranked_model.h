// RankedModel: the parts of a model that the ranks of a DeviceGroup hold, as one model. Every rank computes each step
// with its share of the weights' outputs and gathers the other ranks' outputs (kernels/ops/all_gather.h). So the logits
// are those of the whole model, bit for bit, on every rank.
//
// Steps, caches and tables are those of the group: a rank's part gets them with its own addresses. Exports and observed
// values are rank 0's. Thread safety: as Model's.
// Used by engine/load.cc.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/device/device_group.h"
#include "model/model.h"

namespace sluice {

class RankedModel final : public Model {
 public:
  // `parts` are by rank, on the devices of `group`, which must outlive the model.
  RankedModel(std::vector<std::unique_ptr<Model>> parts, DeviceGroup& group);

  const ModelConfig& config() const override { return parts_.front()->config(); }
  const NumericsProfile& profile() const override { return parts_.front()->profile(); }
  const CacheLayout& cache_layout() const override { return parts_.front()->cache_layout(); }
  Status prepare(Device& device, int rows, Position positions) override;
  void forward(const Exec& exec, const StepTables& step, const CacheView& cache, float* logits,
               const Observer* observer) override;
  std::shared_ptr<ServedFiles> files() const override { return parts_.front()->files(); }
  bool drafts() const override { return parts_.front()->drafts(); }
  void draft(const Exec& exec, const StepTables& step, const CacheView& cache, int depth, float* logits,
             const Observer* observer) override;

 private:
  void place_views(const CacheView& cache);

  std::vector<std::unique_ptr<Model>> parts_;
  std::vector<CacheView> views_;  // views of the cache, by rank; ops that run later read them
  DeviceGroup& group_;
};

// Loads a part for each rank, as load_model() does, one after the other: exec.device is `group`.
Result<std::unique_ptr<Model>> load_ranked_model(const Exec& exec, DeviceGroup& group, const std::string& folder,
                                                 const EngineSetup& options, const LoadProgress& progress,
                                                 LoadReport* report);

}  // namespace sluice
