// Finds the code that computes a model, by the type of the family's part of its configuration: one entry a folder
// (docs/dev/adding_a_model.md). config/model_families.cc lists the families.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <variant>

#include "base/log.h"
#include "config/gguf/gguf_config.h"
#include "model/decoder/model.h"
#include "model/deepseek_mla/model.h"
#include "model/deepseek_v4/model.h"
#include "model/model.h"
#include "model/model_plan.h"
#include "model/weights/dummy_checkpoint.h"
#include "model/weights/own_head.h"
#include "model/weights/weights_version.h"

namespace sluice {
namespace {

using LoadFamily = Result<std::unique_ptr<Model>> (*)(const Exec&, Checkpoint, ModelConfig, NumericsProfile,
                                                      const Loading&);
using TypesOfFamily = CacheTypes (*)(const ModelConfig&);
using PlanFamily = Result<ModelPlan> (*)(ModelConfig, NumericsProfile, bool mtp, const RankGroup&);
struct Family {
  TypesOfFamily cache_types;
  LoadFamily load;
  PlanFamily plan;
  Status (*check_mtp)(const ModelConfig&);  // checks that its layer for multi-token prediction can be used
  std::string (*mtp_prefix)(const ModelConfig&) = nullptr;  // begins the names of that layer's tensors
};

Status no_mtp(const ModelConfig& config) {
  return invalid_argument(
      "config.json: models of type '" + config.model_type +
      "' have no layer for multi-token prediction that can draft tokens; leave speculation with it out");
}

constexpr Family code_of(const DeepSeekV4Config&) {
  return {&v4::cache_types, &v4::DeepSeekV4::load, &v4::plan, &v4::check_mtp,
          [](const ModelConfig&) { return std::string("mtp.0."); }};
}
constexpr Family code_of(const DeepSeekMlaConfig&) {
  return {&mla::cache_types, &mla::DeepSeekMla::load, &mla::plan, &mla::check_mtp, &mla::mtp_prefix};
}
constexpr Family code_of(const DecoderConfig&) {
  return {&decoder::cache_types, &decoder::Decoder::load, &decoder::plan, &no_mtp};
}

Family family_of(const ModelConfig& config) {
  return std::visit([](const auto& family) { return code_of(family); }, config.family);
}

}  // namespace

Result<NumericsProfile> resolve_profile(const EngineSetup& options, const ModelConfig& config) {
  SLUICE_ASSIGN_OR_RETURN(NumericsProfile profile, make_profile(options, family_of(config).cache_types(config)));
  if (profile.experts != profile.inputs && config.moe.expert_dtype != "fp4") {
    return invalid_argument("--expert-dtype " + options.numerics.expert_dtype +
                            ": the model has no experts in MXFP4 (config.json: 'expert_dtype'); leave the flag out");
  }
  if (config.rope.longrope()) profile.rope = config.rope.uses_long_factors ? "long" : "short";
  return profile;
}

namespace {

void log_rope_factors(const RopeConfig& rope) {
  if (!rope.longrope()) return;
  log_info(
      "rotary embeddings have LongRoPE's {} factors, as --max-model-len is {} the {} positions of the first training",
      rope.uses_long_factors ? "long" : "short", rope.uses_long_factors ? "above" : "at most",
      rope.original_max_position_embeddings);
}

// The weights that synth would write, in any profile: the plan of one that asks nothing of the shapes.
Result<Checkpoint> make_dummy(const std::string& folder, const ModelConfig& config, const ModelOptions& options) {
  EngineSetup plain;
  plain.numerics.profile = "plain";
  SLUICE_ASSIGN_OR_RETURN(const ModelPlan plan, plan_model(config, plain));
  return dummy_checkpoint(folder, plan, 0, options.dummy_experts);
}

}  // namespace

Result<std::unique_ptr<Model>> load_model(const Exec& exec, const std::string& folder, const EngineSetup& options,
                                          const LoadProgress& progress, LoadReport* report) {
  SLUICE_ASSIGN_OR_RETURN(auto config, load_model_config(folder));
  choose_rope_factors(options.model.max_model_len, config);
  if (options.model.balanced_experts) {
    if (config.moe.n_routed_experts == 0) {
      return invalid_argument(fmt::format("--balanced-experts: {} has no routed experts; leave the flag out", folder));
    }
    config.moe.routes_by_token = true;
  }
  SLUICE_ASSIGN_OR_RETURN(auto profile, resolve_profile(options, config));
  log_rope_factors(config.rope);
  const Family family = family_of(config);
  if (options.mtp) SLUICE_RETURN_IF_ERROR(family.check_mtp(config));
  SLUICE_ASSIGN_OR_RETURN(auto checkpoint, is_dummy(options.model) ? make_dummy(folder, config, options.model)
                                                                   : Checkpoint::open(folder, gguf_names));
  untie_own_head(checkpoint, config);
  checkpoint.serve();
  const std::shared_ptr<ServedFiles> files = checkpoint.served();
  if (report != nullptr) {
    report->weights_version = weights_version(checkpoint);
    report->notes = config.notes;
  }
  Loading loading;
  loading.packing.pack = options.model.pack;
  loading.packing.cache = options.model.pack_cache;
  loading.mtp = options.mtp;
  loading.progress = progress;
  loading.report = report;
  const std::vector<std::string> defaults = config.default_sizes;
  auto model = family.load(exec, std::move(checkpoint), std::move(config), std::move(profile), loading);
  SLUICE_RETURN_IF_ERROR(files->check());  // reports a changed file instead of its consequences
  if (!model.ok() && model.status().code() == StatusCode::kInvalidArgument && !defaults.empty()) {
    return invalid_argument(fmt::format("{} (config.json does not say everything; the family's defaults count: {})",
                                        model.status().message(), fmt::join(defaults, ", ")));
  }
  return model;
}

Result<bool> has_mtp(const ModelOptions& model) {
  SLUICE_ASSIGN_OR_RETURN(const auto config, load_model_config(model.folder));
  if (!family_of(config).check_mtp(config).ok()) return false;
  if (is_dummy(model)) return true;
  SLUICE_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::open(model.folder, gguf_names));
  const std::string prefix = family_of(config).mtp_prefix(config);
  return std::ranges::any_of(checkpoint.tensors(), [&](const TensorView* tensor) {
    return tensor->name.starts_with(prefix) || ("model." + tensor->name).starts_with(prefix);
  });
}

Result<ModelPlan> plan_model(ModelConfig config, const EngineSetup& options) {
  choose_rope_factors(options.model.max_model_len, config);
  SLUICE_ASSIGN_OR_RETURN(auto profile, resolve_profile(options, config));
  const Family family = family_of(config);
  if (options.mtp) SLUICE_RETURN_IF_ERROR(family.check_mtp(config));
  return family.plan(std::move(config), std::move(profile), options.mtp,
                     {.ranks = options.machine.tensor_parallel_size});
}

}  // namespace sluice
