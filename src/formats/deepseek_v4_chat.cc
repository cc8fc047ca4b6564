#include "formats/deepseek_v4_chat.h"

#include <array>
#include <boost/json.hpp>
#include <utility>

#include "base/mapped_file.h"
#include "formats/chat_parsers/dsml_parser.h"
#include "formats/deepseek_v4_chat_text.h"
#include "formats/deepseek_v4_chat_turns.h"
#include "formats/dsml_calls.h"
#include "formats/json.h"

namespace sluice {

namespace {

namespace text = deepseek_v4_text;
using Profile = DeepSeekV4EffortProfile;

struct Effort {
  std::string_view name;
  std::string_view prefix;  // goes between BOS and the first message
};

constexpr std::array kPreviewEfforts = {Effort{"high", ""}, Effort{"max", text::kEffortAbsoluteMaximum}};
constexpr std::array kOfficialEfforts = {Effort{"low", ""}, Effort{"high", text::kEffortAbsoluteMaximum},
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
void append_attachments(std::string& out, const ChatMessage& message) {
  if (!message.tools.empty()) {
    out.append("\n\n").append(text::kToolsBeforeSchemas);
    for (std::size_t i = 0; i < message.tools.size(); ++i) {
      if (i > 0) out += '\n';
      out += dump_json_python(message.tools[i]);
    }
    out += text::kToolsAfterSchemas;
  }
  if (message.response_format) {
    out.append("\n\n").append(text::kResponseFormat).append(dump_json_python(*message.response_format));
  }
}

void append_blocks(std::string& out, const std::vector<DeepSeekV4Block>& blocks) {
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (i > 0) out += "\n\n";
    if (blocks[i].is_tool_result) {
      out.append("<tool_result>").append(blocks[i].text).append("</tool_result>");
    } else {
      out += blocks[i].text;
    }
  }
}

// Renders one conversation; the rules are those of specification §14.2, in its order.
class Renderer {
 public:
  Renderer(const DeepSeekV4Conversation& conversation, bool thinking) : chat_(conversation), thinking_(thinking) {}

  Status append_turn(std::string& out, std::size_t index) const {
    const ChatMessage& message = chat_.turns[index].message;
    switch (message.role) {
      case ChatRole::kSystem:
        out += join_content(message.content, "\n\n");
        append_attachments(out, message);
        return {};
      case ChatRole::kDeveloper:
        return append_developer(out, message);
      case ChatRole::kUser:
        out += text::kUser;
        append_blocks(out, chat_.turns[index].blocks);
        return {};
      case ChatRole::kLatestReminder:
        out.append(text::kLatestReminder).append(join_content(message.content, "\n\n"));
        return {};
      case ChatRole::kAssistant:
        append_assistant(out, index);
        return {};
      case ChatRole::kTool:
        break;
    }
    return internal_error("a tool message is left after merging");
  }

  // What opens the next turn, where one of the assistant's or a reminder follows.
  Status append_transition(std::string& out, std::size_t index, bool add_generation_prompt) const {
    const bool is_last = index + 1 == chat_.turns.size();
    if (is_last && !add_generation_prompt) return {};
    if (!is_last) {
      const ChatRole next = chat_.turns[index + 1].message.role;
      if (next != ChatRole::kAssistant && next != ChatRole::kLatestReminder) return {};
    }
    const ChatMessage& message = chat_.turns[index].message;
    if (!message.task.empty()) return append_task(out, message.task);
    if (message.role == ChatRole::kUser || message.role == ChatRole::kDeveloper) {
      const bool opens = thinking_ && (!chat_.drop_thinking || static_cast<int>(index) >= chat_.last_user);
      out.append(text::kAssistant).append(opens ? text::kThinkOpen : text::kThinkClose);
    }
    return {};
  }

 private:
  static Status append_developer(std::string& out, const ChatMessage& message) {
    const std::string content = join_content(message.content, "\n\n");
    if (content.empty()) {
      return invalid_argument("developer message: expected a content that is not empty, found \"\"");
    }
    out.append(text::kUser).append(content);
    append_attachments(out, message);
    return {};
  }

  void append_assistant(std::string& out, std::size_t index) const {
    const ChatMessage& message = chat_.turns[index].message;
    const bool after_task = index > 0 && !chat_.turns[index - 1].message.task.empty();
    const bool shows_thinking = !chat_.drop_thinking || static_cast<int>(index) > chat_.last_user;
    if (thinking_ && !after_task && shows_thinking) out.append(message.reasoning_content).append(text::kThinkClose);
    out += join_content(message.content, "\n\n");
    append_dsml_calls(out, message.tool_calls, kDeepSeekV4Block);
    if (!message.wo_eos) out += text::kEos;
  }

  Status append_task(std::string& out, const std::string& name) const {
    auto task = find_named(kTasks, name, "task");
    if (!task.ok()) return task.status();
    if (name == "action") out.append(text::kAssistant).append(thinking_ ? text::kThinkOpen : text::kThinkClose);
    out += task->token;
    return {};
  }

  const DeepSeekV4Conversation& chat_;
  bool thinking_;
};

}  // namespace

Result<std::string> DeepSeekV4Chat::render(const ChatRequest& request) const {
  if (request.messages.empty()) return invalid_argument("messages: expected at least one message, found none");
  SLUICE_RETURN_IF_ERROR(check_template_variables(request));
  const bool thinking = request.thinking.value_or(options_.thinking_by_default);
  SLUICE_ASSIGN_OR_RETURN(const std::string_view prefix,
                          effort_prefix(request.reasoning_effort, options_.effort_profile));
  const DeepSeekV4Conversation conversation = prepare_deepseek_v4_turns(request, thinking);
  std::string out(text::kBos);
  if (thinking) out += prefix;
  const Renderer renderer(conversation, thinking);
  for (std::size_t i = 0; i < conversation.turns.size(); ++i) {
    SLUICE_RETURN_IF_ERROR(renderer.append_turn(out, i));
    SLUICE_RETURN_IF_ERROR(renderer.append_transition(out, i, request.add_generation_prompt));
  }
  return out;
}

std::unique_ptr<ChatOutputParser> DeepSeekV4Chat::make_parser(std::string_view prompt, bool /*has_tools*/) const {
  return std::make_unique<DsmlOutputParser>(kDeepSeekV4Block, prompt.ends_with(text::kThinkOpen));
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
