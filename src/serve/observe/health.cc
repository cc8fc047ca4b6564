// Used by serve/server.cc.
#include "serve/observe/health.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/threads/mutex.h"
#include "serve/api/api_error.h"

namespace sluice {
namespace {

constexpr double kFreshSeconds = 5.0;
constexpr double kSelfTestSeconds = 2.0;
constexpr double kLongSeconds = 3600.0;

void respond_all(std::vector<HttpExchangePtr> waiting, const HttpResponse& response) {
  for (const HttpExchangePtr& exchange : waiting) exchange->respond(response);
}

HttpResponse unhealthy(const std::string& why) {
  return error_response({503, why, "", "unavailable"});
}

HttpResponse health_response(bool alive) {
  if (!alive) return unhealthy("the engine made no token within 2 seconds");
  HttpResponse response;
  response.body = R"({"status":"ok"})";
  return response;
}

}  // namespace

bool HealthCheck::answer_failed(const HttpExchangePtr& exchange) {
  const Status health = engine_.health();
  if (!health.ok()) exchange->respond(unhealthy(health.message()));
  return !health.ok();
}

void HealthCheck::answer(HttpExchangePtr exchange) {
  if (answer_failed(exchange)) return;
  if (engine_.stats().seconds_since_last_token <= kFreshSeconds) return exchange->respond(health_response(true));
  bool first = false;
  {
    const MutexLock lock(mutex_);
    first = waiting_.empty();
    waiting_.push_back(std::move(exchange));
  }
  if (first) tester_.run([this] { self_test(); });
}

void HealthCheck::self_test() {
  const bool alive = engine_.self_test(kSelfTestSeconds);
  std::vector<HttpExchangePtr> waiting;
  {
    const MutexLock lock(mutex_);
    waiting.swap(waiting_);
  }
  respond_all(std::move(waiting), health_response(alive));
}

void HealthCheck::answer_ready(HttpExchangePtr exchange) {
  if (!stopping_) return answer(std::move(exchange));
  exchange->respond(unhealthy("the server is shutting down"));
}

void HealthCheck::answer_live(HttpExchangePtr exchange) {
  if (answer_failed(exchange)) return;
  const double turn = engine_.stats().turn_seconds;
  if (most_turn_seconds_ > 0 && turn > most_turn_seconds_) {
    const std::string message = fmt::format("the engine has been in one step for {:.0f} seconds", turn);
    return exchange->respond(unhealthy(message));
  }
  bool first = false;
  {
    const MutexLock lock(mutex_);
    first = waiting_live_.empty();
    waiting_live_.push_back(std::move(exchange));
  }
  if (first) live_tester_.run([this] { live_test(); });
}

void HealthCheck::live_test() {
  const bool turns = engine_.ping(most_turn_seconds_ > 0 ? most_turn_seconds_ : kLongSeconds);
  std::vector<HttpExchangePtr> waiting;
  {
    const MutexLock lock(mutex_);
    waiting.swap(waiting_live_);
  }
  HttpResponse response;
  response.body = R"({"status":"ok"})";
  if (!turns) response = unhealthy("the engine does not respond");
  respond_all(std::move(waiting), response);
}

}  // namespace sluice
