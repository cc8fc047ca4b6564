// Admission: whether a generating request may begin, before its body is read: its deadline, its key's limits, and the
// places for those that wait. Thread safety: everything may be called from any thread.
// Used by serve/api/openai/token_endpoints.cc, serve/generate/answer_job.cc, serve/generate/answer_planners.cc and
// serve/server.cc.
#pragma once

#include <memory>
#include <optional>
#include <variant>

#include "serve/api/api_context.h"
#include "serve/api/api_error.h"
#include "serve/http/http.h"

namespace sluice {

// Its place among those that wait, or why it is refused. Gives request.ticket; on the network thread.
std::variant<std::shared_ptr<Waiting::Place>, ApiError> admit(ApiContext& context, HttpRequest& request);

// The same for a call that generates nothing. It counts as one of its key's requests of the minute and among those that
// wait. It does not count as one that runs, and its tokens do not count.
std::variant<std::shared_ptr<Waiting::Place>, ApiError> admit_call(ApiContext& context, const HttpRequest& request);
// Its turn has come: whether its time has run out.
std::optional<ApiError> check_deadline(const ApiContext& context, const HttpRequest& request);

// The prompts are known: room for their tokens among those that wait, and time left. On any thread.
std::optional<ApiError> admit_tokens(const ApiContext& context, const HttpRequest& request, Waiting::Place& place,
                                     std::int64_t tokens);

// Counts tokens against the limits of the request's key.
void use_tokens(const HttpRequest& request, std::int64_t tokens);

// Sets the deadline by the request's header X-Request-Timeout, or else by the server's default. Returns an error for a
// header that is no number of seconds.
std::optional<ApiError> set_deadline(const ApiContext& context, HttpRequest& request);
ApiError deadline_error(bool has_begun);

}  // namespace sluice
