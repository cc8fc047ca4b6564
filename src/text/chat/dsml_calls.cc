// Used by deepseek_v32_chat.cc and deepseek_v4_chat.cc.
#include "text/chat/dsml_calls.h"

#include <boost/json.hpp>
#include <string_view>
#include <utility>

#include "files/json.h"

namespace sluice {

namespace {

void append_parameter(MarkedText& out, std::string_view name, const boost::json::value& value) {
  out.own("<｜DSML｜parameter name=\"").client(name);
  out.own("\" string=\"").own(value.is_string() ? "true" : "false").own("\">");
  if (value.is_string()) {
    out.client(std::string_view(value.get_string()));
  } else {
    out.client(dump_json_python(value));
  }
  out.own("</｜DSML｜parameter>");
}

boost::json::object arguments_of(const ChatToolCall& call) {
  if (call.arguments.find_first_not_of(" \t\r\n") == std::string::npos) return {};
  auto parsed = parse_json(call.arguments, "arguments");
  if (parsed.ok() && parsed->is_object()) return std::move(parsed->get_object());
  boost::json::object object;
  object["arguments"] = call.arguments;
  return object;
}

}  // namespace

void append_dsml_calls(MarkedText& out, const std::vector<ChatToolCall>& calls, const DsmlBlock& block) {
  if (calls.empty()) return;
  out.own("\n\n").own(block.open).own("\n");
  for (const ChatToolCall& call : calls) {
    out.own("<｜DSML｜invoke name=\"").client(call.name).own("\">\n");
    bool first = true;
    for (const auto& [name, value] : arguments_of(call)) {
      if (!std::exchange(first, false)) out.own("\n");
      append_parameter(out, name, value);
    }
    out.own("\n</｜DSML｜invoke>\n");
  }
  out.own(block.close);
}

}  // namespace sluice
