// Calls that show a prompt as the model gets it: /v1/chat/completions/render, /tokenize, /detokenize, /tokenizer_info.
#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "base/log.h"
#include "files/json.h"
#include "serve/api/agents/agent_request.h"
#include "serve/api/endpoints.h"
#include "serve/api/request_fields.h"
#include "serve/generate/answer_plan.h"
#include "serve/guard/request_admission.h"

namespace sluice {
namespace {

namespace json = boost::json;

ApiResult<std::string> rendered_prompt(ApiContext& context, const HttpExchangePtr& exchange) {
  auto parsed = parse_chat_completion_request(exchange->request().body, context.rules);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  const auto& request = std::get<ChatCompletionRequest>(parsed);
  if (request.chat.messages.empty()) {
    return ApiError{400, "messages: expected at least one message to render", "messages", "missing"};
  }
  auto rendered = render_chat(context, request);
  if (auto* error = std::get_if<ApiError>(&rendered)) return std::move(*error);
  const auto& [prompt, encoded] = std::get<RenderedChat>(rendered);
  name_ignored(context, exchange, request.options.ignored);
  std::string out = R"({"prompt":)";
  append_json_string(out, prompt.text.bytes);
  fmt::format_to(std::back_inserter(out), R"(,"token_ids":[{}],"count":{},"max_model_len":{}}})",
                 fmt::join(encoded.ids, ","), encoded.ids.size(), context.engine.max_model_len());
  return out;
}

std::string tokens_json(const ApiContext& context, const std::vector<std::int32_t>& ids, bool with_texts) {
  std::string out = fmt::format(R"({{"count":{},"max_model_len":{},"tokens":[{}],"token_strs":)", ids.size(),
                                context.engine.max_model_len(), fmt::join(ids, ","));
  if (!with_texts) return out + "null}";
  out += '[';
  for (const std::int32_t id : ids) {
    if (out.back() != '[') out += ',';
    append_token_text(out, context.tokenizer.token_bytes(id));
  }
  return out + "]}";
}

// A text, or messages with what belongs to them in chat.
ApiResult<std::string> tokenized(ApiContext& context, const HttpExchangePtr& exchange) {
  auto body = parse_request_object(exchange->request().body);
  if (auto* error = std::get_if<ApiError>(&body)) return std::move(*error);
  const auto& object = std::get<json::object>(body);
  RequestFields fields(object, kInTokenize, context.rules.strict_fields);
  std::optional<std::string> model, prompt;
  fields.read("model", model);
  fields.read("prompt", prompt);
  const bool adds_special = fields.value("add_special_tokens", true);
  const bool with_texts = fields.value("return_token_strs", false);
  const bool has_messages = fields.find("messages") != nullptr;
  if (has_messages == prompt.has_value()) {
    fields.refuse("prompt", "prompt: expected either a prompt or messages", "invalid_value");
  }
  fields.finish();
  if (fields.error()) return *fields.error();
  if (auto error = check_model(context, model)) return *std::move(error);
  name_ignored(context, exchange, fields.ignored());
  if (prompt) {
    auto ids = context.tokenizer.encode(*prompt, {.add_special_tokens = adds_special, .parse_special = true});
    if (!ids.ok()) return to_api_error(ids.status());
    return tokens_json(context, *ids, with_texts);
  }
  json::object chat;
  copy_shared_fields(object, kInTokenize, chat);
  auto parsed = parse_chat_completion_request(chat, context.rules);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  auto rendered = render_chat(context, std::get<ChatCompletionRequest>(parsed));
  if (auto* error = std::get_if<ApiError>(&rendered)) return std::move(*error);
  return tokens_json(context, std::get<RenderedChat>(rendered).encoded.ids, with_texts);
}

ApiResult<std::string> detokenized(ApiContext& context, const HttpExchangePtr& exchange) {
  auto body = parse_request_object(exchange->request().body);
  if (auto* error = std::get_if<ApiError>(&body)) return std::move(*error);
  RequestFields fields(std::get<json::object>(body), kInDetokenize, context.rules.strict_fields);
  std::optional<std::string> model;
  std::vector<std::int32_t> ids;
  fields.read("model", model);
  const bool skips_special = fields.value("skip_special_tokens", false);
  if (fields.find("tokens") == nullptr) fields.fail("tokens");
  fields.read_token_ids("tokens", ids);
  for (const std::int32_t id : ids) {
    if (!context.tokenizer.has_token(id)) {
      fields.refuse("tokens", fmt::format("tokens: the tokenizer has no token {}", id), "invalid_value");
      break;
    }
  }
  fields.finish();
  if (fields.error()) return *fields.error();
  if (auto error = check_model(context, model)) return *std::move(error);
  name_ignored(context, exchange, fields.ignored());
  std::string out = R"({"prompt":)";
  append_token_text(out, context.tokenizer.decode(ids, skips_special));
  return out + "}";
}

void append_special(std::string& out, const Tokenizer& tokenizer, std::string_view name,
                    std::optional<std::int32_t> id) {
  fmt::format_to(std::back_inserter(out), R"(,"{}":)", name);
  if (id) {
    append_token_text(out, tokenizer.token_bytes(*id));
  } else {
    out += "null";
  }
  fmt::format_to(std::back_inserter(out), R"(,"{}_id":{})", name, id ? fmt::format("{}", *id) : "null");
}

}  // namespace

void answer_on_worker(ApiContext& context, const HttpExchangePtr& exchange, JsonAnswer answer) {
  auto admitted = admit_call(context, exchange->request());
  if (const auto* error = std::get_if<ApiError>(&admitted)) return exchange->respond(error_response(*error));
  TaskQueue& workers = exchange->request().body.size() > kLargeBody ? context.large_workers : context.workers;
  workers.run([&context, exchange, answer = std::move(answer), place = std::move(std::get<0>(admitted))] {
    if (const auto error = check_deadline(context, exchange->request())) {
      return exchange->respond(error_response(*error));
    }
    ApiResult<std::string> answered;
    try {
      answered = answer(context, exchange);
    } catch (const std::exception& failure) {  // a lack of memory ends only this request
      log_error("request {} could not be answered: {}", exchange->request().record.id, failure.what());
      answered = ApiError{500, "the request could not be processed", "", "internal_error"};
    }
    if (const auto* error = std::get_if<ApiError>(&answered)) return exchange->respond(error_response(*error));
    HttpResponse response;
    response.body = std::move(std::get<std::string>(answered));
    exchange->respond(std::move(response));
  });
}

void render_prompt(ApiContext& context, const HttpExchangePtr& exchange) {
  answer_on_worker(context, exchange, rendered_prompt);
}

void tokenize(ApiContext& context, const HttpExchangePtr& exchange) {
  answer_on_worker(context, exchange, tokenized);
}

void detokenize(ApiContext& context, const HttpExchangePtr& exchange) {
  answer_on_worker(context, exchange, detokenized);
}

void show_tokenizer(ApiContext& context, const HttpExchangePtr& exchange) {
  const Tokenizer& tokenizer = context.tokenizer;
  std::string out = fmt::format(R"({{"tokenizer_class":"byte-level BPE","vocab_size":{},"max_model_len":{})",
                                tokenizer.vocab_size(), context.engine.max_model_len());
  append_special(out, tokenizer, "bos_token", tokenizer.bos_id());
  append_special(out, tokenizer, "eos_token", tokenizer.eos_id());
  append_special(out, tokenizer, "pad_token", std::nullopt);
  out += R"(,"chat_template":null,"special_tokens":{)";
  for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (!tokenizer.is_special(id)) continue;
    if (out.back() != '{') out += ',';
    append_token_text(out, tokenizer.token_bytes(id));
    fmt::format_to(std::back_inserter(out), ":{}", id);
  }
  HttpResponse response;
  response.body = out + "}}";
  exchange->respond(std::move(response));
}

}  // namespace sluice
