// Used by answer_planners.cc, serve/api/openai/chat_completion_request.cc and serve/server.cc.
#include "serve/generate/tool_constraint.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "files/json.h"
#include "grammar/automata/matcher.h"
#include "grammar/behind_marker.h"
#include "grammar/reasoning_budget.h"
#include "serve/generate/answer_constraint.h"

namespace sluice {
namespace {

namespace json = boost::json;

std::string_view text_at(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_string() ? std::string_view(value->get_string()) : std::string_view();
}

// {"type": "function", "function": {"name": ...}}: the name; "": it is something else.
std::string named_function(const json::value& value) {
  const json::object* object = value.if_object();
  const json::value* function = object != nullptr ? object->if_contains("function") : nullptr;
  if (function == nullptr || !function->is_object() || text_at(*object, "type") != "function") return "";
  return std::string(text_at(function->get_object(), "name"));
}

// {"type": "allowed_tools", "allowed_tools": {"mode": "auto" or "required", "tools": [...]}}
bool read_allowed(const json::object& choice, ToolChoice& out) {
  const json::value* allowed = choice.if_contains("allowed_tools");
  if (allowed == nullptr || !allowed->is_object() || text_at(choice, "type") != "allowed_tools") return false;
  const std::string_view mode = text_at(allowed->get_object(), "mode");
  const json::value* tools = allowed->get_object().if_contains("tools");
  if ((mode != "auto" && mode != "required") || tools == nullptr || !tools->is_array()) return false;
  out.forced = mode == "required";
  for (const json::value& tool : tools->get_array()) {
    out.names.push_back(named_function(tool));
    if (out.names.back().empty()) return false;
  }
  return !out.names.empty();
}

// Returns the tools of the request, then those of its messages; if two have one name, the first.
std::vector<const json::object*> offered(const ChatRequest& chat) {
  std::vector<const json::object*> out;
  const auto add = [&](const std::vector<json::value>& tools) {
    for (const json::value& tool : tools) {
      const std::string_view name = text_at(tool.get_object(), "name");
      const auto same = [name](const json::object* other) { return text_at(*other, "name") == name; };
      if (std::ranges::none_of(out, same)) out.push_back(&tool.get_object());
    }
  };
  add(chat.tools);
  for (const ChatMessage& message : chat.messages) add(message.tools);
  return out;
}

std::optional<bool> said_strict(const json::object& tool) {
  const json::value* strict = tool.if_contains("strict");
  return strict != nullptr && strict->is_bool() ? std::optional(strict->get_bool()) : std::nullopt;
}

// The schema that the arguments of a call must meet. Without parameters: a function of none, as OpenAI has it.
std::string schema_of(const json::object& tool) {
  const json::value* schema = tool.if_contains("parameters");
  const bool has_one = schema != nullptr && !schema->is_null();
  return has_one ? dump_json(*schema) : R"({"type":"object","additionalProperties":false})";
}

std::string where(std::size_t index, std::string_view key) {
  return fmt::format("tools[{}].function.{}", index, key);
}

void check_choice(RequestFields& fields, const ChatCompletionRequest& request) {
  const std::vector<const json::object*> tools = offered(request.chat);
  if (request.chat.tools.empty() && (request.tool_choice.forced || !request.tool_choice.names.empty())) {
    return fields.refuse("tool_choice", "tool_choice: expected tools with it, found none", "invalid_value");
  }
  for (const std::string& name : request.tool_choice.names) {
    const auto is_named = [&](const json::object* tool) { return text_at(*tool, "name") == name; };
    if (std::ranges::any_of(tools, is_named)) continue;
    return fields.refuse("tool_choice",
                         fmt::format("tool_choice: expected the name of one of the tools, found '{}'", name),
                         "invalid_value");
  }
  if (request.tool_choice.forced && request.options.ignore_eos) {
    fields.refuse("ignore_eos", "ignore_eos: expected false where tool_choice forces a call", "invalid_value");
  }
}

}  // namespace

void read_tools(RequestFields& fields, ChatCompletionRequest& out) {
  if (const json::value* tools = fields.find("tools")) {
    auto parsed = parse_chat_tools(*tools);
    if (!parsed.ok()) return fields.refuse("tools", parsed.status().message(), "invalid_value");
    out.chat.tools = std::move(parsed).value();
    for (std::size_t i = 0; i < out.chat.tools.size(); ++i) {
      const json::value* strict = out.chat.tools[i].get_object().if_contains("strict");
      if (strict == nullptr || strict->is_null() || strict->is_bool()) continue;
      return fields.refuse(where(i, "strict"), where(i, "strict") + ": expected true or false", "invalid_type");
    }
  }
  std::optional<bool> parallel;
  fields.read("parallel_tool_calls", parallel);
  out.tool_choice.parallel = parallel.value_or(true);
  const json::value* choice = fields.find("tool_choice");
  if (choice == nullptr) return;
  const std::string_view word = choice->is_string() ? std::string_view(choice->get_string()) : std::string_view();
  if (word == "none") {
    out.tool_choice.none = offers_tools(out.chat);
    out.chat.tools.clear();
  } else if (word == "required") {
    out.tool_choice.forced = true;
  } else if (std::string name = named_function(*choice); !name.empty()) {
    out.tool_choice.forced = true;
    out.tool_choice.parallel = false;
    out.tool_choice.names.push_back(std::move(name));
  } else if (word != "auto" && (!choice->is_object() || !read_allowed(choice->get_object(), out.tool_choice))) {
    return fields.fail("tool_choice",
                       "\"auto\", \"none\", \"required\", {\"type\": \"function\", \"function\": {\"name\": ...}} or "
                       "{\"type\": \"allowed_tools\", ...}");
  }
  check_choice(fields, out);
}

const CallMarkup* call_markup(const ChatEncoding* chat) {
  return chat == nullptr ? nullptr : chat->answer_markup().calls;
}

bool may_call(const ChatCompletionRequest& request) {
  return !request.tool_choice.none && offers_tools(request.chat);
}

std::vector<std::int32_t> banned_call_tokens(const Tokenizer& tokenizer, const ChatEncoding& chat,
                                             const ChatCompletionRequest& request) {
  const CallMarkup* const calls = chat.answer_markup().calls;
  const auto has_calls = [](const ChatMessage& message) { return !message.tool_calls.empty(); };
  const bool knows_tools = request.tool_choice.none || std::ranges::any_of(request.chat.messages, has_calls);
  std::vector<std::int32_t> out;
  if (calls == nullptr || may_call(request) || !knows_tools) return out;
  for (const std::string_view text : calls->tokens) {
    if (const auto id = text.empty() ? std::nullopt : tokenizer.token_to_id(text)) out.push_back(*id);
  }
  return out;
}

namespace {

// Which tools an answer may call, with the schemas that bind their arguments.
struct BoundTools {
  std::vector<CallGrammar::Tool> tools;
  std::vector<bool> is_best_effort;  // for each tool: its schema binds where it can be enforced
  bool any_strict = false;
};

BoundTools bind_tools(const ChatCompletionRequest& request) {
  const ToolChoice& choice = request.tool_choice;
  BoundTools out;
  std::size_t index = 0;
  for (const json::object* tool : offered(request.chat)) {
    const std::string place = where(index++, "parameters");
    const std::string_view name = text_at(*tool, "name");
    if (!choice.names.empty() && std::ranges::find(choice.names, name) == choice.names.end()) continue;
    CallGrammar::Tool& bound = out.tools.emplace_back(std::string(name));
    const std::optional<bool> strict = said_strict(*tool);
    const bool has_schema = tool->contains("parameters") && !tool->at("parameters").is_null();
    // A forced call is bound even where `strict` is false, which frameworks send unasked; but not where strict is the
    // default, so that false is a wish.
    const bool is_bound =
        strict ? choice.forced && !choice.strict_by_default : choice.forced || choice.strict_by_default;
    const bool is_best_effort = has_schema && !strict.value_or(false) && is_bound;
    out.is_best_effort.push_back(is_best_effort);
    if (!is_best_effort && !strict.value_or(false)) continue;
    out.any_strict = out.any_strict || !is_best_effort;
    bound.where = place;
    bound.schema = schema_of(*tool);
  }
  return out;
}

// The grammar with every schema; if that cannot be, without those of the best-effort schemas that cannot be enforced by
// themselves, and if that is too much, without any wish.
Result<std::shared_ptr<const TokenMasks>> grammar_of(GrammarCache& grammars, GrammarSource source,
                                                     const std::vector<bool>& is_best_effort,
                                                     std::vector<std::string>& ignored) {
  auto grammar = grammars.get(source);
  if (grammar.ok() || std::ranges::none_of(is_best_effort, [](bool one) { return one; })) return grammar;
  std::vector<std::string> dropped;
  const auto drop = [&dropped](CallGrammar::Tool& tool) {
    dropped.push_back(tool.where + " (not enforced)");
    tool.schema.clear();
  };
  for (std::size_t i = 0; i < is_best_effort.size(); ++i) {
    CallGrammar::Tool& tool = source.calls.tools[i];
    GrammarSource alone = source;
    alone.calls.tools = {tool};
    if (is_best_effort[i] && !compile(alone).ok()) drop(tool);
  }
  grammar = grammars.get(source);
  if (!grammar.ok()) {
    for (std::size_t i = 0; i < is_best_effort.size(); ++i) {
      if (is_best_effort[i] && !source.calls.tools[i].schema.empty()) drop(source.calls.tools[i]);
    }
    grammar = grammars.get(source);
  }
  if (grammar.ok()) ignored.insert(ignored.end(), dropped.begin(), dropped.end());
  return grammar;
}

}  // namespace

ApiResult<std::shared_ptr<const TokenConstraint>> make_tool_constraint(GrammarCache& grammars, const ChatEncoding& chat,
                                                                       const ChatCompletionRequest& request,
                                                                       bool reasoning_open,
                                                                       const std::string& continued,
                                                                       std::vector<std::string>& ignored) {
  using Constraint = std::shared_ptr<const TokenConstraint>;
  const ToolChoice& choice = request.tool_choice;
  if (!may_call(request)) return Constraint();
  const AnswerMarkup markup = chat.answer_markup();
  BoundTools bound = bind_tools(request);
  if (markup.calls == nullptr) {
    if (!choice.forced && !bound.any_strict) return Constraint();
    return ApiError{400,
                    "tools: neither a forced call nor a strict schema can be enforced, as this model's chat template "
                    "shows no syntax of calls that is known; --tool-call-parser names one",
                    "tools", "unsupported_value"};
  }
  if (request.options.ignore_eos) return Constraint();
  GrammarSource source{.kind = GrammarSource::Kind::kCalls};
  source.calls = {.markup = markup.calls,
                  .tools = std::move(bound.tools),
                  .forced = choice.forced,
                  .parallel = choice.parallel,
                  .may_think = markup.may_open_reasoning && !reasoning_open,
                  .may_go_on = request.options.rules.min_tokens > 0};
  const bool has_schema = request.options.constraint.has_value();
  if (has_schema) {
    source.calls.schema = request.options.constraint->text;
    source.calls.compact_schema = request.options.constraint->compact;
    source.calls.where = request.options.constraint_field;
  }
  const auto grammar = grammar_of(grammars, std::move(source), bound.is_best_effort, ignored);
  if (!grammar.ok()) {
    const std::string& message = grammar.status().message();
    const bool is_of_schema = has_schema && message.starts_with(request.options.constraint_field);
    return ApiError{400, is_of_schema || message.starts_with("tools") ? message : "tools: " + message,
                    is_of_schema ? request.options.constraint_field : "tools", "unsupported_constraint"};
  }
  const std::vector<std::string>& remarks = (*grammar)->network().remarks();
  ignored.insert(ignored.end(), remarks.begin(), remarks.end());
  Matcher matcher(*grammar);
  if (has_schema && !continued.empty() && !matcher.accept_bytes(continued)) {
    return prefix_error(request.options.constraint_field);
  }
  if (!reasoning_open) return Constraint(std::make_shared<Matcher>(matcher));
  return Constraint(std::make_shared<BehindMarker>(std::string(kReasoningEnd), matcher,
                                                   /*may_end=*/!choice.forced && !has_schema));
}

std::shared_ptr<const TokenConstraint> bound_reasoning(GrammarCache& grammars, const ChatEncoding& chat,
                                                       const GenerationOptions& options, bool reasoning_open,
                                                       std::shared_ptr<const TokenConstraint> inner) {
  if (!options.thinking_token_budget || (!reasoning_open && !chat.answer_markup().may_open_reasoning)) return inner;
  ReasoningMarks marks{.opens = reasoning_open ? "" : std::string(kReasoningStart), .ends = std::string(kReasoningEnd)};
  return std::make_shared<ReasoningBudget>(grammars.trie(), std::move(marks), *options.thinking_token_budget,
                                           inner != nullptr ? inner->copy() : nullptr);
}

}  // namespace sluice
