#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/string.hpp>

#include "files/json.h"
#include "serve/api/openai/openai_request.h"
#include "serve/api/request_fields.h"
#include "serve/generate/answer_constraint.h"
#include "serve/generate/tool_constraint.h"

namespace sluice {
namespace {

namespace json = boost::json;

std::string_view text_of(const json::value& value) {
  return value.is_string() ? std::string_view(value.get_string()) : std::string_view();
}

void read_logprobs(RequestFields& fields, SamplingParams& out) {
  const bool is_asked_for = fields.value("logprobs", false);
  const int top = fields.value("top_logprobs", 0);
  if (top > 0 && !is_asked_for) {
    fields.refuse("top_logprobs", "top_logprobs: only allowed when logprobs is true", "invalid_value");
  }
  if (is_asked_for) out.top_logprobs = top;
}

// A schema is also written into the prompt, as the models are trained on, where the encoding has a place for it.
void read_format(RequestFields& fields, ChatCompletionRequest& out) {
  const json::object* schema = read_constraint(fields, out.options);
  if (out.tool_choice.forced && out.options.constraint_field.starts_with("response_format")) {
    out.options.constraint.reset();  // it constrains the answer's text, and a forced call has none
  } else if (schema != nullptr) {
    out.chat.response_format = *schema;
  }
  out.chat.format_is_enforced = true;
  // With tools, the answer calls one or is JSON of the schema.
  const bool is_schema = out.options.constraint && out.options.constraint->kind == GrammarSource::Kind::kJsonSchema;
  if (out.options.constraint && !is_schema && !out.chat.tools.empty()) {
    fields.refuse(out.options.constraint_field,
                  out.options.constraint_field +
                      ": only a JSON schema is supported together with tools; set tool_choice "
                      "to \"none\"",
                  "unsupported_value");
  }
}

// Reads the keys of chat_template_kwargs other than those that every encoding knows. An encoding that is no template
// refuses them.
void read_template_variables(const json::object& kwargs, ChatRequest& out) {
  constexpr std::array<std::string_view, 4> kKnown = {"enable_thinking", "thinking", "drop_thinking",
                                                      "reasoning_effort"};
  for (const auto& [name, value] : kwargs) {
    if (std::ranges::find(kKnown, std::string_view(name)) == kKnown.end()) out.template_variables[name] = value;
  }
}

// Thinking is on or off by, in this order: chat_template_kwargs.thinking (or enable_thinking, as other families call
// it), thinking.type, reasoning_effort ("none" or another one), the encoding's default.
void read_thinking(RequestFields& fields, ChatRequest& out) {
  std::optional<std::string> effort;
  fields.read("reasoning_effort", effort);
  if (const json::object* thinking = fields.read_object("thinking")) {
    RequestFields inner(fields, "thinking", *thinking);
    std::optional<std::string> type;
    inner.read("type", type);
    if (type != "enabled" && type != "disabled") inner.fail("type", "\"enabled\" or \"disabled\"");
    inner.finish();
    out.thinking = type == "enabled";
  }
  if (const json::object* kwargs = fields.read_object("chat_template_kwargs")) {
    RequestFields inner(fields, "chat_template_kwargs", *kwargs);
    inner.read("enable_thinking", out.thinking);
    inner.read("thinking", out.thinking);
    out.drop_thinking = inner.value("drop_thinking", true);
    inner.read("reasoning_effort", effort);
    if (inner.error()) return fields.refuse_with(*inner.error());
    read_template_variables(*kwargs, out);
  }
  if (effort) {
    if (!out.thinking) out.thinking = effort != "none";
    if (effort != "none") out.reasoning_effort = effort;
  }
}

void read_messages(RequestFields& fields, ChatRequest& out) {
  const json::value* messages = fields.find("messages");
  if (messages == nullptr) return fields.refuse("messages", "messages: expected an array, found nothing", "missing");
  std::vector<std::string> unknown;
  auto parsed = parse_chat_messages(*messages, fields.strict() ? nullptr : &unknown);
  if (!parsed.ok()) return fields.refuse("messages", parsed.status().message(), "invalid_value");
  out.messages = std::move(parsed).value();
  std::ranges::move(unknown, std::back_inserter(fields.ignored()));
}

// {"type": "content", "content": a text, or an array of text parts}
void read_prediction(RequestFields& fields, GenerationOptions& out) {
  const json::object* prediction = fields.read_object("prediction");
  if (prediction == nullptr) return;
  constexpr std::string_view kExpected = R"({"type": "content", "content": a string or an array of text parts})";
  const json::value* content = prediction->if_contains("content");
  if (content == nullptr ||
      text_of(prediction->contains("type") ? prediction->at("type") : json::value()) != "content") {
    return fields.fail("prediction", kExpected);
  }
  if (content->is_string()) {
    out.prediction = std::string(content->get_string());
    return;
  }
  if (!content->is_array()) return fields.fail("prediction", kExpected);
  for (const json::value& part : content->get_array()) {
    const json::object* object = part.if_object();
    const json::value* text = object != nullptr ? object->if_contains("text") : nullptr;
    if (text == nullptr || !text->is_string()) return fields.fail("prediction", kExpected);
    out.prediction += text->get_string();
  }
}

// vLLM's words for a prefix: the last message goes on, and no turn is opened.
void read_continuation(RequestFields& fields, ChatRequest& out) {
  const bool is_prefix = fields.value("continue_final_message", false);
  std::optional<bool> opens_turn;
  fields.read("add_generation_prompt", opens_turn);
  if (opens_turn && *opens_turn == is_prefix) {
    return fields.fail("add_generation_prompt", is_prefix ? "false with continue_final_message" : "true");
  }
  if (!is_prefix || out.messages.empty()) return;
  if (out.messages.back().role != ChatRole::kAssistant) {
    return fields.refuse("continue_final_message",
                         "continue_final_message: expected a last message of the role assistant", "invalid_value");
  }
  out.messages.back().prefix = true;
}

}  // namespace

ApiResult<ChatCompletionRequest> parse_chat_completion_request(std::string_view body, const RequestRules& rules) {
  auto parsed = parse_request_object(body);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  return parse_chat_completion_request(std::get<json::object>(parsed), rules);
}

ApiResult<ChatCompletionRequest> parse_chat_completion_request(const json::object& body, const RequestRules& rules) {
  RequestFields fields(body, kInChat, rules.strict_fields);
  ChatCompletionRequest out;
  fields.read("model", out.model);
  fields.read_token_ids("prompt_token_ids", out.prompt_ids);
  if (out.prompt_ids.empty()) {
    read_messages(fields, out.chat);
  } else if (fields.find("messages") != nullptr) {
    fields.refuse("prompt_token_ids", "prompt_token_ids: expected no messages beside them", "invalid_value");
  }
  read_continuation(fields, out.chat);
  read_generation_options(fields, rules.defaults, out.options);
  read_logprobs(fields, out.options.engine.sampling);
  read_tools(fields, out);
  read_format(fields, out);
  read_thinking(fields, out.chat);
  read_prediction(fields, out.options);
  std::optional<std::int64_t> budget;
  fields.read("thinking_token_budget", budget);
  if (budget) out.options.thinking_token_budget = static_cast<int>(*budget);
  fields.finish();
  if (fields.error()) return *fields.error();
  out.options.ignored = std::move(fields.ignored());
  return out;
}

}  // namespace sluice
