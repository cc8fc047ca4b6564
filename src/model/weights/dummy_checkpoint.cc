// Used by cli/commands/inspect_command.cc, engine/engine_options.cc and model/families.cc.
#include "model/weights/dummy_checkpoint.h"

#include <fmt/format.h>

#include <charconv>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "files/made_tensors.h"
#include "model/weights/synth_weights.h"

namespace sluice {
namespace {

constexpr std::string_view kExperts = ".experts.";

// "layers.3.ffn.experts.70.w1.weight" with 64 held: "layers.3.ffn.experts.6.w1.weight"; empty for one that is held.
std::string held_name(const std::string& name, int held) {
  const std::size_t at = name.find(kExperts);
  if (at == std::string::npos) return "";
  const char* const begin = name.data() + at + kExperts.size();
  int expert = 0;
  const auto [end, error] = std::from_chars(begin, name.data() + name.size(), expert);
  if (error != std::errc() || expert < held) return "";
  return fmt::format("{}{}{}", std::string_view(name).substr(0, at + kExperts.size()), expert % held,
                     std::string_view(end, name.data() + name.size()));
}

}  // namespace

Result<Checkpoint> dummy_checkpoint(const std::string& path, const ModelPlan& plan, std::uint64_t seed,
                                    int held_experts) {
  const int experts = plan.config.moe.n_routed_experts;
  if (held_experts > experts) {
    return invalid_argument(
        fmt::format("--dummy-experts: expected at most the {} routed experts of a layer of {}, "
                    "found {}",
                    experts, path, held_experts));
  }
  std::vector<MadeTensors::Spec> specs;
  for (const PlannedTensor& tensor : plan.tensors) {
    specs.push_back({.name = tensor.name,
                     .dtype = tensor.dtype,
                     .shape = tensor.shape,
                     .same_as = held_experts > 0 ? held_name(tensor.name, held_experts) : ""});
  }
  auto weights = std::make_shared<const SynthWeights>(seed);
  auto planned = std::make_shared<const std::vector<PlannedTensor>>(plan.tensors);
  SLUICE_ASSIGN_OR_RETURN(MadeTensors made,
                          MadeTensors::create(std::move(specs), [weights, planned](std::size_t i, std::size_t offset,
                                                                                   std::span<std::byte> to) {
                            weights->fill((*planned)[i], offset, to);
                          }));
  return Checkpoint::of(std::move(made), path, fmt::format("random weights, seed {}, {} experts", seed, held_experts));
}

}  // namespace sluice
