// Used by chat.cc and deepseek_v4_chat.cc.
#include <string_view>

#include "text/chat/deepseek_v4_chat.h"

namespace sluice {

namespace {

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// `DEFAULT_REASONING_EFFORT = "low"`, whatever else the name holds and however the line is typed.
bool sets_default_effort_low(std::string_view line) {
  const std::size_t equals = line.find('=');
  if (equals == std::string_view::npos) return false;
  const std::string_view name = line.substr(0, equals);
  if (name.find("DEFAULT") == std::string_view::npos || name.find("EFFORT") == std::string_view::npos) return false;
  const std::string_view value = trim(line.substr(equals + 1));
  return value.starts_with("\"low\"") || value.starts_with("'low'");
}

// A key of a dict, "name": or 'name':.
bool has_key(std::string_view source, std::string_view name) {
  for (std::size_t at = source.find(name); at != std::string_view::npos; at = source.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if (at == 0 || end >= source.size()) continue;
    const char quote = source[at - 1];
    if ((quote != '"' && quote != '\'') || source[end] != quote) continue;
    const std::string_view after = trim(source.substr(end + 1, 8));
    if (after.starts_with(':')) return true;
  }
  return false;
}

}  // namespace

DeepSeekV4EffortProfile detect_deepseek_v4_effort_profile(std::string_view encoder_source) {
  bool default_low = false;
  for (std::size_t start = 0; start < encoder_source.size();) {
    const std::size_t end = encoder_source.find('\n', start);
    const std::string_view line = trim(encoder_source.substr(start, end - start));
    if (!line.starts_with('#') && sets_default_effort_low(line)) default_low = true;
    if (end == std::string_view::npos) break;
    start = end + 1;
  }
  const bool has_prompts =
      has_key(encoder_source, "low") && has_key(encoder_source, "high") && has_key(encoder_source, "max");
  return default_low && has_prompts ? DeepSeekV4EffortProfile::kOfficial : DeepSeekV4EffortProfile::kPreview;
}

}  // namespace sluice
