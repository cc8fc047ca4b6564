// The words of the engine's options (base/option_words.h), for flags, messages and reports.
// Used by cli, engine and verify.
#pragma once

#include <span>
#include <string_view>

#include "base/option_words.h"
#include "sluice/options.h"

namespace sluice {

std::span<const std::string_view> option_words(LoadFormat option);
std::span<const std::string_view> option_words(MlaPrefill option);
std::span<const std::string_view> option_words(AsyncScheduling option);
std::span<const std::string_view> option_words(Speculative option);
std::span<const std::string_view> option_words(SchedulingPolicy option);

}  // namespace sluice
