#include "formats/chat.h"

#include <array>
#include <utility>

#include "formats/deepseek_v4_chat.h"

namespace sluice {

namespace {

struct ChatFamily {
  std::string_view model_type;
  Result<std::unique_ptr<ChatEncoding>> (*make)(const std::string& model_folder);
};

// Every family with a chat encoding.
constexpr std::array kChatFamilies = {
    ChatFamily{"deepseek_v4", load_deepseek_v4_chat},
};

}  // namespace

std::string_view to_string(ChatRole role) {
  switch (role) {
    case ChatRole::kSystem:
      return "system";
    case ChatRole::kUser:
      return "user";
    case ChatRole::kDeveloper:
      return "developer";
    case ChatRole::kAssistant:
      return "assistant";
    case ChatRole::kTool:
      return "tool";
    case ChatRole::kLatestReminder:
      return "latest_reminder";
  }
  return "unknown";
}

std::string join_content(const std::vector<ChatContentPart>& content, std::string_view separator) {
  std::string joined;
  bool first = true;
  for (const ChatContentPart& part : content) {
    if (!std::exchange(first, false)) joined += separator;
    if (part.type == "text") {
      joined += part.text;
    } else {
      joined.append("[Unsupported ").append(part.type).append("]");
    }
  }
  return joined;
}

Result<std::unique_ptr<ChatEncoding>> make_chat_encoding(std::string_view model_type, const std::string& model_folder) {
  for (const ChatFamily& family : kChatFamilies) {
    if (family.model_type == model_type) return family.make(model_folder);
  }
  std::string known;
  for (const ChatFamily& family : kChatFamilies) known.append(known.empty() ? "" : ", ").append(family.model_type);
  return not_found("chat encoding of model type '" + std::string(model_type) + "': expected one of " + known +
                   "; complete raw text instead");
}

}  // namespace sluice
