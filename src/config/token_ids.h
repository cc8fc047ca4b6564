// Token ids in configuration files, where an id may be written as one integer or as a list.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace sluice {

class JsonFields;

// The ids below `key`, each from 0 to `max`; none when the key is absent or null. A failure goes into `fields`.
std::vector<std::int32_t> read_token_ids(JsonFields& fields, std::string_view key, std::int32_t max);

}  // namespace sluice
