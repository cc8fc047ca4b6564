// The parts of what `sluice inspect` prints. Each ends with a line break. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "cache/memory_plan.h"
#include "formats/model_config.h"
#include "model/cache_layout.h"
#include "model/numerics.h"

namespace sluice {

struct InspectedTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::size_t bytes = 0;
};

std::string config_text(const ModelConfig& config, const NumericsProfile& profile);
// One line for each layer and dtype, or with `all` one for each tensor.
std::string tensor_text(const std::vector<InspectedTensor>& tensors, std::int64_t parameters, bool all);
// What a token and a sequence cost in each kind of stream.
std::string cache_text(const CacheLayout& layout);
std::string memory_text(const MemoryPlan& plan, const MemoryRequest& request);

}  // namespace sluice
