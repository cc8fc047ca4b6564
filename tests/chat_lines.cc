// chat_lines: a helper of tests/template_test.py.
//
// Reads requests from stdin, one JSON object a line, and answers each with a line {"text": ...} or {"error": ...}.
//   {"template": T, "variables": {...}, "now": SECONDS}   a template rendered with these variables; "now" is what
//                                                         strftime_now tells
//   {"folder": F, "model_type": M, "messages": [...], "tools": [...], "add_generation_prompt": B, "variables": {...}}
//                                                         a conversation as the model in that folder writes it;
//                                                         "tools", "variables" (chat_template_kwargs) and
//                                                         "template_file" may miss
#include <boost/json.hpp>
#include <iostream>
#include <string>

#include "files/json.h"
#include "jinja/template.h"
#include "text/chat/chat.h"

namespace sluice {
namespace {

namespace json = boost::json;

std::string text_of(const json::object& request, std::string_view key) {
  const json::value* value = request.if_contains(key);
  return value == nullptr ? "" : std::string(std::string_view(value->as_string()));
}

Result<std::string> render_template(const json::object& request) {
  SLUICE_ASSIGN_OR_RETURN(const auto chat, jinja::Template::parse(text_of(request, "template"), "template"));
  const json::value* now = request.if_contains("now");
  SLUICE_ASSIGN_OR_RETURN(MarkedText text, chat.render(request.at("variables").as_object(), jinja::Limits(),
                                                       now != nullptr ? now->as_int64() : 0));
  return std::move(text.bytes);
}

Result<std::string> render_conversation(const json::object& request) {
  SLUICE_ASSIGN_OR_RETURN(const auto encoding,
                          load_chat_encoding(text_of(request, "model_type"), text_of(request, "folder"),
                                             {.template_file = text_of(request, "template_file")}));
  ChatRequest chat;
  SLUICE_ASSIGN_OR_RETURN(chat.messages, parse_chat_messages(request.at("messages")));
  if (const json::value* tools = request.if_contains("tools")) {
    SLUICE_ASSIGN_OR_RETURN(chat.tools, parse_chat_tools(*tools));
  }
  chat.add_generation_prompt = request.at("add_generation_prompt").as_bool();
  if (const json::value* variables = request.if_contains("variables")) {
    chat.template_variables = variables->as_object();
    if (const json::value* thinking = chat.template_variables.if_contains("thinking")) {
      chat.thinking = thinking->as_bool();
    }
  }
  SLUICE_ASSIGN_OR_RETURN(ChatPrompt prompt, encoding->render(chat));
  return std::move(prompt.text.bytes);
}

std::string answer(const std::string& line) {
  const json::value request = *parse_json(line, "request", {.max_depth = 256});
  const bool is_template = request.as_object().contains("template");
  const Result<std::string> text =
      is_template ? render_template(request.as_object()) : render_conversation(request.as_object());
  std::string out(text.ok() ? "{\"text\": " : "{\"error\": ");
  append_json_string(out, text.ok() ? *text : text.status().message());
  return out + "}";
}

}  // namespace
}  // namespace sluice

int main() {
  for (std::string line; std::getline(std::cin, line);) std::cout << sluice::answer(line) << std::endl;
  return 0;
}
