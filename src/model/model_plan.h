// ModelPlan: a model as its config alone describes it, without its weights: its tensors as the official checkpoint
// stores them, its cache, and its shape in words. For `sluice inspect` and `sluice synth`.
// Thread safety: plain values.
// Used by bench, cli, engine, model and verify.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/formats/dtype.h"
#include "config/model_config.h"
#include "model/cache_layout.h"
#include "model/engine_setup.h"
#include "model/numerics.h"
#include "model/weights/weight_table.h"
#include "sluice/status.h"

namespace sluice {

struct PlannedTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;            // as stored: a packed FP4 row has half as many bytes as values
  WeightFormat stored = WeightFormat::kBf16;  // the weight's format; ids: only dtype counts
  std::string scales_of;                      // scales: the name of their weight; "" for every other tensor
  std::int64_t parameters = 0;                // values of a weight; 0 for scales and ids
  double own = 1.0;                           // the part of a weight that a rank holds
  std::int64_t row_values = 0;                // values of a row of the weight (scales: of their weight)
  int id_limit = 0;                           // ids: each in [0, id_limit)
  std::string group;                          // optional tensors: their group ("mtp.0")
  bool routed_expert = false, left = false;   // as in WeightSpec
};

struct PlanFact {
  std::string name, text;  // "attention", "16 heads of 192"
};

struct ModelPlan {
  ModelConfig config;
  NumericsProfile profile;
  CacheLayout cache_layout;
  bool mtp = false;                    // the tensors of the group for multi-token prediction are loaded, too
  std::vector<PlannedTensor> tensors;  // in the order of the family's weight table
  std::vector<PlanFact> facts;         // particulars of the family
  // The device memory for steps of up to `rows` rows at positions below `positions` (Model::prepare()).
  std::function<std::size_t(int rows, Position positions)> step_bytes;
};

// The number of parameters, without optional groups (layers for multi-token prediction). Active: without the routed
// experts that a token does not use.
struct ParameterCount {
  std::int64_t all = 0, active = 0;
};
ParameterCount count_parameters(const ModelPlan& plan);

// Plans `config` with the numerics that the options name. Fails if load_model() would fail because of the config. Its
// weights, cache and steps are the part of one rank of options.machine.tensor_parallel_size.
Result<ModelPlan> plan_model(ModelConfig config, const EngineSetup& options);

// Describes how the official checkpoints of a family store the scales of "x.weight": as "x<suffix>", and for FP8
// weights as f32 or as quantization_config says.
struct ScaleForm {
  const char* suffix = ".scale";
  bool fp8_as_f32 = false;
};

// The tensors of a table: each once under its official name, a quantised one followed by its scales.
std::vector<PlannedTensor> planned_tensors(const WeightTable& table, const QuantizationConfig& quantization,
                                           const ScaleForm& form = {});

}  // namespace sluice
