// Used by chat.cc.
#include "text/chat/deepseek_v32_chat.h"

#include <boost/json.hpp>
#include <utility>

#include "files/json.h"
#include "text/chat/deepseek_v32_chat_text.h"
#include "text/chat/dsml_calls.h"
#include "text/chat/parsers/dsml_parser.h"

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

void append_attachments(MarkedText& out, const ChatMessage& message) {
  if (!message.tools.empty()) {
    out.own(text::kToolsBeforeSchemas);
    for (std::size_t i = 0; i < message.tools.size(); ++i) {
      if (i > 0) out.own("\n");
      out.client(dump_json_python(message.tools[i]));
    }
    out.own(text::kToolsAfterSchemas);
  }
  if (message.response_format) out.own(text::kResponseFormat).client(dump_json_python(*message.response_format));
}

class Renderer {
 public:
  Renderer(const std::vector<ChatMessage>& messages, bool thinking, bool add_generation_prompt)
      : messages_(messages),
        thinking_(thinking),
        add_generation_prompt_(add_generation_prompt),
        last_user_(last_user_index(messages)) {}

  Status append(ChatPrompt& out, std::size_t index) {
    const ChatMessage& message = messages_[index];
    if (!message.task.empty()) return refuse(index, "key 'task'");
    if (message.wo_eos) return refuse(index, "key 'wo_eos'");
    switch (message.role) {
      case ChatRole::kSystem:
        out.text.client(content(message));
        append_attachments(out.text, message);
        return {};
      case ChatRole::kUser:
        out.open_message(text::kUser).client(content(message));
        append_turn(out, index);
        return {};
      case ChatRole::kDeveloper:
        append_developer(out, index);
        return {};
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

  static void open_answer(ChatPrompt& out, bool with_reasoning) {
    out.open_message(text::kAssistant).own(with_reasoning ? text::kThinkOpen : text::kThinkClose);
    out.reasoning_open = with_reasoning;
  }

  bool opens_next(std::size_t index) const { return index + 1 < messages_.size() || add_generation_prompt_; }

  void append_turn(ChatPrompt& out, std::size_t index) const {
    if (!opens_next(index)) return;
    open_answer(out, thinking_ && static_cast<int>(index) == last_user_);
  }

  void append_developer(ChatPrompt& out, std::size_t index) const {
    append_attachments(out.open_message(text::kUser), messages_[index]);
    out.text.own(text::kDeveloperContent).client(content(messages_[index]));
    append_turn(out, index);
  }

  Status append_assistant(ChatPrompt& out, std::size_t index) {
    const ChatMessage& message = messages_[index];
    calls_ = message.tool_calls.size();
    results_ = 0;
    const std::string said = content(message);
    if (thinking_ && static_cast<int>(index) > last_user_) {
      if (message.reasoning_content.empty() && message.tool_calls.empty()) {
        return invalid_argument(
            "an assistant's message after the last user's: expected reasoning_content or tool_calls in thinking mode, "
            "found neither");
      }
      out.text.client(message.reasoning_content);
      out.reasoning_open = message.prefix && said.empty();
      if (out.reasoning_open) return {};
      out.text.own(text::kThinkClose);
    }
    out.reasoning_open = false;
    out.text.client(said);
    append_dsml_calls(out.text, message.tool_calls, kDeepSeekV32Block);
    if (message.prefix) return {};
    out.text.own(text::kEos);
    const bool is_last = index + 1 == messages_.size();
    if (is_last && add_generation_prompt_ && calls_ == 0) open_answer(out, thinking_);
    return {};
  }

  Status append_result(ChatPrompt& out, std::size_t index) {
    if (results_ == calls_) {
      return invalid_argument("tool message: expected as many results as the assistant made calls, " +
                              std::to_string(calls_) + ", found more");
    }
    ++results_;
    if (results_ == 1) out.text.own(text::kOpenResults);
    out.text.own(text::kOpenResult).client(content(messages_[index])).own(text::kCloseResult);
    if (results_ < calls_) return {};
    out.text.own(text::kCloseResults);
    if (opens_next(index)) {
      out.reasoning_open = thinking_ && static_cast<int>(index) >= last_user_;
      out.text.own("\n\n").own(out.reasoning_open ? text::kThinkOpen : text::kThinkClose);
    }
    return {};
  }

  const std::vector<ChatMessage>& messages_;
  const bool thinking_;
  const bool add_generation_prompt_;
  const int last_user_;
  std::size_t calls_ = 0;    // calls in the last assistant's message
  std::size_t results_ = 0;  // results of tools that followed it
};

}  // namespace

Result<ChatPrompt> DeepSeekV32Chat::render(const ChatRequest& request) const {
  if (request.messages.empty()) return invalid_argument("messages: expected at least one message, found none");
  SLUICE_RETURN_IF_ERROR(check_template_variables(request));
  SLUICE_ASSIGN_OR_RETURN(const ChatMessage* continued, continued_message(request));
  const bool continues_reasoning = continued != nullptr && ends_in_reasoning(*continued);
  const bool thinking = request.thinking.value_or(continues_reasoning);
  if (continues_reasoning && !thinking) {
    return invalid_argument(
        "messages: reasoning to be continued: expected "
        "thinking to be on, found it off");
  }
  const std::vector<ChatMessage> messages = prepare(request, thinking);
  ChatPrompt out;
  out.text.own(text::kBos);
  Renderer renderer(messages, thinking, request.add_generation_prompt);
  for (std::size_t i = 0; i < messages.size(); ++i) SLUICE_RETURN_IF_ERROR(renderer.append(out, i));
  return out;
}

std::unique_ptr<ChatOutputParser> DeepSeekV32Chat::make_parser(bool reasoning_open, bool has_tools) const {
  return std::make_unique<DsmlOutputParser>(kDeepSeekV32Block, reasoning_open, has_tools);
}

AnswerMarkup DeepSeekV32Chat::answer_markup() const {
  return {.calls = &kDeepSeekV32Calls};
}

std::vector<std::string_view> DeepSeekV32Chat::role_markers() const {
  return {text::kUser, text::kAssistant};
}

Result<std::unique_ptr<ChatEncoding>> load_deepseek_v32_chat(const std::string& /*model_folder*/) {
  return std::unique_ptr<ChatEncoding>(std::make_unique<DeepSeekV32Chat>());
}

}  // namespace sluice
