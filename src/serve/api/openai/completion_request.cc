// Used by serve, serve/api, serve/api/agents, serve/api/openai and serve/generate.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/string.hpp>
#include <limits>

#include "serve/api/openai/openai_request.h"
#include "serve/api/request_fields.h"
#include "serve/generate/answer_constraint.h"

namespace sluice {
namespace {

namespace json = boost::json;

constexpr int kDefaultMaxTokens = 16;  // OpenAI's

bool is_token_id(const json::value& value) {
  return value.is_int64() && value.get_int64() >= 0 && value.get_int64() <= std::numeric_limits<std::int32_t>::max();
}

bool read_ids(const json::array& array, std::vector<std::int32_t>& out) {
  out.reserve(array.size());
  for (const json::value& id : array) {
    if (!is_token_id(id)) return false;
    out.push_back(static_cast<std::int32_t>(id.get_int64()));
  }
  return true;
}

// Reads one prompt or several, each a text or token ids.
void read_prompts(RequestFields& fields, CompletionRequest& out) {
  const std::string expected =
      fmt::format("a string, an array of token ids, or an array of 1 to {} of either", kMaxPrompts);
  const json::value* prompt = fields.find("prompt");
  if (prompt == nullptr) return fields.fail("prompt", expected);
  if (prompt->is_string()) {
    out.prompts.emplace_back(std::string(std::string_view(prompt->get_string())));
    return;
  }
  if (!prompt->is_array() || prompt->get_array().empty()) return fields.fail("prompt", expected);
  const json::array& array = prompt->get_array();
  if (array[0].is_int64()) {
    std::vector<std::int32_t> ids;
    if (!read_ids(array, ids)) return fields.fail("prompt", expected);
    out.prompts.emplace_back(std::move(ids));
    return;
  }
  if (array.size() > kMaxPrompts) return fields.fail("prompt", expected);
  for (const json::value& item : array) {
    std::vector<std::int32_t> ids;
    if (item.is_string()) {
      out.prompts.emplace_back(std::string(std::string_view(item.get_string())));
    } else if (item.is_array() && read_ids(item.get_array(), ids)) {
      out.prompts.emplace_back(std::move(ids));
    } else {
      return fields.fail("prompt", expected);
    }
  }
}

}  // namespace

ApiResult<CompletionRequest> parse_completion_request(std::string_view body, const RequestRules& rules) {
  auto parsed = parse_request_object(body);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  RequestFields fields(std::get<json::object>(parsed), kInCompletion, rules.strict_fields);
  CompletionRequest out;
  fields.read("model", out.model);
  read_prompts(fields, out);
  read_generation_options(fields, rules.defaults, out.options);
  if (!out.options.max_tokens) out.options.max_tokens = kDefaultMaxTokens;
  std::optional<std::int64_t> logprobs;
  fields.read("logprobs", logprobs);
  if (logprobs) out.options.engine.sampling.top_logprobs = static_cast<int>(*logprobs);
  out.echo = fields.value("echo", false);
  fields.read("suffix", out.suffix);
  if (out.suffix && out.suffix->empty()) out.suffix.reset();
  if (out.suffix && out.echo) {
    fields.refuse("suffix", "suffix: not supported together with echo", "unsupported_value");
  }
  read_constraint(fields, out.options);
  fields.finish();
  if (fields.error()) return *fields.error();
  out.options.ignored = std::move(fields.ignored());
  return out;
}

// Texts are scored, and nothing is generated.
ApiResult<CompletionRequest> parse_score_request(std::string_view body, const RequestRules& rules) {
  auto parsed = parse_request_object(body);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  RequestFields fields(std::get<json::object>(parsed), kInScore, rules.strict_fields);
  CompletionRequest out;
  fields.read("model", out.model);
  read_prompts(fields, out);
  GenerationOptions& options = out.options;
  options.engine.sampling.temperature = 0;
  options.max_tokens = 0;
  options.engine.prompt_logprobs_start = std::max(1, fields.value("start", 1));
  options.engine.prompt_logprobs = fields.value("top", 0);
  options.engine.prompt_distributions = fields.value("distributions", false);
  options.return_token_ids = true;
  read_exports(fields, options);
  read_scheduling(fields, options);
  fields.finish();
  if (fields.error()) return *fields.error();
  options.ignored = std::move(fields.ignored());
  return out;
}

}  // namespace sluice
