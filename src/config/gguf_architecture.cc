#include "config/gguf_architecture.h"

#include <fmt/format.h>

namespace sluice {
namespace {

// Every supported architecture, once.
constexpr const GgufArchitecture* kArchitectures[] = {
    &kGgufLlama, &kGgufQwen2, &kGgufQwen3, &kGgufDeepSeek2, &kGgufDeepSeek4,
};

}  // namespace

Result<const GgufArchitecture*> gguf_architecture(const GgufModel& model) {
  GgufFields fields(model, "general.");
  std::string name, names;
  fields.require("architecture", name);
  SLUICE_RETURN_IF_ERROR(fields.status());
  for (const GgufArchitecture* architecture : kArchitectures) {
    if (architecture->name == name) return architecture;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", architecture->name);
  }
  fields.fail("architecture", fmt::format("a supported one ({})", names));
  return fields.status();
}

Result<GgufNames> gguf_names(const GgufModel& model) {
  SLUICE_ASSIGN_OR_RETURN(const GgufArchitecture* architecture, gguf_architecture(model));
  return architecture->tensors;
}

}  // namespace sluice
