// Used by serve/api, serve/api/openai, serve/guard, serve/http and serve/observe.
#include "serve/api/api_error.h"

#include <fmt/format.h>

#include "files/json.h"

namespace sluice {
namespace {

std::string_view error_type(int status) {
  if (status == 401) return "authentication_error";
  if (status == 403) return "permission_error";
  if (status == 404) return "not_found_error";
  if (status == 429) return "rate_limit_error";
  if (status == 503) return "service_unavailable_error";
  if (status >= 500) return "server_error";
  return "invalid_request_error";
}

void append_or_null(std::string& out, const std::string& text) {
  if (text.empty()) {
    out += "null";
  } else {
    append_json_string(out, text);
  }
}

}  // namespace

ApiError to_api_error(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
    case StatusCode::kInternal:
      return {500, status.message(), "", "internal_error"};
    case StatusCode::kInvalidArgument:
      return {400, status.message(), "", ""};
    case StatusCode::kNotFound:
      return {404, status.message(), "", ""};
    case StatusCode::kResourceExhausted:
    case StatusCode::kUnavailable:
    case StatusCode::kCancelled:
      return {503, status.message(), "", "unavailable"};
  }
  return {500, status.message(), "", "internal_error"};
}

std::string error_json(const ApiError& error) {
  std::string out = R"({"error":{"message":)";
  append_json_string(out, error.message);
  out += R"(,"type":)";
  append_json_string(out, error_type(error.status));
  out += R"(,"param":)";
  append_or_null(out, error.param);
  out += R"(,"code":)";
  append_or_null(out, error.code);
  out += "}}";
  return out;
}

HttpResponse error_response(const ApiError& error) {
  HttpResponse response;
  response.status = error.status;
  response.body = error_json(error);
  response.error = error.message;
  response.limit = error.limit;
  if (error.status == 429 || error.status == 503) response.retry_after = error.retry_after;
  response.wants_key = error.status == 401;
  return response;
}

}  // namespace sluice
