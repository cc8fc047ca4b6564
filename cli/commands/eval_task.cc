#include "cli/commands/eval_task.h"

#include <fmt/format.h>

#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>
#include <charconv>
#include <optional>
#include <utility>

#include "base/storage/mapped_file.h"
#include "files/json.h"
#include "files/json_fields.h"

namespace sluice {
namespace {

namespace json = boost::json;

// Returns the number that a text begins with: "$1,234.50 is left" gives 1234.5.
std::optional<double> leading_number(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n$"), text.size()));
  std::string digits;
  for (const char c : text) {
    if (c == ',') continue;
    if ((c < '0' || c > '9') && c != '.' && c != '-') break;
    digits += c;
  }
  while (digits.ends_with('.')) digits.pop_back();  // the points end a sentence
  double number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

bool number_after_hashes(const EvalItem& item, const EvalAnswer& answer) {
  constexpr std::string_view kMark = "####";
  const std::size_t mark = answer.content.rfind(kMark);
  if (mark == std::string::npos) return false;
  const auto found = leading_number(std::string_view(answer.content).substr(mark + kMark.size()));
  return found.has_value() && found == leading_number(item.expected_answer);
}

bool content_equals(const EvalItem& item, const EvalAnswer& answer) {
  return answer.content == item.expected_answer;
}

bool answer_occurs(const EvalItem& item, const EvalAnswer& answer) {
  return answer.content.find(item.expected_answer) != std::string::npos;
}

bool calls_equal(const EvalItem& item, const EvalAnswer& answer) {
  if (answer.calls.size() != item.expected_calls.size()) return false;
  for (std::size_t i = 0; i < answer.calls.size(); ++i) {
    if (answer.calls[i].name != item.expected_calls[i].name) return false;
    const Result<json::value> arguments = parse_json(answer.calls[i].arguments, "arguments");
    if (!arguments.ok() || *arguments != item.expected_calls[i].arguments) return false;
  }
  return true;
}

struct NamedRule {
  std::string_view name;
  EvalItem::Rule rule;
  std::string_view needs;  // the key of the expected answer
};
constexpr std::array<NamedRule, 4> kRules{{
    {R"(the number after the last "####" equals expected_answer)", number_after_hashes, "expected_answer"},
    {"content equals expected_answer", content_equals, "expected_answer"},
    {"expected_answer occurs in the answer (after </think>)", answer_occurs, "expected_answer"},
    {"tool name and arguments are equal", calls_equal, "expected_tool_calls"},
}};

Status read_rule(JsonFields& fields, EvalItem& item) {
  std::string name;
  fields.require("check", name);
  SLUICE_RETURN_IF_ERROR(fields.status());
  std::string known;
  for (const NamedRule& rule : kRules) {
    if (rule.name == name) {
      item.rule = rule.rule;
      if (!fields.has(rule.needs)) fields.fail(rule.needs, "what the rule compares with");
      return fields.status();
    }
    known += fmt::format("{}'{}'", known.empty() ? "" : ", ", rule.name);
  }
  fields.fail("check", "one of the rules " + known);
  return fields.status();
}

Status read_expected_calls(JsonFields& fields, EvalItem& item, const std::string& what) {
  const json::value* calls = fields.find("expected_tool_calls");
  if (calls == nullptr) return {};
  if (!calls->is_array()) {
    fields.fail("expected_tool_calls", "an array");
    return fields.status();
  }
  for (const json::value& value : calls->get_array()) {
    JsonFields call(value, what + ": expected_tool_calls");
    EvalItem::Call expected;
    call.require("name", expected.name);
    SLUICE_RETURN_IF_ERROR(call.status());
    const json::value* arguments = call.find("arguments");
    if (arguments == nullptr) {
      call.fail("arguments", "an object or its JSON text");
      return call.status();
    }
    expected.arguments = *arguments;
    if (arguments->is_string()) {
      SLUICE_ASSIGN_OR_RETURN(expected.arguments, parse_json(arguments->get_string(), what + ": arguments"));
    }
    item.expected_calls.push_back(std::move(expected));
  }
  return {};
}

// The expected answer may be written as a number.
Status read_expected_answer(JsonFields& fields, EvalItem& item) {
  const json::value* expected = fields.find("expected_answer");
  if (expected == nullptr) return {};
  if (expected->is_string()) {
    item.expected_answer = std::string(expected->get_string());
  } else if (expected->is_number()) {
    item.expected_answer = dump_json(*expected);
  } else {
    fields.fail("expected_answer", "a string or a number");
  }
  return fields.status();
}

}  // namespace

Result<EvalItem> parse_eval_item(std::string_view line, const std::string& what) {
  SLUICE_ASSIGN_OR_RETURN(const json::value value, parse_json(line, what));
  JsonFields fields(value, what);
  EvalItem item;
  std::string mode;
  fields.require("id", item.id);
  fields.require("mode", mode);
  if (fields.status().ok() && mode != "chat" && mode != "thinking") fields.fail("mode", "chat or thinking");
  item.request.thinking = mode == "thinking";
  const json::value* messages = fields.find("messages");
  if (messages == nullptr) fields.fail("messages", "an array of messages");
  SLUICE_RETURN_IF_ERROR(fields.status());
  auto parsed = parse_chat_messages(*messages);
  if (!parsed.ok()) return parsed.status().with_context(what);
  item.request.messages = std::move(parsed).value();
  if (const json::value* tools = fields.find("tools")) {
    auto functions = parse_chat_tools(*tools);
    if (!functions.ok()) return functions.status().with_context(what);
    item.request.tools = std::move(functions).value();
  }
  SLUICE_RETURN_IF_ERROR(read_rule(fields, item));
  SLUICE_RETURN_IF_ERROR(read_expected_answer(fields, item));
  SLUICE_RETURN_IF_ERROR(read_expected_calls(fields, item, what));
  return item;
}

Result<std::vector<EvalItem>> load_eval_task(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(const std::string text, read_text_file(path));
  std::vector<EvalItem> items;
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    SLUICE_ASSIGN_OR_RETURN(EvalItem item, parse_eval_item(line, fmt::format("{} line {}", path, number)));
    items.push_back(std::move(item));
  }
  if (items.empty()) return invalid_argument(path + ": expected at least one item, found none");
  return items;
}

}  // namespace sluice
