#include "formats/deepseek_v32_chat.h"

#include <boost/json.hpp>
#include <utility>

#include "formats/chat_parsers/dsml_parser.h"
#include "formats/deepseek_v32_chat_text.h"
#include "formats/dsml_calls.h"
#include "formats/json.h"

namespace sluice {

namespace {

namespace text = deepseek_v32_text;

// The last user or developer message, -1 for none.
int last_user_index(const std::vector<ChatMessage>& messages) {
  for (std::size_t i = messages.size(); i-- > 0;) {
    const ChatRole role = messages[i].role;
    if (role == ChatRole::kUser || role == ChatRole::kDeveloper) return static_cast<int>(i);
  }
  return -1;
}

// The messages to write: with the request's tools, without those that are dropped.
std::vector<ChatMessage> prepare(const ChatRequest& request, bool thinking) {
  const std::vector<ChatMessage>& given = request.messages;
  std::vector<ChatMessage> messages;
  if (!request.tools.empty() || request.response_format) {
    ChatMessage own;
    own.role = ChatRole::kSystem;
    own.tools = request.tools;
    own.response_format = request.response_format;
    messages.push_back(std::move(own));
  }
  const bool drops = thinking && request.drop_thinking && given.back().role == ChatRole::kUser;
  const int last_user = last_user_index(given);
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (drops && static_cast<int>(i) < last_user && given[i].role == ChatRole::kDeveloper) continue;
    messages.push_back(given[i]);
  }
  return messages;
}

void append_attachments(std::string& out, const ChatMessage& message) {
  if (!message.tools.empty()) {
    out += text::kToolsBeforeSchemas;
    for (std::size_t i = 0; i < message.tools.size(); ++i) {
      if (i > 0) out += '\n';
      out += dump_json_python(message.tools[i]);
    }
    out += text::kToolsAfterSchemas;
  }
  if (message.response_format) out.append(text::kResponseFormat).append(dump_json_python(*message.response_format));
}

class Renderer {
 public:
  Renderer(const std::vector<ChatMessage>& messages, bool thinking, bool add_generation_prompt)
      : messages_(messages),
        thinking_(thinking),
        add_generation_prompt_(add_generation_prompt),
        last_user_(last_user_index(messages)) {}

  Status append(std::string& out, std::size_t index) {
    const ChatMessage& message = messages_[index];
    if (!message.task.empty()) return refuse(index, "key 'task'");
    if (message.wo_eos) return refuse(index, "key 'wo_eos'");
    switch (message.role) {
      case ChatRole::kSystem:
        out += content(message);
        append_attachments(out, message);
        return {};
      case ChatRole::kUser:
        out.append(text::kUser).append(content(message));
        append_turn(out, index);
        return {};
      case ChatRole::kDeveloper:
        return append_developer(out, index);
      case ChatRole::kAssistant:
        return append_assistant(out, index);
      case ChatRole::kTool:
        return append_result(out, index);
      case ChatRole::kLatestReminder:
        break;
    }
    return refuse(index, "role 'latest_reminder'");
  }

 private:
  static std::string content(const ChatMessage& message) { return join_content(message.content, "\n\n"); }

  static Status refuse(std::size_t index, const std::string& what) {
    return invalid_argument("message " + std::to_string(index) + ": " + what +
                            ": this model does not know it; remove it");
  }

  bool opens_next(std::size_t index) const { return index + 1 < messages_.size() || add_generation_prompt_; }

  void append_turn(std::string& out, std::size_t index) const {
    if (!opens_next(index)) return;
    out.append(text::kAssistant)
        .append(thinking_ && static_cast<int>(index) == last_user_ ? text::kThinkOpen : text::kThinkClose);
  }

  Status append_developer(std::string& out, std::size_t index) const {
    const std::string said = content(messages_[index]);
    if (said.empty()) {
      return invalid_argument("developer message: expected a content that is not empty, found \"\"");
    }
    out += text::kUser;
    append_attachments(out, messages_[index]);
    out.append(text::kDeveloperContent).append(said);
    append_turn(out, index);
    return {};
  }

  Status append_assistant(std::string& out, std::size_t index) {
    const ChatMessage& message = messages_[index];
    calls_ = message.tool_calls.size();
    results_ = 0;
    if (thinking_ && static_cast<int>(index) > last_user_) {
      if (message.reasoning_content.empty() && message.tool_calls.empty()) {
        return invalid_argument(
            "an assistant's message after the last user's: expected reasoning_content or tool_calls in thinking mode, "
            "found neither");
      }
      out.append(message.reasoning_content).append(text::kThinkClose);
    }
    out += content(message);
    append_dsml_calls(out, message.tool_calls, kDeepSeekV32Block);
    out += text::kEos;
    return {};
  }

  Status append_result(std::string& out, std::size_t index) {
    if (results_ == calls_) {
      return invalid_argument("tool message: expected as many results as the assistant made calls, " +
                              std::to_string(calls_) + ", found more");
    }
    ++results_;
    if (results_ == 1) out += text::kOpenResults;
    out.append(text::kOpenResult).append(content(messages_[index])).append(text::kCloseResult);
    if (results_ < calls_) return {};
    out += text::kCloseResults;
    if (opens_next(index)) {
      out.append("\n\n").append(thinking_ && static_cast<int>(index) >= last_user_ ? text::kThinkOpen
                                                                                   : text::kThinkClose);
    }
    return {};
  }

  const std::vector<ChatMessage>& messages_;
  const bool thinking_;
  const bool add_generation_prompt_;
  const int last_user_;
  std::size_t calls_ = 0;    // of the last assistant's message
  std::size_t results_ = 0;  // that followed it
};

}  // namespace

Result<std::string> DeepSeekV32Chat::render(const ChatRequest& request) const {
  if (request.messages.empty()) return invalid_argument("messages: expected at least one message, found none");
  SLUICE_RETURN_IF_ERROR(check_template_variables(request));
  const bool thinking = request.thinking.value_or(false);
  const std::vector<ChatMessage> messages = prepare(request, thinking);
  std::string out(text::kBos);
  Renderer renderer(messages, thinking, request.add_generation_prompt);
  for (std::size_t i = 0; i < messages.size(); ++i) SLUICE_RETURN_IF_ERROR(renderer.append(out, i));
  return out;
}

std::unique_ptr<ChatOutputParser> DeepSeekV32Chat::make_parser(std::string_view prompt, bool /*has_tools*/) const {
  return std::make_unique<DsmlOutputParser>(kDeepSeekV32Block, prompt.ends_with(text::kThinkOpen));
}

std::vector<std::string_view> DeepSeekV32Chat::role_markers() const {
  return {text::kUser, text::kAssistant};
}

Result<std::unique_ptr<ChatEncoding>> load_deepseek_v32_chat(const std::string& /*model_folder*/) {
  return std::unique_ptr<ChatEncoding>(std::make_unique<DeepSeekV32Chat>());
}

}  // namespace sluice
