#include <utility>

#include "model/decoder/model.h"

namespace sluice::decoder {

Result<ModelPlan> plan(ModelConfig config, NumericsProfile profile, bool /*mtp*/) {
  ModelPlan plan;
  std::vector<LayerPlanes> planes;
  plan.cache_layout = make_cache_layout(config, profile, {}, planes);
  Weights unbound;  // the table wants somewhere to bind to
  const ScaleForm scales{.suffix = ".weight_scale_inv", .fp8_as_f32 = true};
  plan.tensors = planned_tensors(weight_table(config, profile, unbound), config.quantization, scales);
  plan.step_bytes = [config, profile](int rows, Position positions) {
    return Decoder::step_bytes_of(config, profile, rows, positions);
  };
  plan.config = std::move(config);
  plan.profile = std::move(profile);
  return plan;
}

}  // namespace sluice::decoder
