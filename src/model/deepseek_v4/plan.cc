#include <utility>

#include "model/deepseek_v4/model.h"

namespace sluice::v4 {

Result<ModelPlan> plan(ModelConfig config, NumericsProfile profile) {
  SLUICE_RETURN_IF_ERROR(check_supported(config, profile));
  ModelPlan plan;
  std::vector<LayerStreams> streams;
  plan.cache_layout = make_cache_layout(config, profile, streams);
  Weights unbound;  // the table wants somewhere to bind to
  plan.tensors = planned_tensors(weight_table(config, /*bf16_inputs=*/false, unbound), config.quantization);
  plan.config = std::move(config);
  plan.profile = std::move(profile);
  return plan;
}

}  // namespace sluice::v4
