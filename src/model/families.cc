// The families of models, one line each: a new family is one folder and one line here.
#include <fmt/format.h>

#include "model/deepseek_v4/model.h"
#include "model/model.h"

namespace sluice {
namespace {

using LoadFamily = Result<std::unique_ptr<Model>> (*)(const Exec&, Checkpoint, ModelConfig, NumericsProfile,
                                                      const LoadProgress&, LoadReport*);
struct Family {
  const char* model_type;
  LoadFamily load;
};

constexpr Family kFamilies[] = {
    {"deepseek_v4", &v4::DeepSeekV4::load},
};

}  // namespace

Result<std::unique_ptr<Model>> load_model(const Exec& exec, const std::string& folder, const EngineOptions& options,
                                          const LoadProgress& progress, LoadReport* report) {
  SLUICE_ASSIGN_OR_RETURN(auto config, load_model_config(folder));
  SLUICE_ASSIGN_OR_RETURN(auto profile, resolve_profile(options, config));
  for (const auto& family : kFamilies) {
    if (config.model_type != family.model_type) continue;
    SLUICE_ASSIGN_OR_RETURN(auto checkpoint, Checkpoint::open(folder));
    return family.load(exec, std::move(checkpoint), std::move(config), std::move(profile), progress, report);
  }
  return invalid_argument(fmt::format("config.json: key 'model_type': no code runs '{}'", config.model_type));
}

}  // namespace sluice
