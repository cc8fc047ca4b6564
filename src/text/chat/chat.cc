// Used by cli, serve and text.
#include "text/chat/chat.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "text/chat/deepseek_v32_chat.h"
#include "text/chat/deepseek_v4_chat.h"
#include "text/chat/templates/chat_templates.h"
#include "text/chat/templates/template_chat.h"

namespace sluice {

namespace {

// The families that write conversations and call tools by rules of their own, with the parser of their answers. All
// others do it as the template says that comes with the model, whose text also names the parsers
// (chat_parsers/chat_parsers.h).
struct OwnEncoding {
  std::string_view model_type;
  Result<std::unique_ptr<ChatEncoding>> (*load)(const std::string& model_folder);
};
constexpr OwnEncoding kOwnEncodings[] = {
    {"deepseek_v4", load_deepseek_v4_chat},
    {"deepseek_v32", load_deepseek_v32_chat},
};

// The one to be taken; a given template goes before it.
const OwnEncoding* own_encoding(std::string_view model_type, const ChatEncodingOptions& options) {
  const auto* const own = std::ranges::find(kOwnEncodings, model_type, &OwnEncoding::model_type);
  return own != std::end(kOwnEncodings) && options.template_file.empty() ? own : nullptr;
}

Result<std::unique_ptr<ChatEncoding>> make_own(const OwnEncoding& own, const std::string& model_folder,
                                               const ChatEncodingOptions& options) {
  if (options.parsers.tool_call.empty() && options.parsers.reasoning.empty()) return own.load(model_folder);
  return invalid_argument("the model type '" + std::string(own.model_type) +
                          "' has a chat encoding of its own, whose parsers cannot be changed; remove "
                          "--tool-call-parser and --reasoning-parser");
}

class UnusableChat final : public ChatEncoding {
 public:
  explicit UnusableChat(Status why) : why_(std::move(why)) {}
  Result<ChatPrompt> render(const ChatRequest& /*request*/) const override { return why_; }
  std::unique_ptr<ChatOutputParser> make_parser(bool reasoning_open, bool has_tools) const override {
    return make_chat_parser(kNoParsers, reasoning_open, has_tools);
  }
  AnswerMarkup answer_markup() const override { return sluice::answer_markup(kNoParsers); }
  std::vector<std::string_view> role_markers() const override { return {}; }

 private:
  inline static const ChatParserNames kNoParsers{.tool_call = "none", .reasoning = "none"};
  Status why_;
};

}  // namespace

std::unique_ptr<ChatEncoding> unusable_chat(const Status& why, const std::string& model_folder) {
  std::string_view words = why.message();
  const std::size_t end = words.starts_with(model_folder) ? words.find(": ", model_folder.size()) : words.npos;
  if (end != words.npos) words.remove_prefix(end + 2);
  return std::make_unique<UnusableChat>(invalid_argument(
      "this model's chat template cannot be read, so only raw completions work: " + std::string(words)));
}

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

bool offers_tools(const ChatRequest& request) {
  return !request.tools.empty() ||
         std::ranges::any_of(request.messages, [](const ChatMessage& message) { return !message.tools.empty(); });
}

Result<const ChatMessage*> continued_message(const ChatRequest& request) {
  const std::vector<ChatMessage>& messages = request.messages;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i].prefix) continue;
    const std::string what = "messages[" + std::to_string(i) + "]: key 'prefix': ";
    if (i + 1 < messages.size() || messages[i].role != ChatRole::kAssistant) {
      return invalid_argument(what + "expected it in the last message, of the role assistant");
    }
    if (!messages[i].tool_calls.empty()) return invalid_argument(what + "tool calls cannot be continued");
    return &messages[i];
  }
  return nullptr;
}

bool ends_in_reasoning(const ChatMessage& message) {
  return !message.reasoning_content.empty() && join_content(message.content, "").empty();
}

Status check_template_variables(const ChatRequest& request) {
  if (request.template_variables.empty()) return {};
  const std::string name(request.template_variables.begin()->key());
  return invalid_argument("chat_template_kwargs." + name + ": unknown field; this model has no chat template");
}

Result<std::unique_ptr<ChatEncoding>> make_chat_encoding(std::string_view model_type, const std::string& model_folder,
                                                         ChatTemplates templates, const ChatEncodingOptions& options) {
  if (const OwnEncoding* own = own_encoding(model_type, options)) return make_own(*own, model_folder, options);
  if (!options.template_file.empty()) {
    SLUICE_RETURN_IF_ERROR(replace_chat_templates(templates, options.template_file));
  }
  return TemplateChat::make(std::move(templates), options.parsers);
}

Result<std::unique_ptr<ChatEncoding>> load_chat_encoding(std::string_view model_type, const std::string& model_folder,
                                                         const ChatEncodingOptions& options) {
  if (const OwnEncoding* own = own_encoding(model_type, options)) return make_own(*own, model_folder, options);
  const bool has_template = !options.template_file.empty();
  SLUICE_ASSIGN_OR_RETURN(ChatTemplates templates, load_chat_templates(model_folder, /*only_tokens=*/has_template));
  return make_chat_encoding(model_type, model_folder, std::move(templates), options);
}

}  // namespace sluice
