// The values of JSON Schema's keyword `format` that are enforced, each as a regular expression for the whole string.
// Thread safety: pure functions.
// Used by schema_scalars.cc.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice {

// A subset of what the RFCs allow, so that every reader takes it. nullopt: another name, which constrains nothing.
std::optional<std::string> format_pattern(std::string_view name);

}  // namespace sluice
