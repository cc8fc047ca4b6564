#include "serve/health.h"

#include <utility>

#include "serve/api_error.h"

namespace sluice {
namespace {

constexpr double kFreshSeconds = 5.0;
constexpr double kSelfTestSeconds = 2.0;

HttpResponse health_response(bool alive) {
  if (!alive) return error_response({503, "the engine made no token within 2 seconds", "", "unavailable"});
  HttpResponse response;
  response.body = R"({"status":"ok"})";
  return response;
}

}  // namespace

void HealthCheck::answer(HttpExchangePtr exchange) {
  if (engine_.stats().seconds_since_last_token <= kFreshSeconds) return exchange->respond(health_response(true));
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = waiting_.empty();
    waiting_.push_back(std::move(exchange));
  }
  if (first) tester_.run([this] { self_test(); });
}

void HealthCheck::self_test() {
  const bool alive = engine_.self_test(kSelfTestSeconds);
  std::vector<HttpExchangePtr> waiting;
  {
    const std::lock_guard lock(mutex_);
    waiting.swap(waiting_);
  }
  for (const HttpExchangePtr& exchange : waiting) exchange->respond(health_response(alive));
}

}  // namespace sluice
