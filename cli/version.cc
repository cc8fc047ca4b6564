#include "cli/version.h"

#include <fmt/format.h>

#include "cli/model_path.h"
#include "config/model_config.h"
#include "kernels/device/isa.h"
#include "model/numerics.h"
#include "sluice_version.h"

namespace sluice {
namespace {

std::string default_profile() {
  const EngineSetup options;
  const Result<std::string> folder = resolve_model_folder("");
  if (!folder.ok()) return options.numerics.profile;
  const Result<ModelConfig> config = load_model_config(*folder);
  if (!config.ok()) return options.numerics.profile;
  const Result<NumericsProfile> profile = resolve_profile(options, *config);
  return profile.ok() ? fmt::format("{} ({})", profile->text(), model_name("", *folder)) : options.numerics.profile;
}

}  // namespace

std::string version_text() {
  const Result<const KernelTable*> kernels = select_kernels("auto");
  return fmt::format("sluice {} ({})\nisa      {}\nprofile  {}", SLUICE_VERSION, SLUICE_COMMIT,
                     kernels.ok() ? isa_name(**kernels) : "none", default_profile());
}

const char* program_version() {
  return SLUICE_VERSION;
}

const char* program_commit() {
  return SLUICE_COMMIT;
}

}  // namespace sluice
