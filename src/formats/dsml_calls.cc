#include "formats/dsml_calls.h"

#include <boost/json.hpp>
#include <string_view>
#include <utility>

#include "formats/json.h"

namespace sluice {

namespace {

void append_parameter(std::string& out, std::string_view name, const boost::json::value& value) {
  out.append("<｜DSML｜parameter name=\"").append(name);
  out.append("\" string=\"").append(value.is_string() ? "true" : "false").append("\">");
  if (value.is_string()) {
    out += std::string_view(value.get_string());
  } else {
    out += dump_json_python(value);
  }
  out += "</｜DSML｜parameter>";
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

void append_dsml_calls(std::string& out, const std::vector<ChatToolCall>& calls, const DsmlBlock& block) {
  if (calls.empty()) return;
  out.append("\n\n").append(block.open).append("\n");
  for (const ChatToolCall& call : calls) {
    out.append("<｜DSML｜invoke name=\"").append(call.name).append("\">\n");
    bool first = true;
    for (const auto& [name, value] : arguments_of(call)) {
      if (!std::exchange(first, false)) out += '\n';
      append_parameter(out, name, value);
    }
    out += "\n</｜DSML｜invoke>\n";
  }
  out += block.close;
}

}  // namespace sluice
