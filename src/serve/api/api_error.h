// ApiError: an error in the form that OpenAI's clients read,
//   {"error": {"message": "...", "type": "...", "param": "temperature" or null, "code": "..." or null}}
// Used by serve/api, serve/api/openai, serve/guard, serve/http and serve/observe.
#pragma once

#include <string>

#include "serve/http/http.h"
#include "sluice/status.h"

namespace sluice {

struct ApiError {
  int status = 400;        // the status of HTTP; the error's type follows from it
  std::string message;     // for the user: the thing, what was expected, what was found
  std::string param;       // the field of the request; empty: null
  std::string code;        // e.g. "context_length_exceeded"; empty: null
  int retry_after = 1;     // seconds, with 429 and 503
  std::string limit = {};  // the limit that refused the request ("waiting_requests", "key_tokens", ...); "": none
};

// 400 for an invalid argument, 404, 503 or 500 as StatusCode says.
ApiError to_api_error(const Status& status);

std::string error_json(const ApiError& error);
HttpResponse error_response(const ApiError& error);

}  // namespace sluice
