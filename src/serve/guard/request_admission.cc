// Used by serve/api/openai/token_endpoints.cc, serve/generate/answer_job.cc, serve/generate/answer_planners.cc and
// serve/server.cc.
#include "serve/guard/request_admission.h"

#include <fmt/format.h>

#include <charconv>
#include <string>
#include <utility>

#include "serve/guard/key_limits.h"

namespace sluice {
namespace {

constexpr double kMaxTimeoutSeconds = 7 * 24 * 3600;

// The limit is counted when the exchange ends.
ApiError refused(std::string limit, ApiError error) {
  error.limit = std::move(limit);
  return error;
}

bool is_late(const ApiContext& context, const HttpRequest& request) {
  return request.deadline && context.now() >= *request.deadline;
}

ApiError key_error(const KeyLimits::Refusal& refusal) {
  const std::string_view limit = refusal.limit;
  return {429,
          fmt::format("the limit of this key for {} is reached; try again in {} s",
                      limit == "running"    ? "requests at once"
                      : limit == "requests" ? "requests a minute"
                                            : "tokens a minute",
                      refusal.retry_after),
          "",
          limit == "running"    ? "too_many_running"
          : limit == "requests" ? "requests_per_minute"
                                : "tokens_per_minute",
          refusal.retry_after};
}

std::variant<std::shared_ptr<Waiting::Place>, ApiError> enter_waiting(const ApiContext& context) {
  std::shared_ptr<Waiting::Place> place = context.waiting->enter();
  if (place != nullptr) return place;
  return refused("waiting_requests", {429, "too many requests wait for an answer; try again", "", "too_many_waiting"});
}

}  // namespace

ApiError deadline_error(bool has_begun) {
  return refused(has_begun ? "deadline_running" : "deadline",
                 {503,
                  has_begun ? "the request's time ran out before its answer was complete"
                            : "the request's time ran out while it waited; nothing was computed",
                  "", "deadline_exceeded"});
}

std::variant<std::shared_ptr<Waiting::Place>, ApiError> admit(ApiContext& context, HttpRequest& request) {
  auto entered = context.key_limits->enter(request.record.key, context.now());
  if (const auto* refusal = std::get_if<KeyLimits::Refusal>(&entered)) {
    return refused(fmt::format("key_{}", refusal->limit), key_error(*refusal));
  }
  auto place = enter_waiting(context);
  if (std::holds_alternative<std::shared_ptr<Waiting::Place>>(place)) request.ticket = std::get<0>(std::move(entered));
  return place;
}

std::variant<std::shared_ptr<Waiting::Place>, ApiError> admit_call(ApiContext& context, const HttpRequest& request) {
  if (const auto refusal = context.key_limits->count_request(request.record.key, context.now())) {
    return refused(fmt::format("key_{}", refusal->limit), key_error(*refusal));
  }
  return enter_waiting(context);
}

std::optional<ApiError> check_deadline(const ApiContext& context, const HttpRequest& request) {
  if (is_late(context, request)) return deadline_error(false);
  return std::nullopt;
}

std::optional<ApiError> admit_tokens(const ApiContext& context, const HttpRequest& request, Waiting::Place& place,
                                     std::int64_t tokens) {
  if (auto error = check_deadline(context, request)) return error;
  if (!place.add_tokens(tokens)) {
    return refused("waiting_tokens",
                   {429, "too many tokens of prompts wait for an answer; try again", "", "too_many_waiting"});
  }
  use_tokens(request, tokens);
  return std::nullopt;
}

void use_tokens(const HttpRequest& request, std::int64_t tokens) {
  if (request.ticket) static_cast<KeyLimits::Ticket*>(request.ticket.get())->use_tokens(tokens);
}

std::optional<ApiError> set_deadline(const ApiContext& context, HttpRequest& request) {
  double seconds = context.request_timeout;
  if (const std::string_view given = request.header("x-request-timeout"); !given.empty()) {
    const auto [end, failure] = std::from_chars(given.data(), given.data() + given.size(), seconds);
    if (failure != std::errc() || end != given.data() + given.size() ||
        !(seconds > 0 && seconds <= kMaxTimeoutSeconds)) {
      return ApiError{
          400,
          fmt::format("the header X-Request-Timeout: expected seconds, more than 0 and at most {}", kMaxTimeoutSeconds),
          "", "invalid_value"};
    }
  }
  if (seconds > 0) {
    request.deadline = request.received + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                              std::chrono::duration<double>(seconds));
  }
  return std::nullopt;
}

}  // namespace sluice
