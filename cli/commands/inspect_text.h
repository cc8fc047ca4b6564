// The parts of what `sluice inspect` prints. Each ends with a line break. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/formats/dtype.h"
#include "cache/memory_plan.h"
#include "model/cache_layout.h"
#include "model/model_plan.h"

namespace sluice {

struct InspectedTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::size_t bytes = 0;
};

// A cache in one combination of types.
struct InspectedCache {
  std::string kv, index;  // "fp8"; index "-" without an indexer
  CacheLayout layout;
};

std::string config_text(const ModelPlan& plan, const std::vector<InspectedTensor>& tensors);
// One line for each layer and dtype, or with `all` one for each tensor.
std::string tensor_text(const std::vector<InspectedTensor>& tensors, const ParameterCount& parameters, bool all);
// The bytes that a token and a sequence cost in each kind of plane.
std::string cache_text(const CacheLayout& layout);
// The same in sums, for every combination of types that the model takes.
std::string cache_types_text(const std::vector<InspectedCache>& caches);
std::string memory_text(const MemoryPlan& plan, const MemoryRequest& request);

}  // namespace sluice
