// The endpoints that only report something.
#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "files/json.h"
#include "serve/api/api_document.h"
#include "serve/api/endpoints.h"

namespace sluice {
namespace {

constexpr std::string_view kModelsPath = "/v1/models/";

void respond_json(const HttpExchangePtr& exchange, std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  exchange->respond(std::move(response));
}

std::string model_json(const ApiContext& context) {
  std::string out = R"({"id":)";
  append_json_string(out, context.model_name);
  fmt::format_to(std::back_inserter(out), R"(,"object":"model","created":{},"owned_by":"sluice","max_model_len":{}}})",
                 context.created, context.engine.max_model_len());
  return out;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string percent_decode(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0) {
      out += static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

void list_models(ApiContext& context, const HttpExchangePtr& exchange) {
  respond_json(exchange, fmt::format(R"({{"object":"list","data":[{}]}})", model_json(context)));
}

void show_model(ApiContext& context, const HttpExchangePtr& exchange) {
  const std::string name = percent_decode(std::string_view(exchange->request().path).substr(kModelsPath.size()));
  if (auto error = check_model(context, name)) return exchange->respond(error_response(*error));
  respond_json(exchange, model_json(context));
}

void show_metrics(ApiContext& context, const HttpExchangePtr& exchange) {
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = context.metrics.text();
  exchange->respond(std::move(response));
}

void show_openapi(ApiContext& /*context*/, const HttpExchangePtr& exchange) {
  respond_json(exchange, openapi_json());
}

void show_index(ApiContext& context, const HttpExchangePtr& exchange) {
  if (wants_page(exchange->request())) return show_page(context, exchange);
  std::string out = R"({"server":"sluice","model":)";
  append_json_string(out, context.model_name);
  out +=
      R"(,"endpoints":["POST /v1/chat/completions","POST /v1/completions","POST /v1/responses","POST /v1/messages",)"
      R"("POST /v1/messages/count_tokens","POST /v1/responses/input_tokens","POST /v1/chat/completions/render","POST /tokenize","POST /detokenize",)"
      R"("POST /v1/score","GET /tokenizer_info","GET /v1/models","GET /health",)"
      R"("GET /metrics","GET /openapi.json","GET /debug/cache","POST /debug/cache/reset",)"
      R"("GET /debug/engine/stream","GET /debug/engine/trace","GET /debug/engine/perfetto"]})";
  respond_json(exchange, std::move(out));
}

}  // namespace sluice
