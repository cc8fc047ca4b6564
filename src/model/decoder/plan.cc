// Used by model and model/decoder.
#include <utility>

#include "model/decoder/model.h"

namespace sluice::decoder {

Result<ModelPlan> plan(ModelConfig config, NumericsProfile profile, bool /*mtp*/, const RankGroup& group) {
  ModelPlan plan;
  std::vector<LayerPlanes> planes;
  plan.cache_layout = make_cache_layout(config, profile, group, planes);
  Weights unbound;  // the table needs an object to bind to
  const ScaleForm scales{.suffix = ".weight_scale_inv", .fp8_as_f32 = true};
  WeightTable table = weight_table(config, profile, unbound);
  deal_weights(group, shared_weights(config, group), table);
  plan.tensors = planned_tensors(table, config.quantization, scales);
  plan.step_bytes = [config, profile, group](int rows, Position positions) {
    return Decoder::step_bytes_of(config, profile, group, rows, positions);
  };
  plan.config = std::move(config);
  plan.profile = std::move(profile);
  return plan;
}

}  // namespace sluice::decoder
