// Rows of the tables of config keys that many families have. Internal to config_keys_*.cc.
// Used by config_keys_decoder.cc and config_keys_deepseek.cc.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "config/config_keys.h"
#include "config/model_config.h"

namespace sluice {

constexpr ConfigKey integer_key(std::string_view name, std::string_view absent, int min, int max,
                                std::string_view rule = {}) {
  return {.name = name,
          .type = KeyType::kInteger,
          .absent = absent,
          .min = static_cast<double>(min),
          .max = static_cast<double>(max),
          .rule = rule};
}
constexpr ConfigKey size_key(std::string_view name, std::string_view absent, int max, std::string_view rule = {}) {
  ConfigKey key = integer_key(name, absent, 1, max, rule);
  key.type = KeyType::kSize;
  return key;
}
constexpr ConfigKey flag_key(std::string_view name, std::string_view absent, std::string_view rule = {}) {
  return {.name = name, .type = KeyType::kFlag, .absent = absent, .rule = rule};
}
// A text that may have one value only.
constexpr ConfigKey fixed_key(std::string_view name, std::string_view value) {
  return {.name = name, .type = KeyType::kText, .absent = value, .values = value};
}

// The library fails where the key is null.
constexpr ConfigKey null_is_refused(ConfigKey key) {
  key.null = KeyNull::kRefused;
  return key;
}

inline constexpr ConfigKey kEpsKey = {.name = "rms_norm_eps", .type = KeyType::kNumber, .absent = "1e-06", .max = 1};

// The sizes that a table of such families begins with; their defaults.
constexpr std::array<ConfigKey, 5> shape_keys(std::string_view vocabulary, std::string_view hidden,
                                              std::string_view intermediate, std::string_view layers,
                                              std::string_view heads) {
  return {size_key("vocab_size", vocabulary, kMaxVocabulary), size_key("hidden_size", hidden, kMaxWidth),
          size_key("intermediate_size", intermediate, kMaxWidth), size_key("num_hidden_layers", layers, kMaxLayers),
          size_key("num_attention_heads", heads, kMaxHeads)};
}

// A table made of parts.
template <std::size_t... N>
constexpr auto joined(const std::array<ConfigKey, N>&... parts) {
  std::array<ConfigKey, (N + ...)> all{};
  auto to = all.begin();
  ((to = std::ranges::copy(parts, to).out), ...);
  return all;
}
template <std::size_t N>
constexpr std::array<ConfigKey, N> keys(const ConfigKey (&rows)[N]) {
  return std::to_array(rows);
}

}  // namespace sluice
