// Used by agent_answer.h, agent_request.h and responses_request.cc.
#include "serve/api/agents/responses_tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/string.hpp>
#include <optional>

#include "files/json.h"
#include "serve/api/agents/agent_request.h"

namespace sluice {
namespace {

namespace json = boost::json;

constexpr std::string_view kPlainInput = "The tool's input, as plain text.";
constexpr std::string_view kInput = "input";  // describes a custom tool's input, as a function's one parameter

// Returns the text that describes a custom tool's input to the model.
std::string input_rule(RequestFields& tool) {
  const json::object* format = tool.read_object("format");
  if (format == nullptr) return std::string(kPlainInput);
  RequestFields inner(tool, "format", *format);
  std::optional<std::string> type, syntax, definition;
  inner.read("type", type);
  inner.read("syntax", syntax);
  inner.read("definition", definition);
  inner.finish();
  if (type != "grammar" || !definition) return std::string(kPlainInput);
  return fmt::format("The tool's input, as plain text that this {} describes:\n{}",
                     syntax == "regex" ? "regular expression" : syntax.value_or("lark") + " grammar", *definition);
}

}  // namespace

void ResponsesTools::read(RequestFields& fields) {
  const json::value* tools = fields.find("tools");
  if (tools == nullptr) return;
  for_each_object(fields, "tools", *tools,
                  [this](RequestFields& tool, const std::string& path) { read_tool(tool, path, ""); });
  // Functions of two namespaces may have one name: then the model knows them by both.
  for (Offered& offered : offered_) {
    const auto same = std::ranges::count(offered_, offered.tool.name, [](const Offered& o) { return o.tool.name; });
    const bool is_joined = same > 1 && !offered.tool.space.empty();
    offered.model_name = is_joined ? offered.tool.space + "__" + offered.tool.name : offered.tool.name;
    offered.function["name"] = offered.model_name;
  }
}

void ResponsesTools::read_tool(RequestFields& tool, const std::string& path, const std::string& space) {
  std::optional<std::string> type, name;
  tool.read("type", type);
  if (!type) return tool.fail("type", "\"function\"");
  if (*type == "function") return read_function(tool, path, space);
  if (*type == "custom") return read_custom(tool, path, space);
  const json::value* inner = *type == "namespace" && space.empty() ? tool.find("tools") : nullptr;
  if (inner == nullptr) {
    tool.ignored().push_back(fmt::format("{} ({})", path, type->substr(0, 100)));
    return tool.forget();
  }
  tool.read("name", name);
  if (!name || name->empty()) return tool.fail("name", "the name of a namespace");
  std::optional<std::string> description;
  tool.read("description", description);
  const std::size_t before = shown_.size();
  for_each_object(tool, "tools", *inner,
                  [&](RequestFields& of, const std::string& of_path) { read_tool(of, of_path, *name); });
  json::array members(shown_.begin() + static_cast<std::ptrdiff_t>(before), shown_.end());
  shown_.erase(shown_.begin() + static_cast<std::ptrdiff_t>(before), shown_.end());
  json::object shown{{"type", "namespace"}, {"name", *name}, {"tools", std::move(members)}};
  if (description) shown["description"] = *description;
  shown_.push_back(std::move(shown));
}

void ResponsesTools::read_function(RequestFields& tool, const std::string& path, const std::string& space) {
  std::optional<std::string> name, description;
  std::optional<bool> strict;
  tool.read("name", name);
  tool.read("description", description);
  tool.read("strict", strict);
  if (!name || name->empty()) return tool.fail("name", "the name of a function");
  json::object function{{"name", *name}};
  if (description) function["description"] = *description;
  if (const json::object* parameters = tool.read_object("parameters")) function["parameters"] = *parameters;
  if (strict) function["strict"] = *strict;
  json::object shown = function;
  shown["type"] = "function";
  shown_.push_back(std::move(shown));
  offer({*name, space, false}, path, std::move(function));
}

void ResponsesTools::read_custom(RequestFields& tool, const std::string& path, const std::string& space) {
  std::optional<std::string> name, description;
  tool.read("name", name);
  tool.read("description", description);
  if (!name || name->empty()) return tool.fail("name", "the name of a tool");
  json::object shown{{"type", "custom"}, {"name", *name}};
  if (description) shown["description"] = *description;
  if (const json::object* format = tool.read_object("format")) shown["format"] = *format;
  shown_.push_back(std::move(shown));
  const std::string rule = input_rule(tool);
  if (rule != kPlainInput) tool.ignored().push_back(path + ".format (told to the model, not enforced)");
  const json::object input{{"type", "string"}, {"description", rule}};
  json::object function{{"name", *name},
                        {"parameters", json::object{{"type", "object"},
                                                    {"properties", json::object{{kInput, input}}},
                                                    {"required", json::array{kInput}},
                                                    {"additionalProperties", false}}}};
  if (description) function["description"] = *description;
  offer({*name, space, true}, path, std::move(function));
}

void ResponsesTools::offer(ClientTool tool, const std::string& path, json::object function) {
  offered_.push_back({std::move(tool), "", path, std::move(function)});
}

std::string ResponsesTools::model_name(std::string_view name, std::string_view space) const {
  for (const Offered& offered : offered_) {
    if (offered.tool.name == name && offered.tool.space == space) return offered.model_name;
  }
  return std::string(name);
}

void ResponsesTools::keep(const std::vector<std::string>& model_names) {
  std::erase_if(offered_, [&](const Offered& offered) {
    return std::ranges::find(model_names, offered.model_name) == model_names.end();
  });
}

json::array ResponsesTools::functions() const {
  json::array out;
  for (const Offered& offered : offered_) {
    out.push_back(json::object{{"type", "function"}, {"function", offered.function}});
  }
  return out;
}

std::vector<std::string> ResponsesTools::paths() const {
  std::vector<std::string> out;
  for (const Offered& offered : offered_) out.push_back(offered.path);
  return out;
}

ClientTools ResponsesTools::names() const {
  ClientTools out;
  for (const Offered& offered : offered_) {
    if (!offered.tool.space.empty() || offered.tool.is_custom) out.emplace(offered.model_name, offered.tool);
  }
  return out;
}

std::string custom_arguments(std::string_view input) {
  return dump_json(json::object{{kInput, input}});
}

std::string custom_input(std::string_view arguments) {
  for (const std::string_view end : {"", "}", "\"}"}) {
    const auto parsed = parse_json(std::string(arguments) + std::string(end), "arguments");
    if (!parsed.ok() || !parsed->is_object()) continue;
    const json::value* input = parsed->get_object().if_contains(kInput);
    if (input != nullptr && input->is_string()) return std::string(std::string_view(input->get_string()));
  }
  return "";
}

}  // namespace sluice
