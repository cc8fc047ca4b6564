// The bodies of /v1/messages and /v1/messages/count_tokens.
#include <algorithm>
#include <boost/json/string.hpp>
#include <optional>

#include "files/json.h"
#include "serve/api/agents/agent_request.h"
#include "serve/generate/reasoning_seal.h"

namespace sluice {
namespace {

namespace json = boost::json;

// An agent's first system block, of which a part changes with each request, so that nothing after it would be cached.
constexpr std::string_view kBillingHeader = "x-anthropic-billing-header:";

class MessagesReader {
 public:
  MessagesReader(const json::object& body, FieldPlaces place, const RequestRules& rules)
      : body_(body), place_(place), fields_(body, place, rules.strict_fields) {}

  ApiResult<AgentRequest> read() {
    out_.names = {{"stop", "stop_sequences"},
                  {"reasoning_effort", "output_config.effort"},
                  {"response_format.json_schema", "output_config.format"},
                  {"response_format", "output_config.format"}};
    out_.shortens_to_context = true;
    copy_shared_fields(body_, place_, out_.chat);
    copy("model", "model");
    if (place_ == kInMessages) {
      copy("stream", "stream");
      copy("max_tokens", "max_tokens");
      copy("stop_sequences", "stop");
      if (!out_.chat.contains("max_tokens")) fields_.fail("max_tokens");
    }
    read_system();
    read_messages();
    read_tools();
    read_tool_choice();
    read_thinking();
    read_output();
    fields_.finish();
    if (fields_.error()) return *fields_.error();
    out_.message_paths = talk_.paths();
    out_.chat["messages"] = talk_.take();
    out_.ignored = std::move(fields_.ignored());
    return std::move(out_);
  }

 private:
  void copy(std::string_view from, std::string_view to) {
    if (const json::value* value = fields_.find(from)) out_.chat[to] = *value;
  }

  void read_system() {
    const json::value* system = fields_.find("system");
    if (system == nullptr || is_empty_json(*system)) return;
    if (system->is_string()) return talk_.add("system", *system, "system");
    json::array parts;
    for_each_object(fields_, "system", *system, [&parts](RequestFields& block, const std::string& /*path*/) {
      std::optional<std::string> type, text;
      block.read("type", type);
      block.read("text", text);
      if (type != "text") return block.fail("type", "\"text\"");
      if (!text) return block.fail("text", "a text");
      if (!text->starts_with(kBillingHeader)) parts.push_back(json::object{{"type", "text"}, {"text", *text}});
    });
    if (!parts.empty()) talk_.add("system", std::move(parts), "system");
  }

  void read_messages() {
    const json::value* messages = fields_.find("messages");
    if (messages == nullptr || !messages->is_array() || messages->get_array().empty()) {
      return fields_.fail("messages", "an array of at least one message");
    }
    std::string last;
    for_each_object(fields_, "messages", *messages, [&](RequestFields& message, const std::string& path) {
      std::optional<std::string> role;
      message.read("role", role);
      if (role != "user" && role != "assistant" && role != "system") {
        return message.fail("role", "user, assistant or system");
      }
      last = *role;
      const json::value* content = message.find("content");
      if (content == nullptr) return message.fail("content", "a text or an array of blocks");
      if (content->is_string()) {
        if (role == "assistant") return talk_.add_text(content->get_string(), path);
        return talk_.add(*role, *content, path);
      }
      texts_.clear();
      for_each_object(message, "content", *content, [&](RequestFields& block, const std::string& block_path) {
        if (role == "assistant") return read_answer_block(block, block_path);
        read_user_block(block, block_path, *role, path);
      });
      flush(*role, path);
    });
    if (last == "assistant" && !fields_.error() && !talk_.empty()) talk_.mark_last("prefix");
  }

  // Consecutive texts of the user are one message, before and after the results of tools.
  void flush(const std::string& role, const std::string& path) {
    if (!texts_.empty()) talk_.add(role, std::move(texts_), path);
    texts_ = json::array();
  }

  void read_user_block(RequestFields& block, const std::string& path, const std::string& role,
                       const std::string& message_path) {
    std::optional<std::string> type, text;
    block.read("type", type);
    if (type == "tool_result" && role == "user") {
      flush(role, message_path);
      return read_result(block, path);
    }
    const bool is_seen = type == "image" || type == "document" || !type;
    if (is_seen) {
      return block.refuse("type",
                          path + ".type: expected text" + (role == "user" ? " or tool_result" : "") + ", found " +
                              type.value_or("nothing") + "; this model reads text only",
                          "unsupported_value");
    }
    if (type != "text") return leave_out(block, path, *type);
    block.read("text", text);
    if (!text) return block.fail("text", "a text");
    texts_.push_back(json::object{{"type", "text"}, {"text", *text}});
  }

  void read_result(RequestFields& block, const std::string& path) {
    std::optional<std::string> id;
    std::optional<bool> is_error;
    block.read("tool_use_id", id);
    block.read("is_error", is_error);
    if (!id || id->empty()) return block.fail("tool_use_id", "the id of a tool_use");
    json::array parts;
    if (is_error.value_or(false)) parts.push_back(json::object{{"type", "text"}, {"text", "Error:"}});
    const json::value* content = block.find("content");
    if (content != nullptr && content->is_string()) {
      parts.push_back(json::object{{"type", "text"}, {"text", *content}});
    } else if (content != nullptr) {
      for_each_object(block, "content", *content, [&parts](RequestFields& part, const std::string& /*path*/) {
        std::optional<std::string> type, text;
        part.read("type", type);
        if (!type) return part.fail("type", "a type");
        if (*type != "text") {
          parts.push_back(json::object{{"type", *type}});
          return part.forget();
        }
        part.read("text", text);
        if (!text) return part.fail("text", "a text");
        parts.push_back(json::object{{"type", "text"}, {"text", *text}});
      });
    }
    if (block.error()) return;
    const bool is_one_text = parts.size() == 1 && parts[0].get_object().contains("text");
    json::value result = parts.empty() ? json::value("") : is_one_text ? parts[0].at("text") : json::value(parts);
    talk_.add_result(*id, std::move(result), path);
  }

  void read_answer_block(RequestFields& block, const std::string& path) {
    std::optional<std::string> type, text;
    block.read("type", type);
    if (type == "tool_use") return read_call(block, path);
    if (type == "thinking") return read_reasoning(block, path);
    if (!type) return block.fail("type", "text, thinking or tool_use");
    if (type != "text") return leave_out(block, path, *type);
    block.read("text", text);
    if (!text) return block.fail("text", "a text");
    talk_.add_text(*text, path);
  }

  // Leaves out a block of a tool that runs elsewhere, reasoning that this server cannot read, or a block of an unknown
  // type. API makers add some types every month, and a refusal would end the conversation.
  void leave_out(RequestFields& block, const std::string& path, std::string_view type) {
    fields_.ignored().push_back(path + " (" + std::string(type.substr(0, 100)) + ")");
    block.forget();
  }

  void read_call(RequestFields& block, const std::string& path) {
    std::optional<std::string> id, name;
    block.read("id", id);
    block.read("name", name);
    const json::value* input = block.find("input");
    if (!id || id->empty()) return block.fail("id", "an id");
    if (!name || name->empty()) return block.fail("name", "the name of a tool");
    talk_.add_call(*id, *name, json::string(input != nullptr ? dump_json(*input) : "{}"), path);
  }

  void read_reasoning(RequestFields& block, const std::string& path) {
    std::optional<std::string> text, signature;
    block.read("thinking", text);
    block.read("signature", signature);
    if (!text) return block.fail("thinking", "a text");
    if (!is_own_seal(signature.value_or(""))) return leave_out(block, path, "thinking of another server");
    if (signature != reasoning_seal(*text)) {
      return block.refuse("signature",
                          path + ".signature: expected the signature that Sluice gave this text, unchanged",
                          "invalid_signature");
    }
    talk_.add_reasoning(*text, path);
  }

  void read_tools() {
    const json::value* tools = fields_.find("tools");
    if (tools == nullptr) return;
    json::array out;
    for_each_object(fields_, "tools", *tools, [&](RequestFields& tool, const std::string& path) {
      std::optional<std::string> type, name, description;
      std::optional<bool> strict;
      tool.read("type", type);
      if (type.value_or("custom") != "custom") {
        fields_.ignored().push_back(path + " (" + type->substr(0, 100) + ")");
        return tool.forget();
      }
      tool.read("name", name);
      tool.read("description", description);
      tool.read("strict", strict);
      const json::object* schema = tool.read_object("input_schema");
      if (!name || name->empty()) return tool.fail("name", "the name of a tool");
      json::object function{{"name", *name}};
      if (description) function["description"] = *description;
      if (schema != nullptr) function["parameters"] = *schema;
      if (strict) function["strict"] = *strict;
      out.push_back(json::object{{"type", "function"}, {"function", std::move(function)}});
      out_.tool_paths.push_back(path);
    });
    if (!out.empty()) out_.chat["tools"] = std::move(out);
  }

  void read_tool_choice() {
    const json::object* choice = fields_.read_object("tool_choice");
    if (choice == nullptr) return;
    RequestFields inner(fields_, "tool_choice", *choice);
    std::optional<std::string> type, name;
    std::optional<bool> one_call;
    inner.read("type", type);
    inner.read("name", name);
    inner.read("disable_parallel_tool_use", one_call);
    if (type == "auto" || type == "none") {
      out_.chat["tool_choice"] = *type;
    } else if (type == "any") {
      out_.chat["tool_choice"] = "required";
    } else if (type == "tool" && name) {
      out_.chat["tool_choice"] = json::object{{"type", "function"}, {"function", json::object{{"name", *name}}}};
    } else {
      inner.fail("type", "auto, any, none, or tool with a name");
    }
    if (one_call.value_or(false)) {
      out_.chat["parallel_tool_calls"] = false;
      out_.names.emplace_back("parallel_tool_calls", "tool_choice.disable_parallel_tool_use");
    }
    inner.finish();
  }

  void read_thinking() {
    const json::object* thinking = fields_.read_object("thinking");
    if (thinking == nullptr) return;
    RequestFields inner(fields_, "thinking", *thinking);
    std::optional<std::string> type;
    std::optional<std::int64_t> budget;
    inner.read("type", type);
    inner.read("budget_tokens", budget);
    if (!type) inner.fail("type", "enabled, adaptive, between_tools or disabled");
    const bool is_known = type == "enabled" || type == "adaptive" || type == "between_tools" || type == "disabled";
    if (!is_known && type) fields_.ignored().push_back("thinking.type (" + type->substr(0, 100) + ")");
    inner.finish();
    thinks_ = type != "disabled";
    out_.chat["thinking"] = json::object{{"type", thinks_ ? "enabled" : "disabled"}};
    if (!budget || !thinks_) return;
    const Field* limit = find_field(kInChat, "thinking_token_budget");
    if (limit != nullptr && limit->use == FieldUse::kRead) {
      out_.chat["thinking_token_budget"] = *budget;
      out_.names.emplace_back("thinking_token_budget", "thinking.budget_tokens");
    } else {
      fields_.ignored().emplace_back("thinking.budget_tokens");
    }
  }

  void read_format(RequestFields& format) {
    std::optional<std::string> type;
    format.read("type", type);
    const json::object* schema = format.read_object("schema");
    if (type != "json_schema") format.fail("type", "\"json_schema\"");
    if (schema == nullptr) format.fail("schema", "an object");
    format.finish();
    if (schema == nullptr) return;
    out_.chat["response_format"] =
        json::object{{"type", "json_schema"}, {"json_schema", json::object{{"name", "answer"}, {"schema", *schema}}}};
  }

  void read_output() {
    if (const json::object* format = fields_.read_object("output_format")) {
      RequestFields inner(fields_, "output_format", *format);
      read_format(inner);
    }
    const json::object* config = fields_.read_object("output_config");
    if (config == nullptr) return;
    RequestFields inner(fields_, "output_config", *config);
    std::optional<std::string> effort;
    inner.read("effort", effort);
    // An effort alone turns no reasoning on in this API.
    if (effort && thinks_) out_.chat["reasoning_effort"] = *effort;
    if (const json::object* format = inner.read_object("format")) {
      RequestFields of(inner, "format", *format);
      read_format(of);
    }
    inner.finish();
  }

  const json::object& body_;
  const FieldPlaces place_;
  RequestFields fields_;
  AgentRequest out_;
  ChatConversation talk_;
  json::array texts_;
  bool thinks_ = false;
};

}  // namespace

ApiResult<AgentRequest> read_messages_request(std::string_view body, FieldPlaces place, const RequestRules& rules) {
  auto parsed = parse_request_object(body);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  return MessagesReader(std::get<json::object>(parsed), place, rules).read();
}

}  // namespace sluice
