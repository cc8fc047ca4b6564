// What computes a model, by the type of the family's part of its configuration: one function a folder
// (docs/adding-a-model.md). Which families there are: config/model_families.cc.
#include <variant>

#include "config/gguf_config.h"
#include "model/decoder/model.h"
#include "model/deepseek_mla/model.h"
#include "model/deepseek_v4/model.h"
#include "model/model.h"
#include "model/model_plan.h"

namespace sluice {
namespace {

using LoadFamily = Result<std::unique_ptr<Model>> (*)(const Exec&, Checkpoint, ModelConfig, NumericsProfile,
                                                      const Loading&);
using TypesOfFamily = CacheTypes (*)(const ModelConfig&);
using PlanFamily = Result<ModelPlan> (*)(ModelConfig, NumericsProfile);
struct Family {
  TypesOfFamily cache_types;
  LoadFamily load;
  PlanFamily plan;
};

constexpr Family code_of(const DeepSeekV4Config&) {
  return {&v4::cache_types, &v4::DeepSeekV4::load, &v4::plan};
}
constexpr Family code_of(const DeepSeekMlaConfig&) {
  return {&mla::cache_types, &mla::DeepSeekMla::load, &mla::plan};
}
constexpr Family code_of(const DecoderConfig&) {
  return {&decoder::cache_types, &decoder::Decoder::load, &decoder::plan};
}

Family family_of(const ModelConfig& config) {
  return std::visit([](const auto& family) { return code_of(family); }, config.family);
}

}  // namespace

Result<NumericsProfile> resolve_profile(const EngineSetup& options, const ModelConfig& config) {
  return make_profile(options, family_of(config).cache_types(config));
}

Result<std::unique_ptr<Model>> load_model(const Exec& exec, const std::string& folder, const EngineSetup& options,
                                          const LoadProgress& progress, LoadReport* report) {
  SLUICE_ASSIGN_OR_RETURN(auto config, load_model_config(folder));
  SLUICE_ASSIGN_OR_RETURN(auto profile, resolve_profile(options, config));
  SLUICE_ASSIGN_OR_RETURN(auto checkpoint, Checkpoint::open(folder, gguf_names));
  const Family family = family_of(config);
  Loading loading;
  loading.packing.pack = options.model.pack;
  loading.packing.cache = options.model.pack_cache;
  loading.progress = progress;
  loading.report = report;
  return family.load(exec, std::move(checkpoint), std::move(config), std::move(profile), loading);
}

Result<ModelPlan> plan_model(ModelConfig config, const EngineSetup& options) {
  SLUICE_ASSIGN_OR_RETURN(auto profile, resolve_profile(options, config));
  const Family family = family_of(config);
  return family.plan(std::move(config), std::move(profile));
}

}  // namespace sluice
