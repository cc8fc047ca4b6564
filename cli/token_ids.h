// Token ids as people write them: decimal numbers, split by commas or white space.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sluice/status.h"

namespace sluice {

// `what` names the text in messages ("--ids"). Numbers are checked to be in [0, 2^31); at least one is expected.
Result<std::vector<std::int32_t>> parse_numbers(std::string_view text, std::string_view what);

}  // namespace sluice
