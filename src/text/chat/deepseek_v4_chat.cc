// Used by chat.cc and deepseek_v4_chat_effort.cc.
#include "text/chat/deepseek_v4_chat.h"

#include <array>
#include <boost/json.hpp>
#include <utility>

#include "base/storage/mapped_file.h"
#include "files/json.h"
#include "text/chat/deepseek_v4_chat_text.h"
#include "text/chat/deepseek_v4_chat_turns.h"
#include "text/chat/dsml_calls.h"
#include "text/chat/parsers/dsml_parser.h"

namespace sluice {

namespace {

namespace text = deepseek_v4_text;
using Profile = DeepSeekV4EffortProfile;

struct Effort {
  std::string_view name;
  std::string_view prefix;  // goes between BOS and the first message
};

// The models' own levels are high and max, and low, high and max; OpenAI's others count as the nearest of them, its
// default as theirs.
constexpr std::array kPreviewEfforts = {Effort{"minimal", ""},
                                        Effort{"low", ""},
                                        Effort{"medium", ""},
                                        Effort{"high", ""},
                                        Effort{"xhigh", text::kEffortAbsoluteMaximum},
                                        Effort{"max", text::kEffortAbsoluteMaximum}};
constexpr std::array kOfficialEfforts = {Effort{"minimal", ""},
                                         Effort{"low", ""},
                                         Effort{"medium", ""},
                                         Effort{"high", text::kEffortAbsoluteMaximum},
                                         Effort{"xhigh", text::kEffortBeyondMaximum},
                                         Effort{"max", text::kEffortBeyondMaximum}};

struct Task {
  std::string_view name;
  std::string_view token;
};

constexpr std::array kTasks = {Task{"action", "<｜action｜>"},       Task{"query", "<｜query｜>"},
                               Task{"authority", "<｜authority｜>"}, Task{"domain", "<｜domain｜>"},
                               Task{"title", "<｜title｜>"},         Task{"read_url", "<｜read_url｜>"}};

// The entry of a table of {name, ...} or an error that lists the names.
template <class Table>
Result<typename Table::value_type> find_named(const Table& table, std::string_view name, std::string_view what) {
  std::string names;
  for (const auto& entry : table) {
    if (entry.name == name) return entry;
    names.append(names.empty() ? "" : ", ").append(entry.name);
  }
  return invalid_argument(std::string(what) + ": expected one of " + names + ", found \"" + std::string(name) + "\"");
}

Result<std::string_view> effort_prefix(const std::optional<std::string>& effort, Profile profile) {
  if (!effort) return std::string_view();
  auto found = profile == Profile::kOfficial ? find_named(kOfficialEfforts, *effort, "reasoning_effort")
                                             : find_named(kPreviewEfforts, *effort, "reasoning_effort");
  if (!found.ok()) return found.status();
  return found->prefix;
}

// The two suffixes of a system or developer message.
void append_attachments(MarkedText& out, const ChatMessage& message) {
  if (!message.tools.empty()) {
    out.own("\n\n").own(text::kToolsBeforeSchemas);
    for (std::size_t i = 0; i < message.tools.size(); ++i) {
      if (i > 0) out.own("\n");
      out.client(dump_json_python(message.tools[i]));
    }
    out.own(text::kToolsAfterSchemas);
  }
  if (message.response_format) {
    out.own("\n\n").own(text::kResponseFormat).client(dump_json_python(*message.response_format));
  }
}

void append_blocks(MarkedText& out, const std::vector<DeepSeekV4Block>& blocks) {
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (i > 0) out.own("\n\n");
    if (blocks[i].is_tool_result) {
      out.own("<tool_result>").client(blocks[i].text).own("</tool_result>");
    } else {
      out.client(blocks[i].text);
    }
  }
}

// Renders one conversation; the rules are those of docs/models/deepseek_v4.md §14.2, in its order.
class Renderer {
 public:
  Renderer(const DeepSeekV4Conversation& conversation, bool thinking) : chat_(conversation), thinking_(thinking) {}

  Status append_turn(ChatPrompt& out, std::size_t index) const {
    const ChatMessage& message = chat_.turns[index].message;
    switch (message.role) {
      case ChatRole::kSystem:
        out.text.client(join_content(message.content, "\n\n"));
        append_attachments(out.text, message);
        return {};
      case ChatRole::kDeveloper:
        append_developer(out, message);
        return {};
      case ChatRole::kUser:
        append_blocks(out.open_message(text::kUser), chat_.turns[index].blocks);
        return {};
      case ChatRole::kLatestReminder:
        out.open_message(text::kLatestReminder).client(join_content(message.content, "\n\n"));
        return {};
      case ChatRole::kAssistant:
        append_assistant(out, index);
        return {};
      case ChatRole::kTool:
        break;
    }
    return internal_error("a tool message is left after merging");
  }

  // Appends the text that opens the next turn, if that is one of the assistant's or a reminder.
  Status append_transition(ChatPrompt& out, std::size_t index, bool add_generation_prompt) const {
    const bool is_last = index + 1 == chat_.turns.size();
    const ChatMessage& message = chat_.turns[index].message;
    if (is_last && (!add_generation_prompt || message.prefix || message.wo_eos)) return {};
    if (!is_last) {
      const ChatRole next = chat_.turns[index + 1].message.role;
      if (next != ChatRole::kAssistant && next != ChatRole::kLatestReminder) return {};
    }
    if (!message.task.empty()) return append_task(out, message.task);
    const bool after_answer = is_last && message.role == ChatRole::kAssistant;
    if (after_answer || message.role == ChatRole::kUser || message.role == ChatRole::kDeveloper) {
      const bool opens = thinking_ && (!chat_.drop_thinking || static_cast<int>(index) >= chat_.last_user);
      open_answer(out, opens);
    }
    return {};
  }

 private:
  static void open_answer(ChatPrompt& out, bool with_reasoning) {
    out.open_message(text::kAssistant).own(with_reasoning ? text::kThinkOpen : text::kThinkClose);
    out.reasoning_open = with_reasoning;
  }

  static void append_developer(ChatPrompt& out, const ChatMessage& message) {
    out.open_message(text::kUser).client(join_content(message.content, "\n\n"));
    append_attachments(out.text, message);
  }

  void append_assistant(ChatPrompt& out, std::size_t index) const {
    const ChatMessage& message = chat_.turns[index].message;
    const bool after_task = index > 0 && !chat_.turns[index - 1].message.task.empty();
    const bool shows_thinking = !chat_.drop_thinking || static_cast<int>(index) > chat_.last_user;
    const std::string content = join_content(message.content, "\n\n");
    if (thinking_ && !after_task && shows_thinking) {
      out.text.client(message.reasoning_content);
      out.reasoning_open = message.prefix && content.empty();
      if (out.reasoning_open) return;
      out.text.own(text::kThinkClose);
    }
    out.reasoning_open = false;
    out.text.client(content);
    append_dsml_calls(out.text, message.tool_calls, kDeepSeekV4Block);
    if (!message.wo_eos && !message.prefix) out.text.own(text::kEos);
  }

  Status append_task(ChatPrompt& out, const std::string& name) const {
    auto task = find_named(kTasks, name, "task");
    if (!task.ok()) return task.status();
    if (name == "action") open_answer(out, thinking_);
    out.text.own(task->token);
    out.reasoning_open = false;
    return {};
  }

  const DeepSeekV4Conversation& chat_;
  bool thinking_;
};

}  // namespace

Result<ChatPrompt> DeepSeekV4Chat::render(const ChatRequest& request) const {
  if (request.messages.empty()) return invalid_argument("messages: expected at least one message, found none");
  SLUICE_RETURN_IF_ERROR(check_template_variables(request));
  SLUICE_ASSIGN_OR_RETURN(const ChatMessage* continued, continued_message(request));
  const bool continues_reasoning = continued != nullptr && ends_in_reasoning(*continued);
  const bool thinking = request.thinking.value_or(options_.thinking_by_default || continues_reasoning);
  if (continues_reasoning && !thinking) {
    return invalid_argument(
        "messages: reasoning to be continued: expected "
        "thinking to be on, found it off");
  }
  SLUICE_ASSIGN_OR_RETURN(const std::string_view prefix,
                          effort_prefix(request.reasoning_effort, options_.effort_profile));
  const DeepSeekV4Conversation conversation = prepare_deepseek_v4_turns(request, thinking);
  ChatPrompt out;
  out.text.own(text::kBos);
  if (thinking) out.text.own(prefix);
  const Renderer renderer(conversation, thinking);
  for (std::size_t i = 0; i < conversation.turns.size(); ++i) {
    SLUICE_RETURN_IF_ERROR(renderer.append_turn(out, i));
    SLUICE_RETURN_IF_ERROR(renderer.append_transition(out, i, request.add_generation_prompt));
  }
  return out;
}

std::unique_ptr<ChatOutputParser> DeepSeekV4Chat::make_parser(bool reasoning_open, bool has_tools) const {
  return std::make_unique<DsmlOutputParser>(kDeepSeekV4Block, reasoning_open, has_tools);
}

AnswerMarkup DeepSeekV4Chat::answer_markup() const {
  return {.calls = &kDeepSeekV4Calls};
}

std::vector<std::string_view> DeepSeekV4Chat::role_markers() const {
  return {text::kUser, text::kAssistant, text::kLatestReminder};
}

Result<std::unique_ptr<ChatEncoding>> load_deepseek_v4_chat(const std::string& model_folder) {
  DeepSeekV4ChatOptions options;
  const auto encoder = read_text_file(model_folder + "/encoding/encoding_dsv4.py", std::size_t{4} << 20);
  if (encoder.ok()) {
    options.effort_profile = detect_deepseek_v4_effort_profile(*encoder);
  } else if (encoder.status().code() != StatusCode::kNotFound) {
    return encoder.status();
  }
  return std::unique_ptr<ChatEncoding>(std::make_unique<DeepSeekV4Chat>(options));
}

}  // namespace sluice
