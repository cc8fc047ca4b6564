// The values of JSON Schema's keyword `format` that are enforced, each as a regular expression for the whole string.
// Thread safety: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice {

// date, time, date-time, duration, email, hostname, ipv4, ipv6, uuid, uri: a subset of what the RFCs allow, so that
// every reader takes it. nullopt: another name.
std::optional<std::string> format_pattern(std::string_view name);

inline constexpr std::string_view kFormatNames =
    "date, time, date-time, duration, email, hostname, ipv4, ipv6, uuid, uri";

}  // namespace sluice
