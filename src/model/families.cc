// The families of models, one line each: a new family is one folder and one line here.
#include <fmt/format.h>

#include "model/decoder/model.h"
#include "model/deepseek_mla/model.h"
#include "model/deepseek_v4/model.h"
#include "model/model.h"
#include "model/model_plan.h"

namespace sluice {
namespace {

using LoadFamily = Result<std::unique_ptr<Model>> (*)(const Exec&, Checkpoint, ModelConfig, NumericsProfile,
                                                      const LoadProgress&, LoadReport*);
using TypesOfFamily = CacheTypes (*)(const ModelConfig&);
using PlanFamily = Result<ModelPlan> (*)(ModelConfig, NumericsProfile);
struct Family {
  const char* model_type;
  TypesOfFamily cache_types;
  LoadFamily load;
  PlanFamily plan;
};

constexpr Family kFamilies[] = {
    {"deepseek_v2", &mla::cache_types, &mla::DeepSeekMla::load, &mla::plan},
    {"deepseek_v3", &mla::cache_types, &mla::DeepSeekMla::load, &mla::plan},
    {"deepseek_v32", &mla::cache_types, &mla::DeepSeekMla::load, &mla::plan},
    {"llama", &decoder::cache_types, &decoder::Decoder::load, &decoder::plan},
    {"qwen2", &decoder::cache_types, &decoder::Decoder::load, &decoder::plan},
    {"qwen3", &decoder::cache_types, &decoder::Decoder::load, &decoder::plan},
    {"qwen3_moe", &decoder::cache_types, &decoder::Decoder::load, &decoder::plan},
    {"deepseek_v4", &v4::cache_types, &v4::DeepSeekV4::load, &v4::plan},
};

Result<const Family*> find_family(const ModelConfig& config) {
  for (const auto& family : kFamilies) {
    if (config.model_type == family.model_type) return &family;
  }
  return invalid_argument(fmt::format("config.json: key 'model_type': no code runs '{}'", config.model_type));
}

}  // namespace

Result<NumericsProfile> resolve_profile(const EngineOptions& options, const ModelConfig& config) {
  SLUICE_ASSIGN_OR_RETURN(const Family* family, find_family(config));
  return make_profile(options, family->cache_types(config));
}

Result<std::unique_ptr<Model>> load_model(const Exec& exec, const std::string& folder, const EngineOptions& options,
                                          const LoadProgress& progress, LoadReport* report) {
  SLUICE_ASSIGN_OR_RETURN(auto config, load_model_config(folder));
  SLUICE_ASSIGN_OR_RETURN(auto profile, resolve_profile(options, config));
  SLUICE_ASSIGN_OR_RETURN(const Family* family, find_family(config));
  SLUICE_ASSIGN_OR_RETURN(auto checkpoint, Checkpoint::open(folder));
  return family->load(exec, std::move(checkpoint), std::move(config), std::move(profile), progress, report);
}

Result<ModelPlan> plan_model(ModelConfig config, const EngineOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(auto profile, resolve_profile(options, config));
  SLUICE_ASSIGN_OR_RETURN(const Family* family, find_family(config));
  return family->plan(std::move(config), std::move(profile));
}

}  // namespace sluice
