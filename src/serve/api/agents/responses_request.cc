// The bodies of /v1/responses.
// Used by serve/api/agents and serve/api/openai.
#include <algorithm>
#include <boost/json/string.hpp>
#include <optional>

#include "serve/api/agents/agent_request.h"
#include "serve/api/agents/responses_tools.h"
#include "serve/generate/reasoning_seal.h"

namespace sluice {
namespace {

namespace json = boost::json;

class ResponsesReader {
 public:
  ResponsesReader(const json::object& body, const RequestRules& rules)
      : body_(body), fields_(body, kInResponses, rules.strict_fields) {}

  ApiResult<AgentRequest> read() {
    out_.names = {{"messages", "input"},
                  {"max_tokens", "max_output_tokens"},
                  {"reasoning_effort", "reasoning.effort"},
                  {"response_format.json_schema", "text.format"},
                  {"response_format", "text.format"}};
    out_.strict_by_default = true;
    copy_shared_fields(body_, kInResponses, out_.chat);
    for (const std::string_view key : {"model", "stream"}) copy(key, key);
    copy("max_output_tokens", "max_tokens");
    read_instructions();
    tools_.read(fields_);
    read_input();
    read_tool_choice();
    read_reasoning();
    read_text();
    read_include();
    read_truncation();
    if (const json::object* metadata = fields_.read_object("metadata")) out_.echo["metadata"] = *metadata;
    fields_.finish();
    if (fields_.error()) return *fields_.error();
    if (talk_.empty()) return ApiError{400, "input: expected a text or at least one item", "input", "invalid_value"};
    out_.message_paths = talk_.paths();
    out_.chat["messages"] = talk_.take();
    out_.ignored = std::move(fields_.ignored());
    for (const std::string_view key : {"temperature", "top_p", "max_output_tokens", "parallel_tool_calls"}) {
      if (const json::value* value = body_.if_contains(key)) out_.echo[key] = *value;
    }
    return std::move(out_);
  }

 private:
  void copy(std::string_view from, std::string_view to) {
    if (const json::value* value = fields_.find(from)) out_.chat[to] = *value;
  }

  void read_instructions() {
    std::optional<std::string> text;
    fields_.read("instructions", text);
    if (!text) return;
    out_.echo["instructions"] = *text;
    if (!text->empty()) talk_.add("system", json::string(*text), "instructions");
  }

  void read_input() {
    const json::value* input = fields_.find("input");
    if (input == nullptr) return fields_.refuse("input", "input: expected a text or an array of items, found nothing");
    if (input->is_string()) return talk_.add("user", *input, "input");
    if (!input->is_array()) return fields_.fail("input", "a text or an array of items");
    for_each_object(fields_, "input", *input, [this](RequestFields& item, const std::string& path) {
      std::optional<std::string> type;
      item.read("type", type);
      const std::string kind = type.value_or(item.find("role") != nullptr ? "message" : "item_reference");
      if (kind == "message") return read_message(item, path);
      if (kind == "function_call" || kind == "custom_tool_call") return read_call(item, path, kind);
      if (kind == "function_call_output" || kind == "custom_tool_call_output") return read_output(item, path);
      if (kind == "reasoning") return read_reasoning_item(item, path);
      leave_out(item, path, kind);
    });
  }

  // Leaves out an item of a tool that runs elsewhere, a reference to an item, none of which is kept here, or an item of
  // an unknown type. API makers add some types every month, and a refusal would end the conversation.
  void leave_out(RequestFields& item, const std::string& path, std::string_view kind) {
    fields_.ignored().push_back(path + " (" + std::string(kind.substr(0, 100)) + ")");
    item.forget();
  }

  // Returns the texts of a content's parts, in chat's form. A part of another type is an error; with `names` only its
  // type is kept.
  json::value read_parts(RequestFields& item, std::string_view key, std::initializer_list<std::string_view> types,
                         bool names) {
    const json::value* content = item.find(key);
    if (content == nullptr || content->is_string()) return content == nullptr ? json::value(json::string()) : *content;
    json::array parts;
    if (!content->is_array()) return item.fail(key, "a text or an array of parts"), parts;
    for_each_object(item, key, *content, [&](RequestFields& part, const std::string& path) {
      std::optional<std::string> type, text;
      part.read("type", type);
      if (!type) return part.fail("type", "a type");
      if (std::ranges::find(types, *type) == types.end()) {
        if (names) {
          parts.push_back(json::object{{"type", *type}});
          return part.forget();
        }
        return part.refuse("type", path + ".type: this model reads text only, found " + *type, "unsupported_value");
      }
      const std::string_view of = *type == "refusal" ? "refusal" : "text";
      part.read(of, text);
      if (!text) return part.fail(of, "a text");
      parts.push_back(json::object{{"type", "text"}, {"text", *text}});
    });
    return parts;
  }

  static std::string joined(const json::value& parts) {
    if (parts.is_string()) return std::string(std::string_view(parts.get_string()));
    std::string out;
    for (const json::value& part : parts.get_array()) out += std::string_view(part.at("text").get_string());
    return out;
  }

  void read_message(RequestFields& item, const std::string& path) {
    std::optional<std::string> role;
    item.read("role", role);
    const bool known = role == "system" || role == "developer" || role == "user" || role == "assistant";
    if (!known) return item.fail("role", "system, developer, user or assistant");
    json::value content = read_parts(item, "content", {"input_text", "output_text", "text", "refusal"}, false);
    if (item.error()) return;
    if (role == "assistant") return talk_.add_text(joined(content), path);
    talk_.add(*role, std::move(content), path);
  }

  void read_call(RequestFields& item, const std::string& path, std::string_view kind) {
    std::optional<std::string> id, input;
    item.read("call_id", id);
    const std::string name = read_tool_name(item);
    if (name.empty()) return item.fail("name", "the name of a function");
    if (kind == "custom_tool_call") {
      item.read("input", input);
      return talk_.add_call(id.value_or(""), name, json::string(custom_arguments(input.value_or(""))), path);
    }
    const json::value* arguments = item.find("arguments");
    talk_.add_call(id.value_or(""), name, arguments != nullptr ? *arguments : json::value("{}"), path);
  }

  void read_output(RequestFields& item, const std::string& path) {
    std::optional<std::string> id;
    item.read("call_id", id);
    json::value content = read_parts(item, "output", {"input_text", "output_text", "text"}, true);
    if (!item.error()) talk_.add_result(id.value_or(""), std::move(content), path);
  }

  // Returns the sealed text, else the text, else its summary.
  void read_reasoning_item(RequestFields& item, const std::string& path) {
    std::optional<std::string> sealed;
    item.read("encrypted_content", sealed);
    if (sealed && !sealed->empty()) {
      if (!is_own_seal(*sealed)) return leave_out(item, path, "reasoning of another server");
      const std::optional<std::string> text = unsealed_reasoning(*sealed);
      if (!text) {
        return item.refuse("encrypted_content",
                           path + ".encrypted_content: expected the content of an answer of Sluice's, unchanged",
                           "invalid_encrypted_content");
      }
      return talk_.add_reasoning(*text, path);
    }
    std::string text = joined(read_parts(item, "content", {"reasoning_text"}, false));
    if (text.empty() && !item.error()) text = joined(read_parts(item, "summary", {"summary_text"}, false));
    if (!text.empty()) talk_.add_reasoning(text, path);
  }

  void read_tool_choice() {
    const json::value* choice = fields_.find("tool_choice");
    if (choice != nullptr && choice->is_object()) {
      RequestFields inner(fields_, "tool_choice", choice->get_object());
      read_named_choice(inner);
      inner.finish();
    } else if (choice != nullptr) {
      out_.chat["tool_choice"] = *choice;
    }
    out_.tool_paths = tools_.paths();
    out_.client_tools = tools_.names();
    if (choice != nullptr) out_.echo["tool_choice"] = *choice;
    if (json::array shown = tools_.take_shown(); !shown.empty()) out_.echo["tools"] = std::move(shown);
    if (!tools_.empty()) out_.chat["tools"] = tools_.functions();
  }

  // Returns the name that the model sees for the tool of these keys.
  std::string read_tool_name(RequestFields& of) {
    std::optional<std::string> name, space;
    of.read("name", name);
    of.read("namespace", space);
    return name ? tools_.model_name(*name, space.value_or("")) : "";
  }

  void read_named_choice(RequestFields& inner) {
    std::optional<std::string> type, mode;
    inner.read("type", type);
    inner.read("mode", mode);
    const std::string name = read_tool_name(inner);
    const json::value* allowed = inner.find("tools");
    if ((type == "function" || type == "custom") && !name.empty()) {
      out_.chat["tool_choice"] = json::object{{"type", "function"}, {"function", json::object{{"name", name}}}};
      return;
    }
    if (type != "allowed_tools" || allowed == nullptr) {
      return inner.fail("type", "\"function\" or \"custom\" with a name, or \"allowed_tools\" with tools");
    }
    std::vector<std::string> names;
    for_each_object(inner, "tools", *allowed, [&](RequestFields& tool, const std::string& /*path*/) {
      std::optional<std::string> kind;
      tool.read("type", kind);
      if (kind == "function" || kind == "custom") names.push_back(read_tool_name(tool));
    });
    tools_.keep(names);
    out_.chat["tool_choice"] = mode.value_or("auto");
  }

  void read_reasoning() {
    const json::object* reasoning = fields_.read_object("reasoning");
    if (reasoning == nullptr) return;
    RequestFields inner(fields_, "reasoning", *reasoning);
    std::optional<std::string> effort;
    inner.read("effort", effort);
    inner.finish();
    if (effort) out_.chat["reasoning_effort"] = *effort;
    out_.echo["reasoning"] =
        json::object{{"effort", effort ? json::value(*effort) : json::value()}, {"summary", nullptr}};
  }

  void read_text() {
    const json::object* text = fields_.read_object("text");
    if (text == nullptr) return;
    RequestFields inner(fields_, "text", *text);
    if (const json::object* format = inner.read_object("format")) {
      RequestFields of(inner, "format", *format);
      std::optional<std::string> type, name;
      std::optional<bool> strict;
      of.read("type", type);
      of.read("name", name);
      of.read("strict", strict);
      const json::object* schema = of.read_object("schema");
      if (type != "text" && type != "json_object" && type != "json_schema") {
        of.fail("type", "text, json_object or json_schema");
      }
      if (type == "json_schema" && schema == nullptr) of.fail("schema", "an object");
      of.finish();
      json::object chat{{"type", type.value_or("")}};
      if (type == "json_schema" && schema != nullptr) {
        chat["json_schema"] = json::object{{"name", name.value_or("")}, {"schema", *schema}};
      }
      out_.chat["response_format"] = std::move(chat);
      out_.echo["text"] = json::object{{"format", *format}};
    }
    inner.finish();
  }

  // "auto" lets a server leave out old items of an input that is too long. Nothing is left out here: it is an error.
  void read_truncation() {
    std::optional<std::string> truncation;
    fields_.read("truncation", truncation);
    if (!truncation) return;
    if (*truncation != "auto" && *truncation != "disabled") fields_.fail("truncation", "\"auto\" or \"disabled\"");
    out_.echo["truncation"] = *truncation;
  }

  void read_include() {
    const json::value* include = fields_.find("include");
    if (const json::value* top = fields_.find("top_logprobs")) {
      out_.chat["logprobs"] = true;
      out_.chat["top_logprobs"] = *top;
    }
    if (include == nullptr) return;
    if (!include->is_array()) return fields_.fail("include");
    for (const json::value& item : include->get_array()) {
      if (!item.is_string()) return fields_.fail("include", "an array of strings");
      const std::string_view name = item.get_string();
      if (name == "reasoning.encrypted_content") {
        out_.seals_reasoning = true;
      } else if (name == "message.output_text.logprobs") {
        out_.chat["logprobs"] = true;
      } else {
        fields_.ignored().push_back("include (" + std::string(name.substr(0, 100)) + ")");
      }
    }
  }

  const json::object& body_;
  RequestFields fields_;
  AgentRequest out_;
  ChatConversation talk_;
  ResponsesTools tools_;
};

}  // namespace

ApiResult<AgentRequest> read_responses_request(std::string_view body, const RequestRules& rules) {
  auto parsed = parse_request_object(body);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  return ResponsesReader(std::get<json::object>(parsed), rules).read();
}

}  // namespace sluice
