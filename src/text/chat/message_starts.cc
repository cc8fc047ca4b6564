// Used by cli/commands/run_command.cc and serve/api/api_context.h.
#include "text/chat/message_starts.h"

#include <algorithm>
#include <optional>
#include <string_view>

namespace sluice {

MessageStarts::MessageStarts(const Tokenizer& tokenizer, const ChatEncoding* chat) {
  if (chat == nullptr) return;
  for (const std::string_view marker : chat->role_markers()) {
    const std::optional<std::int32_t> id = tokenizer.token_to_id(marker);
    if (id && tokenizer.is_special(*id)) markers_.push_back(*id);
  }
}

std::vector<std::int32_t> MessageStarts::find(std::span<const std::int32_t> prompt) const {
  std::vector<std::int32_t> starts;
  for (std::size_t i = 1; i < prompt.size(); ++i) {
    if (std::ranges::find(markers_, prompt[i]) != markers_.end()) starts.push_back(static_cast<std::int32_t>(i));
  }
  return starts;
}

}  // namespace sluice
